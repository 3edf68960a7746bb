//! Wire forms of objects, with only the fields that the other side needs.

use serde_json::{Map, Value, json};

use crate::{
    keys,
    object::{Application, Meta, copy, set, to_map},
};

/// Metadata fields that travel; the others belong to the API server.
const WIRE_METADATA: [&str; 9] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "labels",
    "finalizers",
];

/// A hub Application as the principal sends it: no status, no operation, no fields of the API server.
pub fn wire_application(hub: &Value) -> Value {
    json!({
        "apiVersion": keys::API_VERSION,
        "kind": "Application",
        "metadata": wire_metadata(hub),
        "spec": Meta::of(hub).field("spec"),
    })
}

/// The wire form of a hub Application with `.operation`, for a command that starts one.
pub fn wire_operation(hub: &Value) -> Value {
    let mut wire = wire_application(hub);
    copy(&mut wire, hub, "operation");
    wire
}

/// The wire form of a hub Application with `.status.operationState`, which names the operation to terminate.
pub fn wire_termination(hub: &Value) -> Value {
    let mut wire = wire_application(hub);
    let state = Application::of(hub).operation_state();
    let status = state.map(|state| json!({ "operationState": state.value() }));
    set(&mut wire, "status", status);
    wire
}

/// The minimal form of a deleted object.
pub fn stub(object: &Value) -> Value {
    let meta = Meta::of(object);
    json!({
        "apiVersion": object.get("apiVersion"),
        "kind": object.get("kind"),
        "metadata": { "name": meta.name(), "namespace": meta.namespace(), "uid": meta.uid() },
    })
}

/// The agent's report about its replica: identity, annotations, status and operation.
pub fn report_application(spoke: &Value) -> Value {
    let mut report = json!({
        "apiVersion": keys::API_VERSION,
        "kind": "Application",
        "metadata": wire_metadata(spoke),
    });
    copy(&mut report, spoke, "status");
    copy(&mut report, spoke, "operation");
    report
}

/// The wire form of metadata.
pub(crate) fn wire_metadata(object: &Value) -> Map<String, Value> {
    let mut metadata: Map<String, Value> = WIRE_METADATA
        .into_iter()
        .filter_map(|field| {
            let value = object.get("metadata")?.get(field)?;
            (!value.is_null()).then(|| (field.to_owned(), value.clone()))
        })
        .collect();
    let mut annotations = Meta::of(object).annotations();
    annotations.retain(|key, _| ![keys::LAST_APPLIED, keys::NOTIFIED].contains(key));
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), to_map(annotations).into());
    }
    metadata
}
