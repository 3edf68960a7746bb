//! Sync, terminate and refresh: commands, carried out at most once.
//!
//! A command is not state: to carry it out twice is an error. So each command has an identity.
//!
//! * **Sync**: the event id of its `set-operation`, which our principal derives from the hub UID and the
//!   resourceVersion that introduced the operation. The agent writes it, with a digest of the operation,
//!   into [`LAST_COMMAND`](crate::keys::LAST_COMMAND) in the same patch that sets `.operation`, guarded by the
//!   resourceVersion that it has observed. A duplicate finds it there.
//! * **Terminate**: the `startedAt` of the operation to terminate, which both sides know.
//! * **Refresh**: an id that the principal adds beside the refresh annotation on the wire. A requested hydration goes
//!   with it.
//!
//! The hub's `.operation` stays until the spoke has taken the command and finished it. An older status
//! ([`Operation::Hold`]) neither clears it nor restores an older `operationState`.
//!
//! # After a restart of the principal
//!
//! The principal keeps nothing on hub objects, so after a restart it does not know which resourceVersion introduced
//! an operation. Then [`judge`] compares contents; see [`judge`] for the order. If the user repeats an equal command
//! while the principal is down, [`judge`] cannot distinguish the two and takes the command as done: at most once, and
//! the user sees the old result and may repeat the command.
//!
//! # When an Application moves
//!
//! An operation that a cluster runs or ran is no command for the next cluster ([`is_spent`]). The hub keeps none that
//! has ended, and [`judge`] removes one that is left over.

use serde_json::{Value, json};

use crate::digest;
use crate::keys;
use crate::object::{Application, Meta, OperationState, list, text};
use crate::patch::merge;

pub use take::{Take, made_with, take, take_along, take_refresh, take_termination};

mod take;
#[cfg(test)]
mod tests;

/// The annotations of an object that request a command.
pub(crate) fn requests(object: &Value) -> Vec<(&'static str, &str)> {
    let meta = Meta::of(object);
    let asked = keys::REQUESTS.into_iter();
    asked
        .filter_map(|key| Some((key, meta.annotation(key)?)))
        .collect()
}

/// The identity of a refresh that this version of the hub's object introduced.
pub fn refresh_id(hub: &Value) -> String {
    let meta = Meta::of(hub);
    format!("{}_{}", meta.uid(), meta.resource_version())
}

/// Adds the identity of a refresh to a message, for [`take_refresh`].
pub fn with_refresh_id(mut wire: Value, id: &str) -> Value {
    let change = json!({ "metadata": { "annotations": { keys::REFRESH_ID: id } } });
    merge(&mut wire, &change);
    wire
}

/// Whether the hub's object requests a refresh or a hydration.
pub fn wants_refresh(hub: &Value) -> bool {
    !requests(hub).is_empty()
}

/// The commands that a change of the hub object from `old` to `new` introduces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Introduced {
    /// `.operation` is new: the resourceVersion of `new` introduced it.
    pub operation: bool,
    /// The phase of the running operation became `Terminating`.
    pub termination: bool,
    /// The annotation for a refresh or a hydration is new: [`refresh_id`] of `new` names it.
    pub refresh: bool,
}

/// Compares two versions of a hub object. An operation that the principal itself mirrored is no command.
pub fn introduced(old: &Value, new: &Value) -> Introduced {
    let (before, after) = (Application::of(old), Application::of(new));
    let operation = after.operation().is_some_and(|operation| {
        !before
            .operation()
            .is_some_and(|old| is_same(old, operation))
    }) && !is_mirrored(after);
    let is_terminating =
        |state: Option<OperationState<'_>>| state.is_some_and(|it| it.phase() == "Terminating");
    let (was, is) = (before.operation_state(), after.operation_state());
    Introduced {
        operation,
        termination: is_terminating(is) && !is_terminating(was) && was.is_some(),
        refresh: {
            let asked = requests(old);
            requests(new).iter().any(|request| !asked.contains(request))
        },
    }
}

/// The principal's knowledge about the commands of one hub object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known<'a> {
    /// Event id of the `set-operation` for the current `.operation`; none after a restart.
    pub operation: Option<&'a str>,
    /// Identity of the requested refresh; none after a restart.
    pub refresh: Option<&'a str>,
    /// Whether the peer names the commands that it took: ours does, a Go agent does not.
    pub names_commands: bool,
    /// Whether a report has shown that the operation was taken. After a user deletes the replica, the recreated one
    /// may have no record of it.
    pub taken: bool,
}

/// The effect of a report on the commands of the hub object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// `.operation` and `operationState`.
    pub operation: Operation,
    /// The spoke has not received the termination of the running operation: mark the command.
    pub terminate: bool,
    /// The spoke has not taken the requested refresh: mark the state, which carries it.
    pub refresh: bool,
    /// The refresh is done: remove the annotation.
    pub refresh_done: bool,
}

/// The next value of the hub's `.operation`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The spoke has not taken the command. It and `operationState` stay; mark the command. Without a known event id,
    /// the current resourceVersion names it from now on.
    Hold,
    /// The spoke leads: set `.operation` to this and `operationState` to the report's.
    Follow(Option<Value>),
}

impl Judgement {
    /// The next `.operation` of the hub's object.
    pub(crate) fn next_operation<'a>(&'a self, hub: &'a Value) -> Option<&'a Value> {
        match &self.operation {
            Operation::Hold => Application::of(hub).operation(),
            Operation::Follow(operation) => operation.as_ref(),
        }
    }

    /// For the first report of an object that replaces another of its name on the hub: commands for its predecessor are
    /// not for it.
    pub fn of_successor(report: &Value) -> Self {
        let on_spoke = Application::of(report);
        let operation = on_spoke.operation().filter(|_| is_mirrored(on_spoke));
        Self {
            operation: Operation::Follow(operation.cloned()),
            terminate: false,
            refresh: false,
            refresh_done: true,
        }
    }
}

/// Judges a report about `hub`. For an existing `.operation`, the first matching rule decides:
///
/// 1. an earlier report has shown that it was taken: taken. Its event id is known and the peer names commands: taken if
///    the report names it, else not;
/// 2. the hub shows it as running: taken;
/// 3. its event id is not known, and the hub shows its end on another cluster ([`is_spent`]): taken;
/// 4. the spoke has the same `.operation`: taken;
/// 5. the last command on the spoke has the same content (for a Go agent: the last operation), and the hub has not
///    shown its end before: taken and finished;
/// 6. otherwise: not taken.
pub fn judge(hub: &Value, report: &Value, known: Known<'_>) -> Judgement {
    let (on_hub, on_spoke) = (Application::of(hub), Application::of(report));
    let is_waiting = on_hub
        .operation()
        .is_some_and(|operation| !was_taken(hub, report, operation, known));
    let terminate = !is_waiting
        && match (on_hub.operation_state(), on_spoke.operation_state()) {
            (Some(shown), Some(real)) => {
                shown.phase() == "Terminating"
                    && real.phase() == "Running"
                    && shown.started_at() == real.started_at()
            }
            (None, _) | (_, None) => false,
        };
    Judgement {
        operation: if is_waiting {
            Operation::Hold
        } else {
            Operation::Follow(shown_operation(on_hub, on_spoke, known))
        },
        terminate,
        refresh: refresh_is_due(on_hub, on_spoke, known),
        refresh_done: refresh_done(on_hub, on_spoke, known),
    }
}

/// The spoke's operation while Argo CD there runs it; before that only if the hub has it as a command.
///
/// So an operation on the hub is a command exactly if it does not run: the hub keeps no operation of a spoke that has
/// ended. A later cluster of the Application would receive it as a command.
fn shown_operation(
    on_hub: Application<'_>,
    on_spoke: Application<'_>,
    known: Known<'_>,
) -> Option<Value> {
    let operation = on_spoke.operation()?;
    // in the hub's form: a different spelling of the same operation is not a new command
    let shown = on_hub.operation().filter(|shown| is_same(shown, operation));
    // a Go agent sets a repeated operation beside the result of the earlier one
    let has_ended = known.names_commands && ran(on_spoke).is_some_and(|state| !state.is_active());
    let waits = shown.is_some() && !is_mirrored(on_hub) && !has_ended;
    (waits || is_mirrored(on_spoke)).then(|| shown.unwrap_or(operation).clone())
}

/// Whether the object's operation is the running one of its state.
fn is_mirrored(app: Application<'_>) -> bool {
    ran(app).is_some_and(OperationState::is_active)
}

/// Whether a cluster runs or ran the hub's operation. To another cluster it is history and no command.
pub fn is_spent(hub: &Value) -> bool {
    ran(Application::of(hub)).is_some()
}

/// The state of the object's operation, if it is about that operation.
fn ran(app: Application<'_>) -> Option<OperationState<'_>> {
    let operation = app.operation()?;
    let ran =
        |state: &OperationState<'_>| state.operation().is_some_and(|it| is_same(it, operation));
    app.operation_state().filter(ran)
}

/// Whether two values mean the same operation. A Go program adds some empty fields (`retry: {}`) and omits others that
/// the user set.
fn is_same(one: &Value, other: &Value) -> bool {
    one == other || gist(one) == gist(other)
}

/// The value without empty fields.
fn gist(value: &Value) -> Option<Value> {
    match value {
        Value::Null | Value::Bool(false) => None,
        Value::Bool(true) => Some(value.clone()),
        Value::Number(number) => (number.as_f64() != Some(0.0)).then(|| value.clone()),
        Value::String(text) => (!text.is_empty()).then(|| value.clone()),
        // positions in a list matter
        Value::Array(list) => (!list.is_empty()).then(|| {
            let gists = list.iter().map(|item| gist(item).unwrap_or_default());
            Value::Array(gists.collect())
        }),
        Value::Object(fields) => {
            let gists: serde_json::Map<_, _> = fields
                .iter()
                .filter_map(|(name, field)| Some((name.clone(), gist(field)?)))
                .collect();
            (!gists.is_empty()).then_some(Value::Object(gists))
        }
    }
}

fn was_taken(hub: &Value, report: &Value, operation: &Value, known: Known<'_>) -> bool {
    if known.taken {
        return true;
    }
    let on_spoke = Application::of(report);
    let last = last_command(report);
    if let (Some(id), true) = (known.operation, known.names_commands) {
        return last.is_some_and(|(last, _)| last == id);
    }
    let is_done = ran(Application::of(hub)).is_some_and(|state| {
        let (shown, real) = (state.started_at(), on_spoke.operation_state());
        let ran_here = shown.is_some() && real.and_then(OperationState::started_at) == shown;
        state.is_active() || (known.operation.is_none() && !ran_here)
    });
    if is_done
        || on_spoke
            .operation()
            .is_some_and(|set| is_same(set, operation))
    {
        return true;
    }
    let same = match last {
        Some((_, content)) => content == digest::short(operation),
        None => on_spoke
            .operation_state()
            .and_then(OperationState::operation)
            .is_some_and(|last| is_same(last, operation)),
    };
    same && !was_shown_the_end(hub, on_spoke)
}

/// Whether the hub has already shown the end of the spoke's last operation: then its `.operation` is newer.
///
/// All times are the spoke's, so clock skew does not matter; RFC 3339 in UTC sorts as text.
fn was_shown_the_end(hub: &Value, on_spoke: Application<'_>) -> bool {
    let hub = Application::of(hub);
    let Some(last) = on_spoke.operation_state() else {
        return false;
    };
    let (Some(started), Some(finished)) = (last.started_at(), last.finished_at()) else {
        return false;
    };
    let shown = hub
        .operation_state()
        .is_some_and(|state| !state.is_active() && state.started_at() == Some(started));
    let is_newer = |status: &Value| {
        let mut history = list(status, "history").iter();
        text(status, "reconciledAt") > finished
            || history.any(|entry| text(entry, "deployStartedAt") == started)
    };
    shown || hub.status().is_some_and(is_newer)
}

/// Only if the spoke names the last refresh that it took; a Go agent would get the request for ever.
fn refresh_is_due(on_hub: Application<'_>, on_spoke: Application<'_>, known: Known<'_>) -> bool {
    known.names_commands
        && on_hub.annotation(keys::REFRESH).is_some()
        && known.refresh.is_some()
        && on_spoke.annotation(keys::LAST_REFRESH) != known.refresh
}

fn refresh_done(on_hub: Application<'_>, on_spoke: Application<'_>, known: Known<'_>) -> bool {
    if !wants_refresh(on_hub.value()) || on_spoke.annotation(keys::REFRESH).is_some() {
        return false;
    }
    if known.names_commands {
        known.refresh.is_some() && on_spoke.annotation(keys::LAST_REFRESH) == known.refresh
    } else {
        // A Go agent removes from its copy each annotation that the hub removes, even before the hydration is done.
        on_spoke.annotation(keys::HYDRATE).is_none()
    }
}

/// `(event id, digest of the operation)` of the last command that the spoke took.
fn last_command(object: &Value) -> Option<(&str, &str)> {
    let record = Meta::of(object).annotation(keys::LAST_COMMAND)?;
    Some(record.split_once(' ').unwrap_or((record, "")))
}

fn record(event_id: &str, operation: &Value) -> String {
    format!("{event_id} {}", digest::short(operation))
}
