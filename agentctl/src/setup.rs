//! `hub setup`: the writes after which argocd-server on the hub shows what is on the clusters, and has the pages of the add-on
//! in its UI; and the writes that undo them. Pure.
//!
//! The values from before are in an annotation of the object that is changed ([`HUB_SETUP`]). So a run that ends early can be
//! repeated, and undo knows a value that another client has set since.

mod args;
mod change;
mod holder;
mod obstacles;
mod record;
mod redis;
mod restore;
mod rights;
mod ui;
mod view;

use argocd::{Meta, keys::addon::HUB_SETUP};
use diagnosis::object::{full_name, list, put, text, value};
use jiff::Timestamp;
use live::redis_service::is_instance;
use serde::Serialize;
use serde_json::{Value, json};

pub use args::{HubCommand, SetupArgs};
pub use change::{Action, FieldChange, ObjectChange, Parts, State, Write};
pub use rights::ROLE;

use crate::{
    check::{Finding, ServerRight, failed},
    hub::DEPLOYMENTS,
    ui::started,
};
use holder::{Holder, Path, Wanted};
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
    /// Argo CD's settings.
    pub settings: Option<Value>,
    /// Argo CD's policies.
    pub policies: Option<Value>,
    /// When the token of the pages in the UI was last written; none if there is no token.
    pub token: Option<Timestamp>,
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
    /// The Services in Argo CD's namespace, among which the hub program finds redis.
    pub services: Vec<Value>,
    /// Whether the Secret with the password of redis exists.
    pub has_password: bool,
    /// Whether Argo CD's notifications controller is there.
    pub has_notifications: bool,
    /// The time of the changes.
    pub now: Timestamp,
}

impl Facts {
    /// The Secret with the password of redis, by which the hub program and its clients log in, if it is known.
    pub fn password_secret(&self) -> Option<String> {
        redis::place(self).password.map(|(secret, _key)| secret)
    }
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
    /// What the changes set up.
    #[serde(skip)]
    pub parts: Parts,
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
    let (mut stale, mut last) = (Stale::default(), Vec::new());
    for holder in holder::every(facts) {
        match Record::of(holder.object) {
            Ok(Some(record)) => {
                let is_changed = plan.restore(facts, holder, &record);
                stale.add(holder, is_changed, Some(&record));
                last.push(holder.forget());
            }
            Ok(None) => {}
            Err(cause) => plan.block_unreadable(&holder.title(), &cause),
        }
    }
    if !plan.unmount(facts) {
        plan.changes.extend(restart(facts, &stale));
    }
    // Last, so that a run that ends early is continued.
    plan.changes.extend(last);
    plan.changes.extend(rights::removed(facts));
    plan.settled()
}

/// Whether argocd-server runs with other settings than those that are written.
#[derive(Debug, Default)]
struct Stale {
    /// Settings change now.
    is_changed: bool,
    /// They last changed at this time.
    changed: Option<Timestamp>,
}

impl Stale {
    /// Adds a change of an object, with the record from before.
    fn add(&mut self, holder: Holder<'_>, is_changed: bool, record: Option<&Record>) {
        if holder.needs_restart {
            self.is_changed |= is_changed;
            self.changed = self.changed.max(record.and_then(|it| it.changed));
        }
    }
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
            parts: Parts::of(facts),
        }
    }

    fn block(&mut self, check: &'static str, cause: &str, next: &str) {
        self.obstacles
            .push(Finding::of((check, failed(cause, next))));
    }

    fn block_unreadable(&mut self, title: &str, cause: &str) {
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
        let mut wanted = Wanted::default();
        if self.parts.live {
            // The operator makes Roles for the namespaces itself.
            if !holder.is_operated {
                match rights::granted(facts) {
                    Ok(changes) => self.changes.extend(changes),
                    Err(cause) => self.block("rights", &cause, "then run this again"),
                }
            }
            wanted = holder.wanted(facts);
            self.obstacles
                .extend(obstacles::obstacles(facts, holder, &wanted));
        }
        if self.parts.ui {
            ui::add(facts, holder, &mut wanted);
            self.obstacles.extend(ui::obstacles(facts, holder));
        }
        if !wanted.values.is_empty() {
            self.notes.extend(obstacles::notes(facts, holder, &wanted));
        }
        let mut stale = Stale::default();
        let is_recorded = self.set_values(facts, holder, &wanted.values, &mut stale);
        let has_new_pods = match (is_recorded, self.parts.ui) {
            (false, _) => false,
            (true, true) => self.set_ui(facts, holder, &mut stale),
            (true, false) => self.withdraw_ui(facts, !wanted.values.is_empty()),
        };
        // The operator's flags change the Pods themselves.
        if !holder.is_operated && !has_new_pods {
            self.changes.extend(restart(facts, &stale));
        }
    }

    /// Sets values of one object; false if its record cannot be read.
    fn set_values(
        &mut self,
        facts: &Facts,
        holder: Holder<'_>,
        values: &[(Path, Value)],
        stale: &mut Stale,
    ) -> bool {
        let record = match Record::of(holder.object) {
            Ok(record) => record,
            Err(cause) => {
                self.block_unreadable(&holder.title(), &cause);
                return false;
            }
        };
        stale.add(holder, !values.is_empty(), record.as_ref());
        if !values.is_empty() {
            self.changes.push(holder.set(values, record, facts.now));
        }
        true
    }

    /// Adds what the pages need in other objects; true if the Pods of argocd-server become new by it.
    fn set_ui(&mut self, facts: &Facts, holder: Holder<'_>, stale: &mut Stale) -> bool {
        // argocd-server keeps the token with which it has started.
        stale.changed = stale.changed.max(facts.token);
        // The operator writes Argo CD's settings.
        let settings = holder::settings(facts).filter(|_| !holder.is_operated);
        let settings = settings.map(|it| (it, ui::extensions(facts, it)));
        let policies = holder::policies(facts).map(|it| (it, ui::policies(it)));
        for (other, values) in settings.into_iter().chain(policies) {
            self.set_values(facts, other, &values, stale);
        }
        if holder.is_operated {
            return false;
        }
        match Record::of(&facts.server) {
            Ok(record) => {
                let change = ui::mounted(facts, record);
                let is_changed = change.is_some();
                self.changes.extend(change);
                is_changed
            }
            Err(cause) => {
                self.block_unreadable(&server_title(facts), &cause);
                false
            }
        }
    }

    /// Takes away what setup added for the pages, which are off now; true if the Pods of argocd-server become new by it.
    fn withdraw_ui(&mut self, facts: &Facts, is_set: bool) -> bool {
        for holder in holder::every(facts) {
            // One write of an object at a time: the next run does the rest.
            let is_next = is_set && !holder.fields.iter().all(|it| ui::is_of_ui(it));
            if let (false, Ok(Some(record))) = (is_next, Record::of(holder.object)) {
                let (change, kept) = holder.withdraw(record);
                self.changes.extend(change);
                self.notes.extend(kept.into_iter().map(Finding::of));
            }
        }
        self.unmount(facts)
    }

    /// Removes the mount that setup made; true if there was one.
    fn unmount(&mut self, facts: &Facts) -> bool {
        match Record::of(&facts.server) {
            Ok(None) => false,
            Ok(Some(_)) => {
                let (change, kept) = ui::unmounted(facts);
                self.changes.push(change);
                let is_removed = kept.is_none();
                let kept = kept.map(|it| Finding::of(("kept", it)));
                self.notes.extend(kept);
                is_removed
            }
            Err(cause) => {
                self.block_unreadable(&server_title(facts), &cause);
                false
            }
        }
    }

    /// Restores the values of one object; true if there are any.
    fn restore(&mut self, facts: &Facts, holder: Holder<'_>, record: &Record) -> bool {
        let (change, kept) = holder.restore(record, facts.now);
        self.notes.extend(kept.into_iter().map(Finding::of));
        let is_changed = change.is_some();
        self.changes.extend(change);
        is_changed
    }
}

fn server_title(facts: &Facts) -> String {
    format!("Deployment {}", full_name(&facts.server))
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
fn restart(facts: &Facts, stale: &Stale) -> Option<ObjectChange> {
    let server = &facts.server;
    let before = value(server, RESTARTED);
    let started = started(server);
    if server.is_null() || (!stale.is_changed && stale.changed <= started) {
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
