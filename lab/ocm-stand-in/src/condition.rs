//! Conditions in the `status` of an object, and writing a status without touching fields of others.

use anyhow::Result;
use jiff::Timestamp;
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::{Map, Value, json};

/// A desired condition; the time of its last transition follows from the live one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) kind: &'static str,
    pub(crate) status: &'static str,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) observed_generation: Option<i64>,
}

impl Condition {
    pub(crate) fn new(
        kind: &'static str,
        status: &'static str,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            status,
            reason: reason.into(),
            message: message.into(),
            observed_generation: None,
        }
    }

    /// A condition that is True or False.
    pub(crate) fn of(
        kind: &'static str,
        is_true: bool,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self::new(
            kind,
            if is_true { "True" } else { "False" },
            reason,
            message,
        )
    }

    pub(crate) const fn observed(mut self, generation: i64) -> Self {
        self.observed_generation = Some(generation);
        self
    }

    fn to_value(&self, since: &str) -> Value {
        let mut value = json!({
            "type": self.kind,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
            "lastTransitionTime": since,
        });
        if let Some(generation) = self.observed_generation {
            value["observedGeneration"] = json!(generation);
        }
        value
    }
}

/// The conditions under `status` of an object, or none.
pub(crate) fn all(object: &Value) -> &[Value] {
    object
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The condition of one type.
pub(crate) fn find<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    all(object)
        .iter()
        .find(|condition| condition["type"] == kind)
}

/// `True`, `False` or `Unknown`, if the condition is there.
pub(crate) fn status<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    find(object, kind)?["status"].as_str()
}

pub(crate) fn is_true(object: &Value, kind: &str) -> bool {
    status(object, kind) == Some("True")
}

/// True, and observed at the object's present generation.
pub(crate) fn is_true_of_generation(object: &Value, kind: &str, generation: i64) -> bool {
    is_true(object, kind)
        && find(object, kind).is_some_and(|c| c["observedGeneration"].as_i64() == Some(generation))
}

/// Puts a condition into a list, keeping the time of the last transition unless the status changes.
pub(crate) fn set(conditions: &mut Vec<Value>, wanted: &Condition) {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let Some(live) = conditions.iter_mut().find(|c| c["type"] == wanted.kind) else {
        conditions.push(wanted.to_value(&now));
        return;
    };
    let since = match live["lastTransitionTime"].as_str() {
        Some(since) if live["status"] == wanted.status => since.to_owned(),
        Some(_) | None => now,
    };
    *live = wanted.to_value(&since);
}

/// Takes the condition of one type out of a list.
pub(crate) fn remove(conditions: &mut Vec<Value>, kind: &str) {
    conditions.retain(|condition| condition["type"] != kind);
}

/// The `conditions` list of a status, made if absent.
pub(crate) fn list(status: &mut Value) -> &mut Vec<Value> {
    if !status.is_object() {
        *status = json!({});
    }
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    status["conditions"]
        .as_array_mut()
        .expect("an array was just put here")
}

/// Changes the status of an object as last observed, by a merge patch guarded by its version.
///
/// Writes nothing when the change is a no-op. A conflict or a deleted object is not an error: the
/// watch brings the newer object, and the caller reconciles again.
pub(crate) async fn write_status(
    api: &Api<DynamicObject>,
    seen: &DynamicObject,
    change: impl FnOnce(&mut Value),
) -> Result<()> {
    let before = seen
        .data
        .get("status")
        .cloned()
        .unwrap_or_else(|| json!({}));
    let mut after = before.clone();
    change(&mut after);
    let Some(status) = merge_patch(&before, &after) else {
        return Ok(());
    };
    let patch = json!({
        "metadata": { "resourceVersion": seen.metadata.resource_version },
        "status": status,
    });
    let name = seen.metadata.name.as_deref().unwrap_or_default();
    tolerate_staleness(
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await,
    )
}

/// Changes metadata or spec of an object as last observed, guarded like [`write_status`].
pub(crate) async fn write_object(
    api: &Api<DynamicObject>,
    seen: &DynamicObject,
    mut patch: Value,
) -> Result<()> {
    patch["metadata"]["resourceVersion"] = json!(seen.metadata.resource_version);
    let name = seen.metadata.name.as_deref().unwrap_or_default();
    tolerate_staleness(
        api.patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await,
    )
}

/// A response that only reports a stale version or a deleted object is no error.
pub(crate) fn tolerate_staleness<T>(answer: kube::Result<T>) -> Result<()> {
    match answer {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status))
            if status.is_conflict() || status.is_not_found() || status.is_already_exists() =>
        {
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// The JSON merge patch from one value to another; none if they are equal.
pub(crate) fn merge_patch(before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return Some(after.clone());
    };
    let mut patch = Map::new();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in new {
        let change = match old.get(key) {
            Some(was) => merge_patch(was, value),
            None => Some(value.clone()),
        };
        if let Some(change) = change {
            patch.insert(key.clone(), change);
        }
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_transition_stays_while_the_status_stays() {
        let mut conditions = vec![json!({
            "type": "Available", "status": "True", "reason": "Old", "message": "",
            "lastTransitionTime": "2020-01-01T00:00:00Z",
        })];
        set(
            &mut conditions,
            &Condition::new("Available", "True", "New", "fine"),
        );
        assert_eq!(conditions[0]["lastTransitionTime"], "2020-01-01T00:00:00Z");
        assert_eq!(conditions[0]["reason"], "New");

        set(
            &mut conditions,
            &Condition::new("Available", "False", "Gone", ""),
        );
        assert_ne!(conditions[0]["lastTransitionTime"], "2020-01-01T00:00:00Z");
        assert_eq!(conditions.len(), 1);
    }

    #[test]
    fn a_merge_patch_has_only_differing_fields() {
        let before = json!({"a": 1, "gone": 2, "deep": {"x": 1, "y": [1]}});
        let after = json!({"a": 1, "deep": {"x": 2, "y": [1]}, "new": true});
        assert_eq!(
            merge_patch(&before, &after),
            Some(json!({"gone": null, "deep": {"x": 2}, "new": true}))
        );
        assert_eq!(merge_patch(&before, &before), None);
    }
}
