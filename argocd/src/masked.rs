//! Printed objects, without the content of Secrets.
//!
//! Every type with an object and a `Debug` prints the object with [`Masked`], so that no log, no failed assertion and no
//! `dbg` shows a password. [`Sealed`] is for values that are never printed at all.

use std::fmt;

use serde_json::{Value, json};

use crate::keys;

/// The content fields of Secrets and `ConfigMap`s.
const CONTENT: [&str; 3] = ["data", "stringData", "binaryData"];

/// Prints an object, or a patch of one, without its content.
#[derive(Clone, Copy)]
pub struct Masked<'a>(pub &'a Value);

impl fmt::Debug for Masked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&masked(self.0), f)
    }
}

fn masked(value: &Value) -> Value {
    let mut value = value.clone();
    match &mut value {
        Value::Object(fields) => {
            for name in CONTENT {
                if let Some(content) = fields.get_mut(name) {
                    hide(content);
                }
            }
        }
        // operations of RFC 6902
        Value::Array(operations) => operations.iter_mut().for_each(hide_operation),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    value
}

/// Replaces a hidden value, as in Argo CD.
const HIDDEN: &str = "++++++++";

/// Hides the values of a Secret, as Argo CD does. Its keys stay.
///
/// Returns false for anything else than a Secret or the `Status` of a failure: such a value may contain secrets and must
/// not be shown.
pub fn hide_values(secret: &mut Value) -> bool {
    let kind = secret.get("kind").and_then(Value::as_str);
    if kind == Some("Status") {
        return true;
    }
    if kind != Some("Secret") {
        return false;
    }
    for name in CONTENT {
        match secret.get_mut(name) {
            Some(Value::Object(entries)) => {
                entries
                    .values_mut()
                    .for_each(|entry| *entry = json!(HIDDEN));
            }
            Some(Value::Null) | None => {}
            Some(_) => return false,
        }
    }
    // This annotation contains a copy of the data.
    let annotations = secret.pointer_mut("/metadata/annotations");
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        annotations.remove(keys::LAST_APPLIED);
    }
    true
}

/// Hides values; the names of entries stay.
fn hide(content: &mut Value) {
    if let Some(entries) = content.as_object_mut() {
        entries.values_mut().for_each(|entry| *entry = json!("***"));
    } else {
        *content = json!("***");
    }
}

fn hide_operation(operation: &mut Value) {
    let path = operation.get("path").and_then(Value::as_str).unwrap_or("/");
    let field = path.split('/').nth(1).unwrap_or_default();
    // a patch of the whole object includes the content
    let holds_content = field.is_empty() || CONTENT.contains(&field);
    if holds_content && let Some(value) = operation.get_mut("value") {
        *value = json!("***");
    }
}

/// A value that is never printed.
#[derive(Clone, Default, PartialEq, Eq, derive_more::Debug, derive_more::Deref)]
#[debug("***")]
pub struct Sealed<T>(T);

impl<T> Sealed<T> {
    /// Seals it.
    pub const fn new(value: T) -> Self {
        Self(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Patch;

    #[test]
    fn secret_debug_output_hides_values() {
        let secret = json!({
            "metadata": { "name": "repo" },
            "data": { "password": "aHVudGVyMg==" },
            "stringData": "hunter2",
        });
        let printed = format!("{:?} {:?}", Masked(&secret), Sealed::new(&secret));
        assert!(printed.contains("repo") && printed.contains("password"));
        assert!(!printed.contains("aHVudGVyMg") && !printed.contains("hunter2"));
    }

    #[test]
    fn a_secret_is_shown_with_its_keys_and_without_its_values() {
        let mut secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": { "name": "repo", "annotations": {
                "team": "shop",
                keys::LAST_APPLIED: "{\"stringData\":{\"password\":\"hunter2\"}}",
            } },
            "data": { "password": "aHVudGVyMg==", "user": "bWU=" },
            "stringData": { "password": "hunter2" },
        });
        assert!(hide_values(&mut secret));
        assert_eq!(
            secret["data"],
            json!({ "password": HIDDEN, "user": HIDDEN })
        );
        let shown = secret.to_string();
        assert!(shown.contains("shop") && shown.contains("Opaque"));
        for value in ["aHVudGVyMg", "hunter2", "bWU"] {
            assert!(!shown.contains(value), "{shown}");
        }
        let mut why = json!({ "kind": "Status", "message": "not found" });
        assert!(hide_values(&mut why) && why["message"] == "not found");
    }

    #[test]
    fn secrets_in_unexpected_shapes_are_not_shown() {
        for other in [
            json!({ "kind": "SecretList", "items": [{ "data": { "a": "aHVudGVyMg==" } }] }),
            json!({ "kind": "Table", "rows": [] }),
            json!({ "kind": "Secret", "data": "aHVudGVyMg==" }),
            json!({ "kind": "Secret", "stringData": ["hunter2"] }),
            json!({ "data": { "a": "aHVudGVyMg==" } }),
            json!([]),
            json!("aHVudGVyMg=="),
        ] {
            assert!(!hide_values(&mut other.clone()), "{other}");
        }
    }

    #[test]
    fn secret_patch_debug_output_hides_values() {
        let merge = Patch::Merge(json!({ "data": { "password": "aHVudGVyMg==" } }));
        let operations = Patch::Json(json!([
            { "op": "replace", "path": "/data/password", "value": "aHVudGVyMg==" },
            { "op": "replace", "path": "", "value": { "data": "aHVudGVyMg==" } },
            { "op": "replace", "path": "/spec/project", "value": "shown" },
        ]));
        let printed = format!("{merge:?} {operations:?}");
        assert!(printed.contains("password") && printed.contains("shown"));
        assert!(!printed.contains("aHVudGVyMg"));
    }
}
