//! `support-bundle`: facts for support, without credentials. Pure.
//!
//! Secrets are no part of it at all: of certificates there is the view of `certs list`. What remains is written without
//! values that look like credentials, wherever they stand.

use argocd::{Application, keys};
use serde_json::{Map, Value, json};

/// Replaces a hidden value.
const HIDDEN: &str = "***";

/// Parts of names behind which there are credentials.
const CREDENTIAL_NAMES: [&str; 7] = [
    "password",
    "passwd",
    "token",
    "secret",
    "credential",
    "privatekey",
    "apikey",
];

/// An object without its credentials, and without what only fills pages. None for a Secret.
pub fn redacted(object: &Value) -> Option<Value> {
    if object.get("kind").and_then(Value::as_str) == Some("Secret") {
        return None;
    }
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            // It has the whole object once more, as one text.
            annotations.remove(keys::LAST_APPLIED);
        }
    }
    hide(&mut object);
    Some(object)
}

/// The part of an Application that the bundle contains: destination and status, nothing of its manifests.
pub fn brief(application: &Value) -> Value {
    let app = Application::of(application);
    let part = |pointer: &str| application.pointer(pointer).cloned();
    let destination = app.destination();
    let mut brief = json!({
        "namespace": app.namespace(),
        "name": app.name(),
        "project": app.project(),
        "destination": {
            "name": destination.name, "server": destination.server, "namespace": destination.namespace,
        },
        "deleting": app.deletion_timestamp(),
        "sync": part("/status/sync/status"),
        "health": part("/status/health/status"),
        "reconciledAt": part("/status/reconciledAt"),
        "conditions": part("/status/conditions"),
    });
    hide(&mut brief);
    brief
}

fn hide(value: &mut Value) {
    match value {
        Value::Object(fields) => hide_fields(fields),
        Value::Array(items) => hide_items(items),
        Value::String(text) => *text = plain(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn hide_fields(fields: &mut Map<String, Value>) {
    // A variable: its name is in one field and its value in another.
    let named = fields.get("name").and_then(Value::as_str);
    if named.is_some_and(names_a_credential)
        && let Some(value) = fields.get_mut("value")
    {
        *value = HIDDEN.into();
    }
    for (name, value) in fields.iter_mut() {
        if names_a_credential(name) {
            hide_wholly(value);
        } else {
            hide(value);
        }
    }
}

/// Arguments: the one after a flag that names a credential is its value.
fn hide_items(items: &mut [Value]) {
    let mut follows = false;
    for item in items {
        let flag = item.as_str().filter(|text| text.starts_with('-'));
        let is_flag = flag.is_some_and(|flag| !flag.contains('=') && names_a_credential(flag));
        if follows && flag.is_none() {
            hide_wholly(item);
        } else {
            hide(item);
        }
        follows = is_flag;
    }
}

/// Below a name of a credential every text is hidden, except names of objects such as Secrets.
fn hide_wholly(value: &mut Value) {
    match value {
        Value::String(text) => HIDDEN.clone_into(text),
        Value::Number(_) => *value = HIDDEN.into(),
        Value::Array(items) => items.iter_mut().for_each(hide_wholly),
        Value::Object(fields) => {
            let is_safe =
                |name: &str| name.ends_with("ame") || name == "key" || name == "namespace";
            let hidden = fields.iter_mut().filter(|(name, _)| !is_safe(name));
            hidden.for_each(|(_, value)| hide_wholly(value));
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// Names of Secrets are no secrets.
fn names_a_credential(name: &str) -> bool {
    let is_other = |c: char| !c.is_ascii_alphanumeric();
    let name = name.to_ascii_lowercase().replace(is_other, "");
    !name.ends_with("name") && CREDENTIAL_NAMES.iter().any(|part| name.contains(part))
}

/// A text without private keys, values of credential flags, and user and password of URLs.
fn plain(text: &str) -> String {
    if text.contains("PRIVATE KEY-----") {
        return HIDDEN.to_owned();
    }
    let assigned = text.split_once('=').map(|(name, _)| name);
    if let Some(name) =
        assigned.filter(|it| !it.contains(char::is_whitespace) && names_a_credential(it))
    {
        return format!("{name}={HIDDEN}");
    }
    let words = text.split_inclusive(char::is_whitespace);
    words.map(without_user).collect()
}

/// Hides everything before the last `@` but for the first scheme: a URL need not have one, and a password may have any of
/// the characters that end one, or be in the second of two URLs. An image with a digest is not meant.
fn without_user(word: &str) -> String {
    let Some((before, host)) = word.rsplit_once('@') else {
        return word.to_owned();
    };
    if host.starts_with("sha256:") && !before.contains("://") {
        return word.to_owned();
    }
    match before.split_once("://") {
        Some((scheme, _)) => format!("{scheme}://{HIDDEN}@{host}"),
        None => format!("{HIDDEN}@{host}"),
    }
}

#[cfg(test)]
mod tests;
