//! Who wrote an object, from its `managedFields`. Pure.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::object::{list, time};

/// A field manager that wrote parts of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Writer {
    /// The field manager: a controller's or a tool's name.
    pub manager: String,
    /// When it last wrote something.
    pub at: Option<Timestamp>,
    /// The parts that are its own: `spec`, `status`, `metadata`, `operation`.
    pub wrote: Vec<String>,
}

/// All of them, the last first.
pub fn of(object: &Value) -> Vec<Writer> {
    let entries = list(object, "/metadata/managedFields").iter();
    let mut writers: Vec<Writer> = entries.map(writer).collect();
    writers.sort_by(|a, b| b.at.cmp(&a.at).then_with(|| a.manager.cmp(&b.manager)));
    writers
}

fn writer(entry: &Value) -> Writer {
    let manager = entry.get("manager").and_then(Value::as_str);
    let fields = entry.get("fieldsV1").and_then(Value::as_object);
    let parts = fields.into_iter().flatten();
    let parts = parts.filter_map(|(key, _)| key.strip_prefix("f:"));
    Writer {
        manager: manager.unwrap_or("unknown").to_owned(),
        at: time(entry, "/time"),
        wrote: parts.map(str::to_owned).collect(),
    }
}

/// Time of the last write of the spec; else the time of creation.
pub fn wanted_since(object: &Value) -> Option<Timestamp> {
    let writers = of(object).into_iter();
    let specs = writers.filter(|it| it.wrote.iter().any(|part| part == "spec"));
    let last = specs.filter_map(|it| it.at).max();
    last.or_else(|| time(object, "/metadata/creationTimestamp"))
}
