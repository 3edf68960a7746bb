//! `hub setup`: the writes after which argocd-server on the hub shows what is on the clusters, and those that undo them.
//! Pure.
//!
//! The values from before are in an annotation of the object that is changed ([`HUB_SETUP`]). So a run that ends early can be
//! repeated, and undo knows a value that another client has set since.

mod args;
mod holder;
mod obstacles;
mod record;
mod rights;
mod view;

use argocd::{Meta, keys::addon::HUB_SETUP};
use jiff::Timestamp;
use live::redis_service::is_instance;
use serde::Serialize;
use serde_json::{Value, json};

pub use args::{HubCommand, SetupArgs};
pub use rights::ROLE;

use crate::{
    check::{Finding, ServerRight, failed},
    hub::{DEPLOYMENTS, Kind},
    object::{list, put, text, time, value},
};
use holder::{Holder, Wanted};
use record::Record;

/// What was read.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The namespace of the hub's Argo CD.
    pub argocd_namespace: String,
    /// That of the hub program.
    pub own_namespace: String,
    /// The clusters with the add-on.
    pub clusters: Vec<String>,
    /// Further patterns of namespaces that the caller wants to see.
    pub patterns: Vec<String>,
    /// The hub program's Deployment.
    pub manager: Option<Value>,
    /// The Deployment of argocd-server; null for undo where Argo CD was removed.
    pub server: Value,
    /// Argo CD's parameters.
    pub parameters: Option<Value>,
    /// The resource of Argo CD's operator, if the operator deploys argocd-server.
    pub operated: Option<Value>,
    /// The `ClusterRole` of setup.
    pub role: Option<Value>,
    /// Its binding.
    pub binding: Option<Value>,
    /// What argocd-server may do with Applications of clusters.
    pub server_rights: Vec<ServerRight>,
    /// The workloads that may be Argo CD application controllers.
    pub controllers: Result<Vec<Value>, String>,
    /// The `NetworkPolicies` in Argo CD's namespace.
    pub fences: Vec<Value>,
    /// Whether the Secret with the password of redis exists.
    pub has_password: bool,
    /// Whether Argo CD's notifications controller is there.
    pub has_notifications: bool,
    /// The time of the changes.
    pub now: Timestamp,
}

/// The changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// How far they are.
    pub state: State,
    /// The changes, in the order in which they are written.
    pub changes: Vec<ObjectChange>,
    /// What has to be done before.
    pub obstacles: Vec<Finding>,
    /// What else the reader should know.
    pub notes: Vec<Finding>,
    /// Whether this is undo.
    #[serde(skip)]
    pub undo: bool,
    /// The namespace of the hub's Argo CD.
    #[serde(skip)]
    pub argocd_namespace: String,
}

/// How far the changes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// There is nothing to change.
    Unchanged,
    /// Something has to be done before; nothing is written.
    Blocked,
    /// They can be written.
    Planned,
    /// They are written.
    Written,
}

/// A change of one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ObjectChange {
    /// Its kind.
    pub kind: &'static str,
    /// Its namespace; none for cluster scope.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// How it changes.
    pub action: Action,
    /// The fields that change.
    pub fields: Vec<FieldChange>,
    /// The request.
    #[serde(skip)]
    pub write: Write,
}

/// How an object changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Fields of it.
    Patch,
    /// It is new.
    Create,
    /// It goes.
    Delete,
    /// Its Pods are replaced.
    Restart,
}

/// A field of an object; null where it is absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldChange {
    /// Its path.
    pub field: String,
    /// The present value.
    pub before: Value,
    /// The value to set.
    pub after: Value,
}

/// A request to the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// A merge patch.
    Merge(Kind, Value),
    /// A new object.
    Create(Kind, Value),
    /// The deletion of an object in this version.
    Delete(Kind, String),
}

impl FieldChange {
    fn new(field: &str, before: Value, after: Value) -> Self {
        Self {
            field: field.to_owned(),
            before,
            after,
        }
    }
}

impl ObjectChange {
    /// Kind, namespace and name.
    pub fn title(&self) -> String {
        let namespace = self.namespace.as_ref().map(|it| format!("{it}/"));
        let namespace = namespace.unwrap_or_default();
        format!("{} {namespace}{}", self.kind, self.name)
    }
}

/// The changes after which argocd-server shows what is on the clusters.
pub fn plan(facts: &Facts) -> Plan {
    let mut plan = Plan::new(facts, false);
    match holder::all(facts).next() {
        Some(holder) => plan.set(facts, holder),
        None => plan.block(
            "argo cd",
            &format!(
                "ConfigMap {}/argocd-cmd-params-cm not found",
                facts.argocd_namespace
            ),
            "create it, as Argo CD's own manifests do",
        ),
    }
    plan.settled()
}

/// The changes after which everything is as before the first setup.
pub fn undo(facts: &Facts) -> Plan {
    let mut plan = Plan::new(facts, true);
    for holder in holder::all(facts) {
        match Record::of(holder.object) {
            Ok(Some(record)) => plan.restore(facts, holder, &record),
            Ok(None) => {}
            Err(cause) => plan.block_unreadable(holder, &cause),
        }
    }
    plan.changes.extend(rights::removed(facts));
    plan.settled()
}

impl Plan {
    fn new(facts: &Facts, undo: bool) -> Self {
        Self {
            state: State::Unchanged,
            changes: Vec::new(),
            obstacles: Vec::new(),
            notes: Vec::new(),
            undo,
            argocd_namespace: facts.argocd_namespace.clone(),
        }
    }

    fn block(&mut self, check: &'static str, cause: &str, next: &str) {
        self.obstacles
            .push(Finding::of((check, failed(cause, next))));
    }

    fn block_unreadable(&mut self, holder: Holder<'_>, cause: &str) {
        let title = holder.title();
        let cause = format!("the annotation {HUB_SETUP} of {title} cannot be read: {cause}");
        self.block(
            "record",
            &cause,
            "remove the annotation; the values from before setup are lost then",
        );
    }

    fn settled(mut self) -> Self {
        self.state = match (self.obstacles.is_empty(), self.changes.is_empty()) {
            (false, _) => State::Blocked,
            (true, true) => State::Unchanged,
            (true, false) => State::Planned,
        };
        self
    }

    /// Whether something is left for the caller to do.
    pub fn is_bad(&self) -> bool {
        !self.obstacles.is_empty() || (self.undo && !self.notes.is_empty())
    }

    fn set(&mut self, facts: &Facts, holder: Holder<'_>) {
        // The operator makes Roles for the namespaces itself.
        if !holder.is_operated {
            match rights::granted(facts) {
                Ok(changes) => self.changes.extend(changes),
                Err(cause) => self.block("rights", &cause, "then run this again"),
            }
        }
        let wanted = holder.wanted(facts);
        self.obstacles
            .extend(obstacles::obstacles(facts, holder, &wanted));
        let record = match Record::of(holder.object) {
            Ok(record) => record,
            Err(cause) => return self.block_unreadable(holder, &cause),
        };
        self.set_values(facts, holder, &wanted, record);
    }

    fn set_values(
        &mut self,
        facts: &Facts,
        holder: Holder<'_>,
        wanted: &Wanted,
        record: Option<Record>,
    ) {
        let changed = record.as_ref().and_then(|it| it.changed);
        let is_changed = !wanted.values.is_empty();
        if is_changed {
            self.notes.extend(obstacles::notes(facts, holder, wanted));
            self.changes
                .push(holder.set(&wanted.values, record, facts.now));
        }
        // The operator's flags change the Pods themselves.
        if !holder.is_operated {
            self.changes.extend(restart(facts, is_changed, changed));
        }
    }

    fn restore(&mut self, facts: &Facts, holder: Holder<'_>, record: &Record) {
        let (change, kept) = holder.restore(record, facts.now);
        self.notes.extend(kept.into_iter().map(Finding::of));
        let is_changed = change.is_some();
        self.changes.extend(change);
        if !holder.is_operated {
            self.changes
                .extend(restart(facts, is_changed, record.changed));
        }
        // Last, so that a run that ends early is continued.
        self.changes.push(holder.forget());
    }
}

/// What `kubectl rollout restart` sets.
const RESTARTED: &[&str] = &[
    "spec",
    "template",
    "metadata",
    "annotations",
    "kubectl.kubernetes.io/restartedAt",
];

/// A restart of argocd-server, if its settings change now, or changed after it last started.
fn restart(facts: &Facts, is_changed: bool, changed: Option<Timestamp>) -> Option<ObjectChange> {
    let server = &facts.server;
    let before = value(server, RESTARTED);
    let restarted = before.as_str().and_then(|it| it.parse::<Timestamp>().ok());
    let started = restarted.max(time(server, "/metadata/creationTimestamp"));
    if server.is_null() || (!is_changed && changed <= started) {
        return None;
    }
    let after = json!(facts.now.to_string());
    // Not bound to a version: the status of a Deployment changes at any time, and a restart overwrites no other value.
    let mut body = json!({});
    put(&mut body, RESTARTED, after.clone());
    let meta = Meta::of(server);
    Some(ObjectChange {
        kind: "Deployment",
        namespace: Some(meta.namespace().to_owned()),
        name: meta.name().to_owned(),
        action: Action::Restart,
        fields: vec![FieldChange::new(&RESTARTED.join("."), before, after)],
        write: Write::Merge(DEPLOYMENTS, body),
    })
}

/// A merge patch that the API refuses if the object has changed since it was read.
fn as_read(object: &Value) -> Value {
    let mut body = json!({});
    let version = Meta::of(object).resource_version();
    put(&mut body, &["metadata", "resourceVersion"], json!(version));
    body
}

/// The instance of Argo CD's operator that deploys argocd-server, if one does.
pub fn instance(server: &Value) -> Option<&str> {
    let mut owners = list(server, "/metadata/ownerReferences").iter();
    let owner = owners.find(|it| is_instance(text(it, "/kind")))?;
    Some(text(owner, "/name"))
}

#[cfg(test)]
mod tests;
