//! The record of what setup changed. It is in an annotation of the changed object, so a change and its record are one
//! write. Pure.

use std::collections::BTreeMap;

use argocd::{Meta, keys::addon::HUB_SETUP};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What setup changed of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// When setup last changed it.
    #[serde(default)]
    pub(super) changed: Option<Timestamp>,
    /// The fields, by name.
    #[serde(default)]
    pub(super) fields: BTreeMap<String, Values>,
}

/// The values of one field; null where it is absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Values {
    /// Before setup.
    #[serde(default)]
    pub(super) before: Value,
    /// As setup left it.
    #[serde(default)]
    pub(super) after: Value,
}

impl Record {
    /// That of an object; none if setup has not changed it.
    pub(super) fn of(object: &Value) -> Result<Option<Self>, String> {
        let text = Meta::of(object).annotation(HUB_SETUP);
        let record = text.map(serde_json::from_str).transpose();
        record.map_err(|error| error.to_string())
    }

    /// Adds a change of a field.
    pub(super) fn add(&mut self, field: &str, before: &Value, after: &Value) {
        // A value that another client set since the last setup is the one to restore.
        let last = self.fields.remove(field).filter(|it| it.after == *before);
        let before = last.map_or_else(|| before.clone(), |it| it.before);
        let after = after.clone();
        self.fields
            .insert(field.to_owned(), Values { before, after });
    }

    /// The value of the annotation, after a change at this time.
    pub(super) fn text(&self, now: Timestamp) -> Value {
        let record = Self {
            changed: Some(now),
            fields: self.fields.clone(),
        };
        record.kept()
    }

    /// The value of the annotation as it is.
    pub(super) fn kept(&self) -> Value {
        let record = serde_json::to_value(self).unwrap_or_default();
        Value::String(record.to_string())
    }
}
