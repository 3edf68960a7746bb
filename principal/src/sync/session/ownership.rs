//! The resync of both ends after a connect: the owner of the objects decides, and the other end lists its objects.

use std::{fmt, time::Duration};

use protocol::{Event, Facet, ObjectKey, Session, Verdict, payload};
use runtime::error::Chain;
use serde::de::DeserializeOwned;

use super::brake::Waiting;
use crate::{fleet::Enrolment, report::BlockedDeletion, sync::hub::Hub};

/// What a step of a resync acts on.
#[derive(Debug)]
pub(super) struct Step<'a> {
    pub(super) session: &'a mut Session,
    pub(super) hub: &'a Hub,
    pub(super) now: Duration,
}

/// The resync of one session, by the owner of its objects. The defaults fit a cluster that owns its objects itself.
pub(super) trait Ownership: fmt::Debug + Send {
    /// Handles a resync message of the agent; an error is the reason of a refusal.
    fn take(&mut self, step: &mut Step<'_>, event: &Event) -> Result<(), String>;

    /// Whether the next list has the checksums of the agent.
    fn expects_sums(&self) -> bool {
        false
    }

    /// Handles a message about an object that the agent owns before it is applied; a verdict if nothing remains to be
    /// applied.
    fn take_message(&mut self, _hub: &Hub, _event: &Event, _now: Duration) -> Option<Verdict> {
        None
    }

    /// The time until the next action without a message.
    fn next_timeout(&self, now: Duration) -> Option<Duration>;

    /// Does what is due by now; returns whether another comparison began.
    fn advance(&mut self, step: &mut Step<'_>) -> bool;

    /// Makes the next comparison due at once: a managed cluster may have copies whose deletion the hub did not see, an
    /// autonomous one may have objects that the hub can mirror now.
    fn resync_now(&mut self, hub: &Hub);

    /// When the last comparison ended; none while the first one is under way.
    ///
    /// An autonomous cluster gets the whole inventory at the begin, and answers with the differences.
    fn agreed(&self) -> Option<Duration> {
        Some(Duration::ZERO)
    }

    /// Drops the object from the comparison: the hub sends a message about it anyway.
    fn forget(&mut self, _session: &mut Session, _key: &ObjectKey) {}

    /// Sends a command as soon as the agent has the object.
    fn command(&mut self, session: &mut Session, key: &ObjectKey) {
        session.mark(key, Facet::Command);
    }

    /// The objects that the agent does not have and whose deletion the hub waits for.
    fn take_absent(&mut self) -> Vec<ObjectKey> {
        Vec::new()
    }

    /// The deletions that wait for a decision.
    fn waiting(&mut self) -> &mut Waiting;

    /// Whether the agent names more objects than a spoke of this hub can have.
    fn has_too_many(&self) -> bool {
        false
    }

    /// Deletes the unknown objects; returns a deletion that the brake blocks instead.
    ///
    /// `enrolment` is the current one, not that of the session's begin.
    fn decide(
        &mut self,
        step: &mut Step<'_>,
        enrolment: Option<Enrolment>,
    ) -> Option<BlockedDeletion>;
}

/// The payload of a resync message; an error is the reason of a refusal.
pub(super) fn decoded<T: DeserializeOwned + Default>(
    what: &'static str,
    event: &Event,
) -> Result<T, String> {
    payload::decode(what, &event.payload).map_err(|error| Chain(&error).to_string())
}
