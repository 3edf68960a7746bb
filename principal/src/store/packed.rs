//! An object of the hub as this program keeps it: the status is text.
//!
//! A status is most of an Application, a spoke writes it, and a tree costs up to a hundred times its text. A decision
//! about a report reads the whole status; everything else needs only a few fields of it.

use std::{collections::BTreeMap, sync::OnceLock};

use argocd::{Meta, masked::Masked, ranges};
use protocol::{
    Kind,
    payload::{self, Undecodable},
};
use runtime::error::Chain;
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

/// The fields of `status.operationState` that stay in the head: they identify an operation and its end.
const STATE: [&str; 4] = ["operation", "phase", "startedAt", "finishedAt"];

/// The largest estimated memory of a status while it is a tree, in bytes: more than a report can have, since the hub
/// adds its own conditions.
const MOST_MEMORY: usize = 2 * payload::MOST_OBJECT_MEMORY;

/// An object whose status is text.
#[derive(Clone, Default, PartialEq, Eq, derive_more::Debug)]
pub struct Packed {
    #[debug("{:?}", Masked(head))]
    head: Value,
    /// The status as JSON; none if the object has none.
    #[debug(skip)]
    status: Option<Box<str>>,
    #[debug(skip)]
    shown: Cached,
}

/// A sum that is computed when it is first needed, and no part of the object.
#[derive(Clone, Default)]
struct Cached(OnceLock<u64>);

impl PartialEq for Cached {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Cached {}

impl Packed {
    /// Packs a whole object.
    pub fn of(mut object: Value) -> Self {
        let status = object.as_object_mut().and_then(|it| it.remove("status"));
        let state = status.as_ref().and_then(|it| it.get("operationState"));
        let state = state.map(|state| {
            let kept = |name: &str| Some((name.to_owned(), state.get(name)?.clone()));
            STATE.into_iter().filter_map(kept).collect()
        });
        let text = status.as_ref().map(Value::to_string);
        Self::with(object, text.map(String::into_boxed_str), state)
    }

    /// An object without its status, and the text of that; fails if no tree of it is within the bounds of a decoder.
    ///
    /// It builds no such tree: the watch reads one object after the other, so a large one delays all others.
    pub(crate) fn from_parts(head: Value, status: Option<Box<str>>) -> Result<Self, String> {
        let state = status.as_deref().map(operation_state);
        let state = state.transpose()?.flatten();
        Ok(Self::with(head, status, state))
    }

    fn with(
        mut head: Value,
        status: Option<Box<str>>,
        operation_state: Option<Map<String, Value>>,
    ) -> Self {
        if let (Some(state), Some(fields)) = (operation_state, head.as_object_mut()) {
            let kept = Map::from_iter([("operationState".to_owned(), state.into())]);
            fields.insert("status".to_owned(), kept.into());
        }
        let shown = Cached::default();
        Self {
            head,
            status,
            shown,
        }
    }

    /// The object with only those fields of the status that identify an operation.
    pub const fn head(&self) -> &Value {
        &self.head
    }

    /// The object with these metadata.
    pub(crate) fn with_metadata(mut self, metadata: Value) -> Self {
        if let Some(fields) = self.head.as_object_mut() {
            fields.insert("metadata".to_owned(), metadata);
        }
        self.shown = Cached::default();
        self
    }

    /// Its metadata.
    pub fn meta(&self) -> Meta<'_> {
        Meta::of(&self.head)
    }

    /// The bytes of its status as text.
    pub(crate) fn status_bytes(&self) -> usize {
        self.status.as_ref().map_or(0, |text| text.len())
    }

    /// The estimated memory of the whole object when it is decoded, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let status = (self.status.as_ref()).map_or(0, |text| payload::estimate_of(text.as_bytes()));
        payload::memory_of(&self.head).saturating_add(status)
    }

    /// The [sum](ranges::sum_of) of what an Application shows of its cluster's report. The first call decodes the status, which
    /// takes up to a tenth of a second.
    pub(crate) fn shown_sum(&self) -> u64 {
        *self.shown.0.get_or_init(|| {
            let (kind, meta) = (Kind::Application.as_str(), self.meta());
            let name = ranges::name_of(kind, meta.namespace(), meta.name());
            ranges::sum_of(&name, &ranges::shown(&self.whole()))
        })
    }

    /// Whether [`Self::shown_sum`] is known.
    pub(crate) fn has_shown_sum(&self) -> bool {
        self.shown.0.get().is_some()
    }

    /// The conditions of its status; nothing else of the status is decoded.
    pub(crate) fn conditions(&self) -> Vec<Value> {
        #[derive(Default, Deserialize)]
        struct Status {
            conditions: Option<Vec<Value>>,
        }
        // Anything else than a list is no condition.
        let status = (self.status.as_deref()).and_then(|text| serde_json::from_str(text).ok());
        let status: Status = status.flatten().unwrap_or_default();
        status.conditions.unwrap_or_default()
    }

    /// The whole object.
    pub fn whole(&self) -> Value {
        let mut object = self.head.clone();
        // It is within the bounds since it was packed; only one of more levels than the decoder takes is left out.
        let status = (self.status.as_deref()).and_then(|text| decoded(text).ok());
        if let (Some(status), Some(fields)) = (status, object.as_object_mut()) {
            fields.insert("status".to_owned(), status);
        }
        object
    }
}

/// The fields of `operationState` that stay in the head, if the status has one.
fn operation_state(status: &str) -> Result<Option<Map<String, Value>>, String> {
    #[derive(Default, Deserialize)]
    struct Status {
        #[serde(rename = "operationState")]
        state: Option<Box<RawValue>>,
    }
    if payload::estimate_of(status.as_bytes()) > MOST_MEMORY {
        decoded(status).map_err(shown)?;
    }
    let status: Option<Status> = serde_json::from_str(status).map_err(shown)?;
    let Some(state) = status.unwrap_or_default().state else {
        return Ok(None);
    };
    // Anything else than a map has no fields.
    let fields = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(state.get());
    let fields = fields.unwrap_or_default();
    let kept = STATE.into_iter().filter_map(|name| {
        let value = decoded(fields.get(name)?.get());
        Some(value.map(|value| (name.to_owned(), value)))
    });
    let kept: Result<_, Undecodable> = kept.collect();
    kept.map(Some).map_err(shown)
}

fn shown(error: impl std::error::Error + 'static) -> String {
    Chain(&error).to_string()
}

fn decoded(status: &str) -> Result<Value, Undecodable> {
    payload::decode_within("status", status.as_bytes(), MOST_MEMORY)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn application() -> Value {
        json!({
            "metadata": { "name": "app", "resourceVersion": "1" },
            "spec": { "project": "default" },
            "status": {
                "operationState": {
                    "operation": { "sync": {} },
                    "phase": "Running",
                    "startedAt": "2026-01-01T00:00:00Z",
                    "syncResult": { "resources": [1, 2] },
                },
                "resources": [{ "": 0 }],
            },
        })
    }

    #[test]
    fn head_of_an_application_identifies_its_operation() {
        let packed = Packed::of(application());
        let state = json!({ "operationState": {
            "operation": { "sync": {} },
            "phase": "Running",
            "startedAt": "2026-01-01T00:00:00Z",
        }});
        assert_eq!(packed.head()["status"], state);
        assert_eq!(packed.head()["spec"], application()["spec"]);
        assert_eq!(packed.whole(), application());
        assert_eq!(packed.meta().name(), "app");
    }

    #[test]
    fn sum_of_a_changed_object_is_another_one() {
        let packed = Packed::of(application());
        assert!(!packed.has_shown_sum());
        let sum = packed.shown_sum();
        assert!(packed.has_shown_sum());
        assert_eq!(
            packed,
            Packed::of(application()),
            "the sum is no part of it"
        );
        let renamed = packed.with_metadata(json!({ "name": "other" }));
        assert_ne!(renamed.shown_sum(), sum);
    }

    #[test]
    fn conditions_are_those_of_the_status() {
        let conditions = |status: Value| Packed::of(json!({ "status": status })).conditions();
        let condition = json!({ "type": "SyncError", "message": "m" });
        let status = json!({ "resources": [{ "": 0 }], "conditions": [condition] });
        assert_eq!(conditions(status), [condition]);
        for none in [
            Value::Null,
            json!({}),
            json!({ "conditions": null }),
            json!({ "conditions": "text" }),
        ] {
            assert_eq!(conditions(none.clone()), [] as [Value; 0], "{none}");
        }
        assert_eq!(Packed::of(json!({})).conditions(), [] as [Value; 0]);
    }

    #[test]
    fn object_of_two_parts_equals_the_whole_one() {
        for status in [
            application()["status"].clone(),
            json!({}),
            Value::Null,
            json!({ "operationState": "text" }),
        ] {
            let mut object = application();
            object["status"] = status.clone();
            let mut head = application();
            head.as_object_mut().unwrap().remove("status");
            let text = status.to_string().into_boxed_str();
            let packed = Packed::from_parts(head, Some(text)).unwrap();
            assert_eq!(packed, Packed::of(object.clone()), "{status}");
            assert_eq!(packed.whole(), object);
        }
        let packed = Packed::from_parts(json!({ "kind": "Secret" }), None).unwrap();
        assert_eq!(packed.whole(), json!({ "kind": "Secret" }));
        let without = Packed::of(json!({ "status": {} }));
        for status in [json!({ "operationState": null }), Value::Null] {
            let packed = Packed::from_parts(json!({}), Some(status.to_string().into())).unwrap();
            assert_eq!(packed.head(), without.head(), "{status}");
        }
        let many = format!("{{\"resources\":[{}0]}}", r#"{"":0},"#.repeat(100_000));
        for refused in ["{", &many] {
            assert!(Packed::from_parts(json!({}), Some(refused.into())).is_err());
        }
    }
}
