//! Patches between two JSON values.

pub use json_patch::merge;
use json_patch::{AddOperation, PatchOperation};
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use crate::masked::Masked;

#[cfg(test)]
mod tests;

/// A patch for the API server. Both kinds produce the target exactly; a merge patch is preferred.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
pub enum Patch {
    /// RFC 7396, `application/merge-patch+json`.
    Merge(#[debug("{:?}", Masked(_0))] Value),
    /// RFC 6902, `application/json-patch+json`: the operations, as an array. Used if the target has a null inside an
    /// object (Helm's `valuesObject: {key: null}`), which a merge patch cannot express: neither in an object nor, for an
    /// API server, in an object of a list.
    Json(#[debug("{:?}", Masked(_0))] Value),
}

impl Patch {
    /// Guards the patch: the API server rejects it with a conflict unless the object has this resourceVersion.
    #[must_use]
    pub fn under(mut self, resource_version: &str) -> Self {
        match &mut self {
            Self::Merge(patch) => {
                let guard = json!({ "metadata": { "resourceVersion": resource_version } });
                merge(patch, &guard);
            }
            Self::Json(operations) => {
                if let Some(operations) = operations.as_array_mut() {
                    // not a `test`: the API server answers that with an error of its own, not a conflict
                    operations.push(json!({
                        "op": "replace",
                        "path": "/metadata/resourceVersion",
                        "value": resource_version,
                    }));
                }
            }
        }
        self
    }

    /// Ties the patch to one object: the API server rejects it unless the object has this UID.
    #[must_use]
    pub fn only_for(mut self, uid: &str) -> Self {
        match &mut self {
            Self::Merge(patch) => merge(patch, &json!({ "metadata": { "uid": uid } })),
            Self::Json(operations) => {
                if let Some(operations) = operations.as_array_mut() {
                    let test = json!({ "op": "test", "path": "/metadata/uid", "value": uid });
                    operations.insert(0, test);
                }
            }
        }
        self
    }

    /// Applies it to a copy of `value` as an API server does, unless an operation does not fit. For tests and
    /// simulations.
    pub fn try_applied_to(&self, value: &Value) -> Option<Value> {
        let mut value = value.clone();
        match self {
            Self::Merge(patch) => merge_on_server(&mut value, patch),
            Self::Json(operations) => {
                let operations = json_patch::Patch::deserialize(operations).ok()?;
                for operation in operations.0 {
                    let operation = operation_on_server(operation, &value);
                    json_patch::patch(&mut value, &[operation]).ok()?;
                }
            }
        }
        Some(value)
    }

    /// Like [`Self::try_applied_to`]; a patch that does not fit changes nothing.
    #[must_use]
    pub fn applied_to(&self, value: &Value) -> Value {
        self.try_applied_to(value).unwrap_or_else(|| value.clone())
    }
}

/// The patch that turns `from` into `to`; none if they are equal.
pub fn between(from: &Value, to: &Value) -> Option<Patch> {
    let merge_patch = diff(from, to)?;
    let mut reached = from.clone();
    merge_on_server(&mut reached, &merge_patch);
    if reached == *to {
        Some(Patch::Merge(merge_patch))
    } else {
        let mut operations = Vec::new();
        json::diff(from, to, "", &mut operations);
        Some(Patch::Json(Value::Array(operations)))
    }
}

/// RFC 7396 with a difference of API servers: they also remove nulls from the objects of a list.
fn merge_on_server(value: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *value = without_nulls(patch);
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(fields) = value else {
        return;
    };
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else {
            merge_on_server(fields.entry(name.as_str()).or_insert(Value::Null), change);
        }
    }
}

/// A copy whose objects have no nulls; those that are items of a list stay.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, field)| !field.is_null())
            .map(|(name, field)| (name.clone(), without_nulls(field)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// RFC 6902 with a difference of API servers: they also replace a field that an object does not have.
fn operation_on_server(operation: PatchOperation, value: &Value) -> PatchOperation {
    let PatchOperation::Replace(replace) = operation else {
        return operation;
    };
    let parent = replace.path.as_str().rsplit_once('/');
    let parent = parent.and_then(|(parent, _)| value.pointer(parent));
    if parent.is_some_and(Value::is_object) {
        PatchOperation::Add(AddOperation {
            path: replace.path,
            value: replace.value,
        })
    } else {
        PatchOperation::Replace(replace)
    }
}

/// The closest merge patch; exact unless `to` has a null inside an object.
fn diff(from: &Value, to: &Value) -> Option<Value> {
    if from == to {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (from, to) else {
        return Some(to.clone());
    };
    let removed = old
        .keys()
        .filter(|key| !new.contains_key(*key))
        .map(|key| (key.clone(), Value::Null));
    let changed = new.iter().filter_map(|(key, value)| match old.get(key) {
        Some(before) => diff(before, value).map(|patch| (key.clone(), patch)),
        None => Some((key.clone(), value.clone())),
    });
    Some(Value::Object(removed.chain(changed).collect()))
}

mod json {
    //! RFC 6902, as far as we write it: add, replace, remove on objects; everything else whole.

    use serde_json::{Value, json};

    pub(super) fn diff(from: &Value, to: &Value, path: &str, operations: &mut Vec<Value>) {
        if from == to {
            return;
        }
        let (Value::Object(old), Value::Object(new)) = (from, to) else {
            operations.push(json!({ "op": "replace", "path": path, "value": to }));
            return;
        };
        for key in old.keys().filter(|key| !new.contains_key(*key)) {
            operations.push(json!({ "op": "remove", "path": below(path, key) }));
        }
        for (key, value) in new {
            match old.get(key) {
                Some(before) => diff(before, value, &below(path, key), operations),
                None => operations
                    .push(json!({ "op": "add", "path": below(path, key), "value": value })),
            }
        }
    }

    fn below(path: &str, key: &str) -> String {
        format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"))
    }
}
