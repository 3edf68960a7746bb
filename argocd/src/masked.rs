//! Objects as they may be printed: without what Secrets hold.
//!
//! Whatever has an object in it and can be printed prints it through [`Masked`], so that no log, no failed
//! assertion and no `dbg` shows a password. [`Sealed`] is for what is never printed at all.

use std::fmt;
use std::ops::Deref;

use serde_json::{Value, json};

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
    fn a_secret_is_printed_without_what_it_holds() {
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
    fn a_patch_is_printed_without_what_it_writes_into_a_secret() {
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
