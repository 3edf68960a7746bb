//! Types of the interface between a session and its driver.

use std::time::Duration;

use crate::event::{Event, Verb};
use crate::inbox::WorkId;
use crate::object::{Facet, Kind, Mode, ObjectKey};
use crate::version::{self, Capabilities};

/// Which end of the stream we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The hub.
    Principal,
    /// The spoke.
    Agent,
}

/// The other end of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The agent's mode, on both ends.
    pub mode: Mode,
    /// Capabilities of both ends. Empty towards a Go peer.
    pub capabilities: Capabilities,
    takes_operations: bool,
}

impl Peer {
    /// An end that knows every event of the Go protocol.
    pub const fn new(mode: Mode, capabilities: Capabilities) -> Self {
        Self {
            mode,
            capabilities,
            takes_operations: true,
        }
    }

    /// An agent of this version. For a Go agent before 0.9 an operation is part of a spec-update. Ours may present any version.
    #[must_use]
    pub fn of_version(self, version: &str) -> Self {
        Self {
            takes_operations: self.capabilities.is_ours() || version::knows_operations(version),
            ..self
        }
    }

    /// The verb of an event with the same body for this end.
    pub(super) fn spelled(&self, verb: Verb) -> Verb {
        if verb == Verb::SetOperation && !self.takes_operations {
            Verb::SpecUpdate
        } else {
            verb
        }
    }

    /// Whether it knows the kind. A Go agent never acknowledges an event of an unknown kind.
    pub fn knows(&self, kind: Kind) -> bool {
        kind.needs()
            .is_none_or(|capability| self.capabilities.has(capability))
    }
}

/// Bounds and times of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Events sent and not yet acknowledged. 256 keep a link of 100 ms full at 2,500 events a second.
    pub window: usize,
    /// Pause before the first resend, as in the Go implementation.
    pub resend_min: Duration,
    /// Factor between two pauses.
    pub resend_factor: u32,
    /// Longest pause.
    pub resend_max: Duration,
    /// Objects and control messages received and not yet finished.
    pub inbox_entries: usize,
    /// Bytes of their bodies, identifiers and extensions.
    pub inbox_bytes: usize,
    /// Acknowledgements that wait to be sent. At this number the session has no room for a further frame; at twice the
    /// number the driver gets a [`Violation`].
    pub acks: usize,
    /// Largest body that is sent.
    pub message_bytes: usize,
    /// The agent's heartbeat; none on the principal.
    pub heartbeat: Option<Duration>,
    /// How long a peer with learned heartbeats may be silent at least.
    pub silence: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            window: 256,
            resend_min: Duration::from_secs(5),
            resend_factor: 4,
            resend_max: Duration::from_mins(2),
            inbox_entries: 20_000,
            inbox_bytes: 256 << 20,
            acks: 2_000,
            message_bytes: 200 << 20,
            heartbeat: None,
            silence: Duration::from_secs(25),
        }
    }
}

/// Encodes the body of a mark at the time of sending.
pub trait Source {
    /// The event with the current value of this facet; none if there is no value (any more).
    ///
    /// `stated_before`: the peer has acknowledged a state of this object in this session, so the event is a
    /// [`Verb::SpecUpdate`](crate::Verb::SpecUpdate); otherwise it is a [`Verb::Create`](crate::Verb::Create), which a
    /// Go agent needs before it adopts an object.
    fn encode(&self, key: &ObjectKey, facet: Facet, stated_before: bool) -> Option<Event>;
}

/// A received event to apply.
#[derive(Clone, Debug)]
pub struct Work {
    /// The argument of [`Session::finished`](super::Session::finished).
    pub id: WorkId,
    /// The event.
    pub event: Event,
}

/// The result of a work item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Applied, or a no-op.
    Done,
    /// It cannot be applied, now or later; the peer must not resend it.
    Refused(String),
    /// A transient error: retry after this pause, or at once with a newer value.
    Retry {
        /// The pause.
        after: Duration,
    },
}

/// The misconduct of a peer that ends its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// It sent more objects or bytes than the inbox takes.
    #[error("too much unfinished work for one session")]
    TooMuchWork,
    /// It keeps sending and never reads its acknowledgements.
    #[error("the peer does not read acknowledgements")]
    AcksNotRead,
}

/// A refusal of the peer, for a condition on the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerRefusal {
    /// The object.
    pub key: ObjectKey,
    /// The refused facet.
    pub facet: Facet,
    /// The peer's reason.
    pub reason: String,
}

/// Counters for metrics and `why`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Objects with values that are unsent or unacknowledged.
    pub outbox_objects: usize,
    /// Events sent and not acknowledged.
    pub in_flight: usize,
    /// Age of the oldest event in flight.
    pub oldest: Duration,
    /// Age of the oldest event in flight that is no command or delete, which may take long.
    pub unacknowledged: Duration,
    /// Objects and control messages received and not finished.
    pub inbox_objects: usize,
    /// Bytes of those.
    pub inbox_bytes: usize,
    /// Work items in progress.
    pub working: usize,
    /// Resent events.
    pub resent: u64,
    /// Events that could not be decoded.
    pub malformed: u64,
    /// Events that this peer may not send, or that were refused when applied.
    pub refused: u64,
    /// Acknowledgements of unknown or already acknowledged events.
    pub strays: u64,
    /// Time of the last received frame, on the session's clock.
    pub last_received: Duration,
}
