//! The part of the spoke's report that the hub's Application shows.

use serde_json::{Map, Value, json};

use crate::command::{Judgement, Operation, requests};
use crate::keys::HUB_CONDITION_PREFIX;
use crate::object::{Application, list, set, text, to_map};
use crate::patch::{self, Patch};

#[cfg(test)]
mod tests;

/// The patch that makes the hub Application show the spoke's report; none if it already does.
///
/// The hub owns conditions of our own types, which stay. Fields that `judgement` blocks, because a command was not taken
/// yet, stay as they are on the hub.
///
/// Consumes the hub's object: a copy of its status may need megabytes.
pub fn status_patch_for_hub(
    mut hub: Value,
    report: &Value,
    judgement: &Judgement,
) -> Option<Patch> {
    let asked = to_map(requests(&hub));
    let done = Map::new();
    let left = if judgement.refresh_done {
        &done
    } else {
        &asked
    };
    let operation = judgement.next_operation(&hub).cloned();
    let to = part(shown_status(&hub, report, judgement), operation, left);
    let operation = Application::of(&hub).operation().cloned();
    let status = hub.get_mut("status").map(Value::take);
    let status = status.filter(|status| !status.is_null());
    let from = part(status, operation, &asked);
    patch::between(&from, &to)
}

/// The patch that sets a condition of ours on a hub Application, or clears it without a `message`; none for a no-op.
///
/// `now` is RFC 3339 and used only if the message changes.
pub fn condition_patch_for_hub(
    hub: &Value,
    kind: &str,
    message: Option<&str>,
    now: &str,
) -> Option<Patch> {
    let mut conditions = conditions(Application::of(hub).status());
    let known = conditions.iter().find(|it| type_of(it) == kind);
    if known.and_then(|known| known.get("message")?.as_str()) == message
        && known.is_some() == message.is_some()
    {
        return None;
    }
    conditions.retain(|condition| type_of(condition) != kind);
    if let Some(message) = message {
        conditions.push(json!({ "type": kind, "message": message, "lastTransitionTime": now }));
    }
    // Without an empty list, which the next report would remove.
    let conditions = (!conditions.is_empty()).then_some(conditions);
    Some(Patch::Merge(
        json!({ "status": { "conditions": conditions } }),
    ))
}

fn part(
    status: Option<Value>,
    operation: Option<Value>,
    annotations: &Map<String, Value>,
) -> Value {
    // present on both sides, so that the patch merges into it and never replaces it
    let mut part = json!({ "metadata": { "annotations": annotations } });
    set(&mut part, "status", status);
    set(&mut part, "operation", operation);
    part
}

/// The status that the hub's object shows of a report, without the fields that `judgement` blocks.
pub(crate) fn shown_status(hub: &Value, report: &Value, judgement: &Judgement) -> Option<Value> {
    let (hub, report) = (Application::of(hub), Application::of(report));
    let mut status = report
        .status()
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    let is_of_hub = |condition: &Value| type_of(condition).starts_with(HUB_CONDITION_PREFIX);
    // a spoke cannot forge conditions of the hub
    let mut shown = conditions(report.status());
    shown.retain(|condition| !is_of_hub(condition));
    shown.extend(conditions(hub.status()).into_iter().filter(is_of_hub));
    let is_empty_there = || {
        let there = hub.status().and_then(|status| status.get("conditions"));
        there.is_some_and(|there| *there == json!([]))
    };
    if shown.is_empty() && !is_empty_there() {
        status.remove("conditions");
    } else {
        // A removed list in place of an empty one is not worth a write.
        status.insert("conditions".to_owned(), Value::Array(shown));
    }
    if matches!(judgement.operation, Operation::Hold) {
        status.remove("operationState");
        if let Some(state) = hub.operation_state() {
            status.insert("operationState".to_owned(), state.value().clone());
        }
    } else if judgement.terminate
        && let Some(state) = status
            .get_mut("operationState")
            .and_then(Value::as_object_mut)
    {
        state.insert("phase".to_owned(), "Terminating".into());
    }
    clean_links(&mut status);
    (!status.is_empty()).then_some(Value::Object(status))
}

/// Keeps only links that a browser may safely follow from the hub's UI; a spoke could send `javascript:`.
fn clean_links(status: &mut Map<String, Value>) {
    let summary = status.get_mut("summary");
    if let Some(Value::Array(urls)) = summary.and_then(|it| it.get_mut("externalURLs")) {
        urls.retain(|url| url.as_str().is_some_and(is_web_link));
    }
}

/// Whether a browser may follow the link.
pub(crate) fn is_web_link(link: &str) -> bool {
    link.starts_with("https://") || link.starts_with("http://")
}

fn conditions(status: Option<&Value>) -> Vec<Value> {
    status.map_or_else(Vec::new, |status| list(status, "conditions").to_vec())
}

fn type_of(condition: &Value) -> &str {
    text(condition, "type")
}
