//! Objects as they may be printed: without what Secrets hold.
//!
//! Whatever has an object in it and can be printed prints it through [`Masked`], so that no log, no failed
//! assertion and no `dbg` shows a password. [`Sealed`] is for what is never printed at all.

use std::fmt;
use std::ops::Deref;

use serde_json::{Value, json};

use crate::keys;

/// The fields of Secrets and `ConfigMap`s that hold content.
const CONTENT: [&str; 3] = ["data", "stringData", "binaryData"];

/// Prints an object, or a patch of one, with its content left out.
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

/// What stands for a value that is not shown, in the words of Argo CD.
const HIDDEN: &str = "++++++++";

/// Takes the values out of a Secret, as Argo CD shows it, so that it can be shown. Its keys stay.
///
/// False if it is no Secret and nothing that tells of a failure: then nobody knows what it would show.
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
    // It has all of it once more.
    let annotations = secret.pointer_mut("/metadata/annotations");
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        annotations.remove(keys::LAST_APPLIED);
    }
    true
}

/// The names of the entries stay.
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
    // the whole object is content, too
    let holds_content = field.is_empty() || CONTENT.contains(&field);
    if holds_content && let Some(value) = operation.get_mut("value") {
        *value = json!("***");
    }
}

/// Something that is used and never printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Sealed<T>(T);

impl<T> Sealed<T> {
    /// Seals it.
    pub const fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> Deref for Sealed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Sealed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
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
    fn what_may_be_a_secret_in_another_form_is_not_shown() {
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
