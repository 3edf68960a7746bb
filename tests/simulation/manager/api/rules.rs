//! The checks of an API server, and the fields that it keeps and removes.

use serde_json::Value;

use super::Refusal;

/// The fields of the metadata that no client changes.
pub(super) const OF_SERVER: [&str; 7] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
];

pub(crate) fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

pub(super) fn finalizers(object: &Value) -> &[Value] {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers.map_or(&[], Vec::as_slice)
}

/// Kinds whose status has a subresource.
pub(super) fn has_status(kind: &str) -> bool {
    kind.contains("open-cluster-management.io") || kind.starts_with("certificatesigningrequests")
}

/// The preconditions in an object that a client sends.
pub(super) fn check(before: &Value, asked: &Value) -> Result<(), Refusal> {
    let (known, asked) = (&before["metadata"], &asked["metadata"]);
    let differs = |field: &str| !asked[field].is_null() && asked[field] != known[field];
    if differs("uid") {
        let message = "field is immutable".to_owned();
        return Err(Refusal {
            causes: vec![("FieldValueInvalid", message, "metadata.uid".to_owned())],
            ..Refusal::new(422, "Invalid", "metadata.uid: Invalid value")
        });
    }
    if differs("resourceVersion") {
        return Err(Refusal::conflict("the object has been modified"));
    }
    if !known["deletionTimestamp"].is_null() {
        let had = known["finalizers"].as_array().cloned().unwrap_or_default();
        let has = asked["finalizers"].as_array().cloned().unwrap_or_default();
        if has.iter().any(|it| !had.contains(it)) {
            return Err(Refusal::new(
                422,
                "Invalid",
                "no new finalizers can be added",
            ));
        }
    }
    Ok(())
}

/// Restores the fields that no client may change.
pub(super) fn restore(before: &Value, object: &mut Value) {
    for field in OF_SERVER {
        let known = &before["metadata"][field];
        if let Some(metadata) = object["metadata"].as_object_mut() {
            if known.is_null() {
                metadata.remove(field);
            } else {
                metadata.insert(field.to_owned(), known.clone());
            }
        }
    }
}

/// The part of a write that a subresource takes, or all but the status.
pub(super) fn within(kind: &str, subresource: &str, before: &Value, object: Value) -> Value {
    if subresource.is_empty() {
        let mut object = object;
        if has_status(kind)
            && let Some(fields) = object.as_object_mut()
        {
            match before.get("status") {
                Some(status) => fields.insert("status".to_owned(), status.clone()),
                None => fields.remove("status"),
            };
        }
        return object;
    }
    let mut kept = before.clone();
    if let Some(status) = object.get("status") {
        kept["status"] = status.clone();
    }
    // Its preconditions are checked afterwards.
    for field in ["uid", "resourceVersion"] {
        if let Some(asked) = object.pointer(&format!("/metadata/{field}")) {
            kept["metadata"][field] = asked.clone();
        }
    }
    kept
}

/// Removes empty collections of the metadata, which a server does not keep.
pub(super) fn tidy(object: &mut Value) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|_, value| match value {
            Value::Null => false,
            Value::Array(items) => !items.is_empty(),
            Value::Object(fields) => !fields.is_empty(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        });
    }
}
