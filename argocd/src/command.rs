//! Sync, terminate and refresh: commands, done at most once.
//!
//! A command is not state: whoever does it twice has done something wrong. So each has an identity.
//!
//! * **Sync**: the event id of its `set-operation`, which our principal makes of the hub UID and the
//!   resourceVersion that introduced the operation. The agent writes it, with a digest of the operation,
//!   into [`LAST_COMMAND`](crate::keys::LAST_COMMAND) in the same patch that sets `.operation`, under the
//!   resourceVersion it has seen. A repeat finds it there.
//! * **Terminate**: the `startedAt` of the operation that is to end. It is a name already, on both sides.
//! * **Refresh**: an id that the principal puts beside the refresh annotation on the wire. A hydration that is asked
//!   for goes with it.
//!
//! The hub's `.operation` stays until the spoke has taken the command and ended it. A status from before
//! that ([`Operation::Hold`]) neither clears it nor brings back an older `operationState`.
//!
//! # After a restart of the principal
//!
//! The principal keeps nothing on hub objects, so it does not know which resourceVersion introduced an
//! operation that it finds set. Then [`judge`] decides by content; see [`judge`] for the order. Where it
//! cannot tell a command that was taken from an equal one asked for again while the principal was away, it
//! takes it for done: at most once, and the user sees the old result and may ask again.

use serde_json::Value;

use crate::digest;
use crate::keys;
use crate::object::{Application, Meta, OperationState};

pub use take::{Take, made_with, take, take_along, take_refresh, take_termination};

mod take;
#[cfg(test)]
mod tests;

/// The annotations by which an object asks for something once.
fn requests(object: &Value) -> Vec<(&'static str, &str)> {
    let meta = Meta::of(object);
    let asked = keys::REQUESTS.into_iter();
    asked
        .filter_map(|key| Some((key, meta.annotation(key)?)))
        .collect()
}

/// The identity of a refresh that this version of the hub's object introduced.
pub fn refresh_id(hub: &Value) -> String {
    format!(
        "{}_{}",
        Meta::of(hub).uid(),
        Meta::of(hub).resource_version()
    )
}

/// Puts the identity of a refresh on what is sent, for [`take_refresh`].
pub fn with_refresh_id(mut wire: Value, id: &str) -> Value {
    if let Some(annotations) = wire
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.insert(keys::REFRESH_ID.to_owned(), id.into());
    }
    wire
}

/// Whether the hub's object asks for a refresh, or for a hydration.
pub fn wants_refresh(hub: &Value) -> bool {
    !requests(hub).is_empty()
}

/// What the hub's change from `old` to `new` asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Introduced {
    /// `.operation` is new: the resourceVersion of `new` introduced it.
    pub operation: bool,
    /// The phase of the running operation became `Terminating`.
    pub termination: bool,
    /// The annotation for a refresh or a hydration is new: [`refresh_id`] of `new` names it.
    pub refresh: bool,
}

/// Compares two versions of a hub object. What the principal itself mirrored there is no command.
pub fn introduced(old: &Value, new: &Value) -> Introduced {
    let (before, after) = (Application::of(old), Application::of(new));
    let operation = after.operation().is_some_and(|operation| {
        !before
            .operation()
            .is_some_and(|old| is_same(old, operation))
    }) && !is_mirrored(after);
    let phase = |app: Application<'_>| {
        app.operation_state()
            .map_or("", |state| state.phase())
            .to_owned()
    };
    Introduced {
        operation,
        termination: phase(after) == "Terminating"
            && phase(before) != "Terminating"
            && before.operation_state().is_some(),
        refresh: {
            let asked = requests(old);
            requests(new).iter().any(|request| !asked.contains(request))
        },
    }
}

/// What the principal knows about the commands of one hub object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known<'a> {
    /// Event id of the `set-operation` for the `.operation` that is set; none after a restart.
    pub operation: Option<&'a str>,
    /// Identity of the refresh that is asked for; none after a restart.
    pub refresh: Option<&'a str>,
    /// Whether the peer names the commands it took: ours does, a Go agent does not.
    pub names_commands: bool,
    /// A report has shown that the operation was taken. A copy that somebody deleted and that was made again may not
    /// know any more.
    pub taken: bool,
}

/// What a report means for the commands on the hub object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// `.operation` and `operationState`.
    pub operation: Operation,
    /// The running operation is to be terminated and the spoke does not know yet: mark the command.
    pub terminate: bool,
    /// A refresh is asked for and the spoke has not taken it: mark the state, which carries it.
    pub refresh: bool,
    /// The refresh was done: the annotation goes.
    pub refresh_done: bool,
}

/// What becomes of the hub's `.operation`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A command is not taken yet. It and `operationState` stay; mark the command. Without a known event
    /// id, the current resourceVersion names it from now on.
    Hold,
    /// The spoke leads: `.operation` becomes this and `operationState` is the report's.
    Follow(Option<Value>),
}

impl Judgement {
    /// Of the first report of an object that takes the place of another of its name on the hub: what was asked of that one
    /// was not meant for this one, and was perhaps done.
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

/// Judges a report about `hub`. In this order, for an `.operation` that is set:
///
/// 1. a report has shown that it was taken; or its event id is known and the peer names commands: taken if the report
///    names it, else not;
/// 2. the hub shows it as running: it was taken;
/// 3. the spoke has the same operation set: it was taken;
/// 4. the last command taken on the spoke has the same content (for a Go agent: the last operation), and
///    the hub was not shown that one's end before: it was taken, and has ended;
/// 5. otherwise it was not taken.
pub fn judge(hub: &Value, report: &Value, known: Known<'_>) -> Judgement {
    let (on_hub, on_spoke) = (Application::of(hub), Application::of(report));
    let retained = on_hub
        .operation()
        .is_some_and(|operation| !was_taken(hub, report, operation, known));
    let terminate = !retained
        && match (on_hub.operation_state(), on_spoke.operation_state()) {
            (Some(shown), Some(real)) => {
                shown.phase() == "Terminating"
                    && real.phase() == "Running"
                    && shown.started_at() == real.started_at()
            }
            (None, _) | (_, None) => false,
        };
    Judgement {
        operation: if retained {
            Operation::Hold
        } else {
            Operation::Follow(shown_operation(on_hub, on_spoke))
        },
        terminate,
        refresh: refresh_is_due(on_hub, on_spoke, known),
        refresh_done: refresh_done(on_hub, on_spoke, known),
    }
}

/// The spoke's operation, once Argo CD there works on it; before that only if the hub has it too.
///
/// So an operation on the hub that runs there is never a command, and one that does not run is.
fn shown_operation(on_hub: Application<'_>, on_spoke: Application<'_>) -> Option<Value> {
    let operation = on_spoke.operation()?;
    match on_hub.operation() {
        // in the form that the hub has: one that was only written differently is not a new one
        Some(shown) if is_same(shown, operation) => Some(shown.clone()),
        Some(_) | None => is_mirrored(on_spoke).then(|| operation.clone()),
    }
}

/// Whether the object's operation is the one that its state says is running.
fn is_mirrored(app: Application<'_>) -> bool {
    let (Some(state), Some(operation)) = (app.operation_state(), app.operation()) else {
        return false;
    };
    state.is_active()
        && state
            .operation()
            .is_some_and(|running| is_same(running, operation))
}

/// Whether two texts mean one operation. A Go program writes some empty fields that nobody set (`retry: {}`) and
/// leaves out others that somebody did.
fn is_same(one: &Value, other: &Value) -> bool {
    one == other || gist(one) == gist(other)
}

/// Without what says nothing.
fn gist(value: &Value) -> Option<Value> {
    match value {
        Value::Null | Value::Bool(false) => None,
        Value::Bool(true) => Some(value.clone()),
        Value::Number(number) => (number.as_f64() != Some(0.0)).then(|| value.clone()),
        Value::String(text) => (!text.is_empty()).then(|| value.clone()),
        // the place in a list counts
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
    if is_mirrored(Application::of(hub))
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

/// Whether the hub was shown the end of the spoke's last operation: then what is set there came later.
///
/// All times are the spoke's own, so no two clocks are compared; RFC 3339 in UTC sorts as text.
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
    let text = |value: &Value, field: &str| {
        value
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let reconciled_since = hub
        .status()
        .is_some_and(|status| text(status, "reconciledAt").as_str() > finished);
    let in_history = hub
        .status()
        .and_then(|status| status.get("history"))
        .and_then(Value::as_array)
        .is_some_and(|history| {
            history
                .iter()
                .any(|entry| text(entry, "deployStartedAt") == started)
        });
    shown || reconciled_since || in_history
}

/// Only where the spoke says which refresh it took last; a Go agent would be asked for ever.
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
        // What is taken away from the hub's goes from a Go agent's copy too, done or not.
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
