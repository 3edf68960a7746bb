//! Decides how an agent carries out a received command.

use serde_json::{Map, Value, json};

use super::{Known, is_same, last_command, record, refresh_id, requests, was_taken};
use crate::digest;
use crate::keys;
use crate::object::{Application, Meta, OperationState, part_of_metadata, set, to_map};
use crate::patch::{self, Patch, merge};

/// The decision about a sync command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Take {
    /// Apply this patch; after a conflict, read the object again and decide again.
    Set(Patch),
    /// It was taken before: done.
    AlreadyTaken,
    /// Another operation runs: retry after its end.
    Busy,
}

/// Decides about a sync command. `event_id` is its identity.
pub fn take(live: &Value, event_id: &str, operation: &Value) -> Take {
    let app = Application::of(live);
    if last_command(live).is_some_and(|(id, _)| id == event_id) {
        return Take::AlreadyTaken;
    }
    let from = touched(live);
    let mut to = from.clone();
    merge(
        &mut to,
        &json!({ "metadata": { "annotations": { keys::LAST_COMMAND: record(event_id, operation) } } }),
    );
    match app.operation() {
        // a Go agent or a user has set the same operation, without a record
        Some(running) if is_same(running, operation) => {}
        Some(_) => return Take::Busy,
        None if app.operation_state().is_some_and(OperationState::is_active) => return Take::Busy,
        None => {
            set(&mut to, "operation", Some(operation.clone()));
            // clear the result of the older operation, so that it does not look like the result of this one
            merge(&mut to, &json!({ "status": { "operationState": null } }));
        }
    }
    match patch::between(&from, &to) {
        // the resourceVersion guards against a duplicate from a stale cache
        Some(patch) => Take::Set(patch.under(Meta::of(live).resource_version())),
        None => Take::AlreadyTaken,
    }
}

/// The patch for an operation that a Go principal sends inside the state of its object, as it does for one that it finds
/// there; none if it was taken, or may have been.
pub fn take_along(live: &Value, event_id: &str, hub: &Value) -> Option<Patch> {
    let operation = Application::of(hub).operation()?;
    if was_taken(hub, live, operation, Known::default()) {
        return None;
    }
    match take(live, event_id, operation) {
        Take::Set(patch) => Some(patch),
        Take::AlreadyTaken | Take::Busy => None,
    }
}

/// Adds such an operation to an object before its creation, unless a deleted copy took it: `before` is that copy's
/// [`LAST_COMMAND`](crate::keys::LAST_COMMAND).
pub fn made_with(mut object: Value, event_id: &str, hub: &Value, before: Option<&str>) -> Value {
    let operation = Application::of(hub).operation();
    let is_taken = |operation| {
        before.is_some_and(|record| record.ends_with(&format!(" {}", digest::short(operation))))
    };
    if let Some(operation) = operation.filter(|operation| !is_taken(operation)) {
        let made = json!({
            "metadata": { "annotations": { keys::LAST_COMMAND: record(event_id, operation) } },
            "operation": operation,
        });
        merge(&mut object, &made);
    }
    object
}

/// The patch that terminates the running operation, if it is the one in `incoming`.
///
/// None if that operation has ended or is terminating, or if another one runs now.
pub fn take_termination(live: &Value, incoming: &Value) -> Option<Patch> {
    let running = Application::of(live).operation_state()?;
    if running.phase() != "Running" {
        return None;
    }
    let meant = Application::of(incoming)
        .operation_state()
        .and_then(OperationState::started_at);
    if meant.is_some() && meant != running.started_at() {
        return None;
    }
    let patch = Patch::Merge(json!({ "status": { "operationState": { "phase": "Terminating" } } }));
    Some(patch.under(Meta::of(live).resource_version()))
}

/// The patch that requests the refresh and the hydration of `incoming` from the spoke's Argo CD; none if they were
/// requested before.
pub fn take_refresh(live: &Value, incoming: &Value) -> Option<Patch> {
    let meta = Meta::of(incoming);
    let kind = |asked: &str| match asked {
        "hard" => "hard",
        _ => "normal",
    };
    let asked = requests(incoming);
    if asked.is_empty() {
        return None;
    }
    let id = match meta.annotation(keys::REFRESH_ID) {
        Some(id) => id.to_owned(),
        // a Go principal never removes the annotation for a hydration: without one for a refresh it is an old request
        None if meta.annotation(keys::REFRESH).is_none() => return None,
        // each version of its object with a request counts as one request
        None => refresh_id(incoming),
    };
    (Meta::of(live).annotation(keys::LAST_REFRESH) != Some(id.as_str())).then(|| {
        let mut annotations = json!({ keys::LAST_REFRESH: id });
        for (key, value) in asked {
            merge(&mut annotations, &json!({ key: kind(value) }));
        }
        Patch::Merge(json!({ "metadata": { "annotations": annotations } }))
    })
}

/// The parts of an Application that a command changes.
fn touched(live: &Value) -> Value {
    let app = Application::of(live);
    let annotations = to_map(app.annotations());
    let metadata = part_of_metadata(Map::new(), annotations, Vec::new());
    let mut touched = json!({ "metadata": metadata, "status": {} });
    set(&mut touched, "operation", app.operation().cloned());
    let state = app.operation_state();
    let status = state.map(|state| json!({ "operationState": state.value() }));
    set(&mut touched, "status", status);
    touched
}
