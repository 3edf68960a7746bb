//! Fields of objects that the API returned, leniently: a field that is absent or of another form is empty. Pure.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::{Map, Value};

/// The text at a JSON pointer.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    let text = object.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default()
}

/// The time at a JSON pointer.
pub fn time(object: &Value, pointer: &str) -> Option<Timestamp> {
    text(object, pointer).parse().ok()
}

/// A condition of an Application.
#[derive(Clone, Copy, Debug)]
pub struct AppCondition<'a> {
    /// Its type.
    pub kind: &'a str,
    /// Its message.
    pub message: &'a str,
    /// Since when.
    pub since: Option<Timestamp>,
}

/// The conditions of an Application: the add-on's, and those of Argo CD on the cluster.
pub fn app_conditions(application: &Value) -> impl Iterator<Item = AppCondition<'_>> {
    let all = list(application, "/status/conditions").iter();
    all.map(|it| AppCondition {
        kind: text(it, "/type"),
        message: text(it, "/message"),
        since: time(it, "/lastTransitionTime"),
    })
}

/// The list at a JSON pointer.
pub fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    let list = object.pointer(pointer).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

/// The object that was read, if it is there.
pub fn present(read: &Result<Option<Value>, String>) -> Option<&Value> {
    read.as_ref().ok()?.as_ref()
}

/// The label of an object.
pub fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    argocd::Meta::of(object).label(key).unwrap_or_default()
}

/// `namespace/name`.
pub fn full_name(object: &Value) -> String {
    let meta = argocd::Meta::of(object);
    format!("{}/{}", meta.namespace(), meta.name())
}

/// The first container of a workload.
pub fn container(workload: &Value) -> Option<&Value> {
    workload.pointer("/spec/template/spec/containers/0")
}

/// The `ServiceAccount` of a workload; without one it is the namespace's default.
pub fn service_account(workload: &Value) -> &str {
    match text(workload, "/spec/template/spec/serviceAccountName") {
        "" => "default",
        account => account,
    }
}

/// The image of the first container of a workload.
pub fn image(workload: &Value) -> &str {
    container(workload).map_or("", |it| text(it, "/image"))
}

/// The wanted number of Pods of a workload.
pub fn replicas(workload: &Value) -> i64 {
    let replicas = workload.pointer("/spec/replicas").and_then(Value::as_i64);
    replicas.unwrap_or(1)
}

/// The variable of a container.
pub fn variable<'a>(container: &'a Value, name: &str) -> Option<&'a str> {
    let mut env = list(container, "/env").iter();
    let entry = env.find(|entry| text(entry, "/name") == name)?;
    entry.get("value")?.as_str()
}

/// The words of a container's command line.
pub fn words(container: &Value) -> impl Iterator<Item = &str> {
    let words = ["/command", "/args"].into_iter();
    let words = words.flat_map(move |place| list(container, place));
    words.filter_map(Value::as_str)
}

/// The value of a container's flag, or else of its variable, which may read a `ConfigMap`.
pub fn option<'a>(container: &'a Value, (flag, name): (&str, &str)) -> Option<&'a str> {
    argument(container, flag).or_else(|| variable(container, name))
}

/// The last value of a flag of a container, which follows after `=` or as the next word.
pub fn argument<'a>(container: &'a Value, flag: &str) -> Option<&'a str> {
    let words: Vec<_> = words(container).collect();
    let mut value = None;
    for (next, word) in (1_usize..).zip(&words) {
        match word.strip_prefix(flag) {
            Some("") => value = words.get(next).copied(),
            Some(rest) => value = rest.strip_prefix('=').or(value),
            None => {}
        }
    }
    value
}

/// The value at a path of keys; null if it is absent.
pub fn value(object: &Value, path: &[&str]) -> Value {
    let found = path.iter().try_fold(object, |value, key| value.get(*key));
    found.cloned().unwrap_or_default()
}

/// Sets the value at a path of keys, and makes the objects on the way.
pub fn put(object: &mut Value, path: &[&str], value: Value) {
    let [key, rest @ ..] = path else {
        *object = value;
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    if let Some(map) = object.as_object_mut() {
        put(map.entry(*key).or_insert(Value::Null), rest, value);
    }
}

/// The entries of a list with commas.
pub fn entries(text: &str) -> Vec<String> {
    let entries = text.split(',').map(str::trim);
    let entries = entries.filter(|entry| !entry.is_empty());
    entries.map(str::to_owned).collect()
}

/// A text in a Secret.
pub fn secret_text(secret: &Value, key: &str) -> Option<String> {
    let encoded = secret.get("data")?.get(key)?.as_str()?;
    String::from_utf8(STANDARD.decode(encoded).ok()?).ok()
}

/// So many names of a list are shown.
const NAMED: usize = 3;

/// The first names of a list that may be long.
pub fn first_names(names: &[impl AsRef<str>]) -> String {
    let first: Vec<_> = names.iter().take(NAMED).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(NAMED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}
