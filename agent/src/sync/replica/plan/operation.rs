//! Plans for one-time commands of the hub: a sync, or the termination of one.

use argocd::command::{self, Take};
use argocd::{Application, Meta, keys};
use serde_json::Value;

use super::relation::{NOT_ADOPTED, adoption};
use super::step::{Memory, No, Plan, Step};
use crate::config::{Adoption, Policy};

/// Plans a sync. `event_id` identifies the request.
pub(in crate::sync::replica) fn sync(
    event_id: &str,
    message: &Value,
    live: Option<&Value>,
    policy: Policy,
) -> Result<Plan, No> {
    taken(
        event_id,
        message,
        replica_for_command(message, live, policy)?,
    )
}

/// Sets the operation of a message on the live object, once.
pub(super) fn taken(event_id: &str, message: &Value, live: &Value) -> Result<Plan, No> {
    let operation = Application::of(message)
        .operation()
        .ok_or_else(|| No::Refused("the message has no operation".to_owned()))?;
    match command::take(live, event_id, operation) {
        Take::AlreadyTaken => Ok(Plan::NOTHING),
        Take::Busy => Err(No::NotYet("another operation is in progress")),
        Take::Set(patch) => Ok(Plan::patch(live, patch)),
    }
}

/// Adds the operation that a Go principal sends along with a state, if it found the object with one.
///
/// `before`: the record of the last command of a copy that was deleted locally.
pub(in crate::sync::replica) fn along(
    mut plan: Plan,
    event_id: &str,
    message: &Value,
    live: Option<&Value>,
    before: Option<&str>,
) -> Plan {
    if plan.memory != Memory::Want || Application::of(message).operation().is_none() {
        return plan;
    }
    let uid = Meta::of(message).uid();
    match live.map(Meta::of) {
        None => {
            for step in &mut plan.steps {
                if let Step::Create(object) = step {
                    *object = command::made_with(object.take(), event_id, message, before);
                }
            }
        }
        Some(live) if live.is_deleting() || live.is_ignored() || live.source_uid() != Some(uid) => {
        }
        Some(live) => {
            let patch = command::take_along(live.value(), event_id, message);
            let uid = live.uid().to_owned();
            plan.steps
                .extend(patch.map(|patch| Step::Patch { uid, patch }));
        }
    }
    plan
}

/// Plans the termination of the running operation.
pub(in crate::sync::replica) fn terminate(
    message: &Value,
    live: Option<&Value>,
    policy: Policy,
) -> Result<Plan, No> {
    let live = replica_for_command(message, live, policy)?;
    let patch = command::take_termination(live, message);
    Ok(patch.map_or(Plan::NOTHING, |patch| Plan::patch(live, patch)))
}

/// The replica that a command applies to.
///
/// Another object of this name may become that replica: the state can arrive after the command.
fn replica_for_command<'a>(
    message: &Value,
    live: Option<&'a Value>,
    policy: Policy,
) -> Result<&'a Value, No> {
    let live = live.ok_or(No::NotYet(
        "the Application does not exist on this cluster yet",
    ))?;
    let meta = Meta::of(live);
    if meta.is_ignored() {
        let label = keys::IGNORE_SYNC;
        return Err(No::Refused(format!(
            "the Application on this cluster has the label {label}"
        )));
    }
    match meta.source_uid() {
        Some(uid) if uid == Meta::of(message).uid() => Ok(live),
        None if adoption(live, policy) == Adoption::Never => {
            Err(No::Refused(NOT_ADOPTED.to_owned()))
        }
        Some(_) | None => Err(No::NotYet(
            "the Application on this cluster is not yet a replica of this one",
        )),
    }
}
