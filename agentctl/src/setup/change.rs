//! A change of one object. Pure.

use serde::Serialize;
use serde_json::Value;

use super::Facts;
use crate::{check::is_proxy_on, hub::Kind};

/// What argocd-server is set up for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Live views of clusters.
    pub live: bool,
    /// The pages of the add-on in the UI.
    pub ui: bool,
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
    /// A strategic merge patch, which changes single entries of lists.
    Strategic(Kind, Value),
    /// A new object.
    Create(Kind, Value),
    /// The deletion of an object in this version.
    Delete(Kind, String),
}

impl FieldChange {
    pub(super) fn new(field: &str, before: Value, after: Value) -> Self {
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

impl Parts {
    pub(super) fn of(facts: &Facts) -> Self {
        let manager = facts.manager.as_ref();
        let ui = crate::ui::is_on(manager);
        // Without either, the redis proxy is what has to be turned on.
        let live = is_proxy_on(manager) || !ui;
        Self { live, ui }
    }
}
