//! Views over Argo CD objects: they read the fields that decisions need and never fail.
//!
//! A field of a wrong type reads as absent. The API server does not store such an object, but a peer may send one; the
//! caller that needs the field reports it as missing.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Metadata of any object.
#[derive(Clone, Copy, Debug)]
pub struct Meta<'a>(&'a Value);

impl<'a> Meta<'a> {
    /// Looks at an object.
    pub const fn of(object: &'a Value) -> Self {
        Self(object)
    }

    /// The object itself.
    pub const fn value(self) -> &'a Value {
        self.0
    }

    fn text(self, field: &str) -> Option<&'a str> {
        self.0
            .get("metadata")?
            .get(field)?
            .as_str()
            .filter(|text| !text.is_empty())
    }

    fn map(self, field: &str) -> Option<&'a Map<String, Value>> {
        self.0.get("metadata")?.get(field)?.as_object()
    }

    /// `metadata.name`, empty if absent.
    pub fn name(self) -> &'a str {
        self.text("name").unwrap_or_default()
    }

    /// `metadata.namespace`, empty if absent.
    pub fn namespace(self) -> &'a str {
        self.text("namespace").unwrap_or_default()
    }

    /// `metadata.uid`, empty if absent.
    pub fn uid(self) -> &'a str {
        self.text("uid").unwrap_or_default()
    }

    /// `metadata.resourceVersion`, empty if absent.
    pub fn resource_version(self) -> &'a str {
        self.text("resourceVersion").unwrap_or_default()
    }

    /// `metadata.creationTimestamp`.
    pub fn creation_timestamp(self) -> Option<&'a str> {
        self.text("creationTimestamp")
    }

    /// `metadata.deletionTimestamp`.
    pub fn deletion_timestamp(self) -> Option<&'a str> {
        self.text("deletionTimestamp")
    }

    /// Whether it is being deleted.
    pub fn is_deleting(self) -> bool {
        self.deletion_timestamp().is_some()
    }

    /// The labels.
    pub fn labels(self) -> BTreeMap<&'a str, &'a str> {
        texts(self.map("labels"))
    }

    /// One label.
    pub fn label(self, key: &str) -> Option<&'a str> {
        self.map("labels")?.get(key)?.as_str()
    }

    /// The annotations.
    pub fn annotations(self) -> BTreeMap<&'a str, &'a str> {
        texts(self.map("annotations"))
    }

    /// One annotation.
    pub fn annotation(self, key: &str) -> Option<&'a str> {
        self.map("annotations")?.get(key)?.as_str()
    }

    /// The finalizers.
    pub fn finalizers(self) -> Vec<&'a str> {
        let metadata = self.0.get("metadata").unwrap_or(&Value::Null);
        let all = list(metadata, "finalizers").iter();
        all.filter_map(Value::as_str).collect()
    }

    /// UID of the object that this one is a replica of.
    pub fn source_uid(self) -> Option<&'a str> {
        self.annotation(crate::keys::SOURCE_UID)
            .filter(|uid| !uid.is_empty())
    }

    /// The principal that last wrote this replica.
    pub fn principal_uid(self) -> Option<&'a str> {
        self.annotation(crate::keys::PRINCIPAL_UID)
            .filter(|uid| !uid.is_empty())
    }

    /// Whether the user excludes it from replication.
    pub fn is_ignored(self) -> bool {
        self.label(crate::keys::IGNORE_SYNC) == Some("true")
    }

    /// `spec`.
    pub fn spec(self) -> Option<&'a Value> {
        self.field("spec")
    }

    /// A top-level field that is present and not null.
    pub fn field(self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }
}

/// A field of a JSON object that is a text; empty if it is none.
pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// A field of a JSON object that is a list; empty if it is none.
pub(crate) fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    let list = object.get(field).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

/// Sets a field of a JSON object, if there is a value.
pub(crate) fn set(object: &mut Value, field: &str, value: Option<impl Into<Value>>) {
    if let (Some(fields), Some(value)) = (object.as_object_mut(), value) {
        fields.insert(field.to_owned(), value.into());
    }
}

/// Copies a field, if it is present and not null.
pub(crate) fn copy(to: &mut Value, from: &Value, field: &str) {
    set(to, field, Meta::of(from).field(field).cloned());
}

/// Labels, annotations and finalizers, without empty collections, which the API server drops.
pub(crate) fn part_of_metadata(
    labels: Map<String, Value>,
    annotations: Map<String, Value>,
    finalizers: Vec<&str>,
) -> Map<String, Value> {
    let mut metadata = Map::new();
    for (field, value) in [
        ("labels", Value::Object(labels)),
        ("annotations", Value::Object(annotations)),
        ("finalizers", finalizers.into()),
    ] {
        if value != json!({}) && value != json!([]) {
            metadata.insert(field.to_owned(), value);
        }
    }
    metadata
}

/// A JSON object of texts, such as labels.
pub(crate) fn to_map<'a>(
    texts: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Map<String, Value> {
    let texts = texts.into_iter();
    texts
        .map(|(key, value)| (key.to_owned(), value.into()))
        .collect()
}

fn texts(map: Option<&Map<String, Value>>) -> BTreeMap<&str, &str> {
    map.into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
        .collect()
}

/// An Application.
#[derive(Clone, Copy, Debug, derive_more::Deref)]
pub struct Application<'a>(Meta<'a>);

impl<'a> Application<'a> {
    /// Looks at an object.
    pub const fn of(object: &'a Value) -> Self {
        Self(Meta::of(object))
    }

    /// `status`.
    pub fn status(self) -> Option<&'a Value> {
        self.0.field("status")
    }

    /// `operation`: the requested operation.
    pub fn operation(self) -> Option<&'a Value> {
        self.0.field("operation")
    }

    /// `status.operationState`: the running or last operation.
    pub fn operation_state(self) -> Option<OperationState<'a>> {
        let state = self.status()?.get("operationState")?;
        state.is_object().then_some(OperationState(state))
    }

    /// `spec.project`; Argo CD reads an empty one as `default`.
    pub fn project(self) -> &'a str {
        match self.spec().map_or("", |spec| text(spec, "project")) {
            "" => "default",
            name => name,
        }
    }

    /// `spec.destination`.
    pub fn destination(self) -> Destination<'a> {
        let destination = self.spec().and_then(|spec| spec.get("destination"));
        Destination::of(destination.unwrap_or(&Value::Null))
    }
}

/// The destination of an Application; absent fields are empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination<'a> {
    /// Name of the cluster.
    pub name: &'a str,
    /// URL of its API server.
    pub server: &'a str,
    /// Namespace there.
    pub namespace: &'a str,
}

impl<'a> Destination<'a> {
    pub(crate) fn of(value: &'a Value) -> Self {
        Self {
            name: text(value, "name"),
            server: text(value, "server"),
            namespace: text(value, "namespace"),
        }
    }
}

/// The state of Argo CD's running or last operation.
#[derive(Clone, Copy, Debug)]
pub struct OperationState<'a>(&'a Value);

impl<'a> OperationState<'a> {
    fn text(self, field: &str) -> Option<&'a str> {
        self.0.get(field)?.as_str().filter(|text| !text.is_empty())
    }

    /// The JSON value.
    pub const fn value(self) -> &'a Value {
        self.0
    }

    /// The operation.
    pub fn operation(self) -> Option<&'a Value> {
        self.0.get("operation").filter(|it| !it.is_null())
    }

    /// `Running`, `Terminating`, `Succeeded`, `Failed` or `Error`.
    pub fn phase(self) -> &'a str {
        self.text("phase").unwrap_or_default()
    }

    /// Whether it is still running.
    pub fn is_active(self) -> bool {
        matches!(self.phase(), "Running" | "Terminating")
    }

    /// When it started, by the spoke's clock.
    pub fn started_at(self) -> Option<&'a str> {
        self.text("startedAt")
    }

    /// When it ended, by the spoke's clock.
    pub fn finished_at(self) -> Option<&'a str> {
        self.text("finishedAt")
    }
}

/// An AppProject.
#[derive(Clone, Copy, Debug, derive_more::Deref)]
pub struct AppProject<'a>(Meta<'a>);

impl<'a> AppProject<'a> {
    /// Looks at an object.
    pub const fn of(object: &'a Value) -> Self {
        Self(Meta::of(object))
    }

    /// `spec.destinations`.
    pub fn destinations(self) -> Vec<Destination<'a>> {
        self.list("destinations")
            .iter()
            .map(Destination::of)
            .collect()
    }

    /// `spec.sourceNamespaces`.
    pub fn source_namespaces(self) -> Vec<&'a str> {
        self.list("sourceNamespaces")
            .iter()
            .filter_map(Value::as_str)
            .collect()
    }

    fn list(self, field: &str) -> &'a [Value] {
        self.spec().map_or(&[], |spec| list(spec, field))
    }
}
