//! Patches between two JSON values.

pub use json_patch::merge;
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::masked::Masked;

#[cfg(test)]
mod tests;

/// A patch for the API server. Both kinds produce the target exactly; a merge patch is preferred.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
pub enum Patch {
    /// RFC 7396, `application/merge-patch+json`.
    Merge(#[debug("{:?}", Masked(_0))] Value),
    /// RFC 6902, `application/json-patch+json`: the operations, as an array. Used if the target has a null inside an
    /// object (Helm's `valuesObject: {key: null}`), which a merge patch cannot express.
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

    /// Applies it to a copy of `value`, unless an operation does not fit. For tests and simulations.
    pub fn try_applied_to(&self, value: &Value) -> Option<Value> {
        let mut value = value.clone();
        match self {
            Self::Merge(patch) => merge(&mut value, patch),
            Self::Json(operations) => {
                let operations = json_patch::Patch::deserialize(operations).ok()?;
                json_patch::patch(&mut value, &operations).ok()?;
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
    merge(&mut reached, &merge_patch);
    if reached == *to {
        Some(Patch::Merge(merge_patch))
    } else {
        let mut operations = Vec::new();
        json::diff(from, to, "", &mut operations);
        Some(Patch::Json(Value::Array(operations)))
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
