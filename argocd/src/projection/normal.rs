//! The normal form of a spec in Argo CD.
//!
//! Its controller writes back the result of `NormalizeApplicationSpec`: an empty project becomes `default`, and an empty
//! sync policy or empty settings of a source are removed. An agent that wrote those again would fight the controller.

use serde_json::{Map, Value};

/// Normalises a spec as Argo CD does.
pub fn normal_spec(spec: &Value) -> Value {
    let mut spec = spec.clone();
    if let Some(fields) = spec.as_object_mut() {
        if fields.get("project").is_none_or(|it| *it == "") {
            fields.insert("project".to_owned(), "default".into());
        }
        if fields.get("syncPolicy").is_some_and(is_empty_policy) {
            fields.remove("syncPolicy");
        }
        if let Some(source) = fields.get_mut("source").and_then(Value::as_object_mut) {
            normalise_source(source);
        }
    }
    spec
}

fn normalise_source(source: &mut Map<String, Value>) {
    source.retain(|kind, settings| match kind.as_str() {
        "helm" => !all_zero(settings, |value| !value.is_object()),
        "kustomize" => !all_zero(settings, |_| true),
        "directory" => {
            let fields = settings.as_object().filter(|fields| fields.len() == 1);
            let jsonnet = fields.and_then(|fields| fields.get("jsonnet"));
            !all_zero(settings, |_| true) && !is_zero_jsonnet(jsonnet)
        }
        _ => true,
    });
}

/// Whether all pointers of a `syncPolicy` are nil: an empty object below `automated` or `retry` is not nil.
fn is_empty_policy(policy: &Value) -> bool {
    match policy {
        Value::Null => true,
        Value::Object(fields) => fields.iter().all(|(key, value)| match key.as_str() {
            "automated" | "retry" | "managedNamespaceMetadata" => value.is_null(),
            "syncOptions" => is_zero(value),
            // a field of a later Argo CD
            _ => false,
        }),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => false,
    }
}

fn all_zero(settings: &Value, may_be_zero: impl Fn(&Value) -> bool) -> bool {
    match settings {
        Value::Null => true,
        Value::Object(fields) => fields.values().all(|it| may_be_zero(it) && is_zero(it)),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => false,
    }
}

fn is_zero_jsonnet(jsonnet: Option<&Value>) -> bool {
    let is_empty = |it: &Value| it.is_null() || it.as_array().is_some_and(Vec::is_empty);
    jsonnet
        .and_then(Value::as_object)
        .is_some_and(|fields| fields.values().all(is_empty))
}

/// Whether Go's `omitempty` omits the value.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}
