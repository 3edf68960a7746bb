//! Go's checksums, byte for byte, and the digest of the agreed value between our own ends.

use serde_json::{Map, Number, Value, json};
use sha2::{Digest as _, Sha256};

use crate::keys;
use crate::object::Meta;

#[cfg(test)]
mod tests;

/// Encodes `value` as Go's `encoding/json` does a generic map: sorted keys, no white space, escaped HTML.
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write_value(&mut out, value);
    out
}

/// Go's checksum of a Secret or `ConfigMap`: SHA-256 of the canonical data. None without any, unless `or_empty`.
pub fn data_checksum(object: &Value, or_empty: bool) -> Option<Vec<u8>> {
    match Meta::of(object).field("data") {
        Some(data) => Some(sha256(&canonical(data))),
        None => or_empty.then(|| sha256("{}")),
    }
}

/// Go's spec checksum: SHA-256 of the canonical spec without `destination`. None without a spec.
pub fn spec_checksum(object: &Value) -> Option<Vec<u8>> {
    let mut spec = Meta::of(object).field("spec")?.clone();
    if let Value::Object(fields) = &mut spec {
        fields.remove("destination");
    }
    Some(sha256(&canonical(&spec)))
}

/// Go's list checksum over `(kind, name, uid)`. None without entries.
pub fn list_checksum<'a>(
    entries: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>,
) -> Option<Vec<u8>> {
    let mut lines: Vec<String> = entries
        .into_iter()
        .map(|(kind, name, uid)| format!("{kind}/{name}/{uid}"))
        .collect();
    if lines.is_empty() {
        return None;
    }
    lines.sort_unstable();
    Some(sha256(&lines.concat()))
}

/// Digest of the value that hub and spoke agree on: identity, labels, annotations, finalizers, spec, and whether the
/// object is being deleted. Volatile annotations and all fields that a projection drops do not count, so the hub's stored
/// object and its wire form have the same digest.
pub fn agreed(object: &Value) -> String {
    let meta = Meta::of(object);
    let mut annotations = meta.annotations();
    annotations.retain(|key, _| !is_volatile(key));
    digest(&json!({
        "name": meta.name(),
        "namespace": meta.namespace(),
        "uid": meta.uid(),
        "labels": meta.labels(),
        "annotations": annotations,
        "finalizers": meta.finalizers(),
        "deleting": meta.is_deleting(),
        "spec": meta.field("spec"),
    }))
}

fn digest(value: &Value) -> String {
    hex::encode(sha256(&canonical(value)))
}

/// Digest of the agreed value of a `ConfigMap` of which only entries travel.
pub fn agreed_entries(object: &Value) -> String {
    let meta = Meta::of(object);
    digest(&json!({
        "name": meta.name(),
        "namespace": meta.namespace(),
        "uid": meta.uid(),
        "deleting": meta.is_deleting(),
        "data": meta.field("data"),
    }))
}

/// Short digest of any value, to compare contents.
pub fn short(value: &Value) -> String {
    hex::encode(sha256(&canonical(value)).get(..8).unwrap_or_default())
}

/// Annotations that record events and are not desired state; they are never projected.
pub fn is_volatile(annotation: &str) -> bool {
    [
        keys::LAST_APPLIED,
        keys::REFRESH,
        keys::HYDRATE,
        keys::REFRESH_ID,
        keys::CONTENT_ID,
        keys::SHARED_ENTRIES,
        keys::NOTIFIED,
        keys::LAST_UPDATED,
        keys::LAST_COMMAND,
        keys::LAST_REFRESH,
        keys::APPLIED_ANNOTATIONS,
        keys::SOURCE_UID,
        keys::PRINCIPAL_UID,
        keys::NAMESPACE_REMAPPED,
    ]
    .contains(&annotation)
}

fn sha256(text: &str) -> Vec<u8> {
    Sha256::digest(text.as_bytes()).to_vec()
}

fn write_value(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_value(out, item);
            }
            out.push(']');
        }
        Value::Object(fields) => write_object(out, fields),
    }
}

fn write_object(out: &mut String, fields: &Map<String, Value>) {
    // sorted here, because features of other crates change the order of serde_json's map
    let mut fields: Vec<_> = fields.iter().collect();
    fields.sort_unstable_by_key(|(key, _)| *key);
    out.push('{');
    for (index, (key, value)) in fields.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_string(out, key);
        out.push(':');
        write_value(out, value);
    }
    out.push('}');
}

/// Integers as integers; floats as in Go, which follows JavaScript.
fn write_number(out: &mut String, number: &Number) {
    if let Some(integer) = number.as_i64() {
        out.push_str(&integer.to_string());
        return;
    }
    let float = number.as_f64().unwrap_or_default();
    let size = float.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{float:e}");
        match text.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => {
                out.push_str(digits);
                out.push_str("e+");
                out.push_str(exponent);
            }
            Some(_) | None => out.push_str(&text),
        }
    } else {
        out.push_str(&float.to_string());
    }
}

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                out.push_str("\\u");
                out.push_str(&hex::encode(
                    u16::try_from(u32::from(c))
                        .unwrap_or_default()
                        .to_be_bytes(),
                ));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}
