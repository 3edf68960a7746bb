//! The words in which a session and its driver talk.

use std::time::Duration;

use crate::event::Event;
use crate::object::{Facet, Kind, Mode, ObjectKey};
use crate::version::Capabilities;

/// Which end of the stream we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The hub.
    Principal,
    /// The spoke.
    Agent,
}

/// Who is at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The agent's mode; of this connection, whichever end we are.
    pub mode: Mode,
    /// What both ends can do. Empty towards a Go peer.
    pub capabilities: Capabilities,
}

impl Peer {
    /// Whether it has a word for such objects. A Go agent that hears an unknown one never acknowledges it.
    pub fn knows(&self, kind: Kind) -> bool {
        kind.needs()
            .is_none_or(|capability| self.capabilities.has(capability))
    }
}

/// Bounds and times of a session. Every one is a setting with a tested default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Events sent and not yet acknowledged. 256 keep a link of 100 ms full at 2,500 events a second.
    pub window: usize,
    /// Pause before the first resend, as the Go implementation has it.
    pub resend_min: Duration,
    /// Each further pause is so many times longer.
    pub resend_factor: u32,
    /// No pause is longer.
    pub resend_max: Duration,
    /// Objects and control messages received and not yet done.
    pub inbox_entries: usize,
    /// Bytes of their bodies, identifiers and extensions.
    pub inbox_bytes: usize,
    /// Acknowledgements that wait to be sent. From here on the session reads no further frame. A driver that reads on
    /// to twice the number gets a [`Violation`].
    pub acks: usize,
    /// Largest body that is sent.
    pub message_bytes: usize,
    /// The agent's heartbeat; none on the principal.
    pub heartbeat: Option<Duration>,
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
        }
    }
}

/// Gives the body of a mark at the moment when it is sent.
pub trait Source {
    /// The event for this facet as it is now; none if there is nothing to say (any more).
    ///
    /// `said_before`: the peer has acknowledged a state of this object in this session, so
    /// [`Verb::SpecUpdate`](crate::Verb::SpecUpdate) will do; otherwise it is
    /// [`Verb::Create`](crate::Verb::Create), which a Go agent needs before it adopts anything.
    fn encode(&self, key: &ObjectKey, facet: Facet, stated_before: bool) -> Option<Event>;
}

/// Names one piece of work of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkId(pub(crate) u64);

/// Something received that has to be done.
#[derive(Clone, Debug)]
pub struct Work {
    /// To be handed back to [`Session::finished`](super::Session::finished).
    pub id: WorkId,
    /// What to do.
    pub event: Event,
}

/// How a piece of work ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Applied, or nothing was to be done.
    Done,
    /// It cannot be applied, now or later; the peer shall not send it again.
    Refused(String),
    /// Weather: the same again after this pause, or at once when a newer value arrives.
    Retry {
        /// The pause.
        after: Duration,
    },
}

/// What a peer did to lose its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// It sent more objects or bytes than the inbox holds.
    #[error("too much unfinished work for one session")]
    TooMuchWork,
    /// It keeps sending and never reads its acknowledgements.
    #[error("the peer does not read acknowledgements")]
    AcksNotRead,
}

/// What the peer refused to take, for a condition on the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerRefusal {
    /// The object.
    pub key: ObjectKey,
    /// Which facet of it.
    pub facet: Facet,
    /// What the peer said.
    pub reason: String,
}

/// Counters for metrics and `why`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Objects that something still has to be said about, sent or not.
    pub outbox_objects: usize,
    /// Events sent and not acknowledged.
    pub in_flight: usize,
    /// How long the oldest of them is out.
    pub oldest: Duration,
    /// The same, but for commands and deletes, which may take their time.
    pub unheard: Duration,
    /// Objects and control messages received and not done.
    pub inbox_objects: usize,
    /// Pieces of work handed out.
    pub working: usize,
    /// Events sent again.
    pub resent: u64,
    /// Events that could not be read.
    pub malformed: u64,
    /// Events that this peer may not send, or that were refused when applied.
    pub refused: u64,
    /// Acknowledgements of what was never sent, or of what was acknowledged already.
    pub strays: u64,
    /// When the peer was last heard, on the session's clock.
    pub last_received: Duration,
}
