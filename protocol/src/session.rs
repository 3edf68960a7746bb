//! One subscribed stream's life, for both ends: a machine without I/O.
//!
//! A session is made when a stream is up and dropped when it ends. Nothing in it has to survive: after a
//! reconnect the [`resync`](crate::resync) tells what the peer lacks, and that is marked in a fresh one.
//!
//! The driver, one task, does this in a loop:
//!
//! 1. [`Session::next_outgoing`] until it has nothing, writing each to the stream;
//! 2. [`Session::next_work`] while it has hands free, starting each piece;
//! 3. wait for the first of: a frame ([`Session::receive`], read only while [`Session::has_room`]), an
//!    ended piece of work ([`Session::finished`]), a local change ([`Session::mark`], [`Session::say`]),
//!    the time of [`Session::next_timeout`].
//!
//! Writing never waits for the peer to read: while the stream is full the driver stops taking from the
//! outbox, which goes on coalescing, and keeps reading. So two busy ends cannot block each other.

use std::time::Duration;

use crate::event::Event;
use crate::object::{Facet, Mode, ObjectKey};
use crate::version::Capabilities;
use crate::wire::cloudevents::CloudEvent;

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
    /// Bytes of their bodies.
    pub inbox_bytes: usize,
    /// Acknowledgements waiting to be sent; a peer that sends and does not read ends the session here.
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
            resend_max: Duration::from_secs(120),
            inbox_entries: 20_000,
            inbox_bytes: 256 << 20,
            acks: 50_000,
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
    fn encode(&self, key: &ObjectKey, facet: Facet, said_before: bool) -> Option<Event>;
}

/// Names one piece of work of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkId(pub(crate) u64);

/// Something received that has to be done.
#[derive(Clone, Debug)]
pub struct Work {
    /// To be handed back to [`Session::finished`].
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
    #[error("more unfinished work than the session holds")]
    TooMuchWork,
    /// It keeps sending and never reads its acknowledgements.
    #[error("acknowledgements are not read")]
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
    /// When the peer was last heard, on the session's clock.
    pub last_heard: Duration,
}

/// The machine. See the module for how it is driven.
#[derive(Debug)]
pub struct Session {
    role: Role,
    peer: Peer,
    limits: Limits,
}

impl Session {
    /// A session that has just begun; its clock stands at zero.
    pub fn new(role: Role, peer: Peer, limits: Limits) -> Self {
        Self { role, peer, limits }
    }

    /// Who is at the other end.
    pub const fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Something about this object changed here and has to be said. Idempotent and cheap.
    ///
    /// A new [`Facet::State`] takes back a delete that was not sent yet.
    pub fn mark(&mut self, key: ObjectKey, facet: Facet) {
        todo!("{key} {facet:?}")
    }

    /// It need not be said any more. What is in flight stays in flight.
    pub fn unmark(&mut self, key: &ObjectKey, facet: Facet) {
        todo!("{key} {facet:?}")
    }

    /// Says a ready-made event: a delete, which wipes everything else about its object, or a control
    /// message, which replaces one of the same content that was not sent yet.
    pub fn say(&mut self, event: Event) {
        todo!("{event:?}")
    }

    /// Takes in one frame. Acknowledgements are consumed; what cannot be read or is not allowed is
    /// acknowledged as refused; the rest becomes work, newest value per object.
    pub fn receive(&mut self, raw: CloudEvent, now: Duration) -> Result<(), Violation> {
        todo!("{raw:?} {now:?}")
    }

    /// Whether another frame may be read. Reading on regardless ends in a [`Violation`].
    pub fn has_room(&self) -> bool {
        todo!()
    }

    /// The next frame to write: acknowledgements, then resends that are due, then control messages, then
    /// marks in the order of kinds, fair over objects. None: nothing can be sent now.
    pub fn next_outgoing(&mut self, source: &impl Source, now: Duration) -> Option<CloudEvent> {
        todo!("{} {now:?}", source.encode(&ObjectKey::new(crate::Kind::Application, "", ""), Facet::State, false).is_some())
    }

    /// The next piece of work: at most one per object, state before command; control messages one at a
    /// time in their order. None: nothing is ready.
    pub fn next_work(&mut self, now: Duration) -> Option<Work> {
        todo!("{now:?}")
    }

    /// A piece of work ended. Done and refused are acknowledged.
    pub fn finished(&mut self, id: WorkId, verdict: Verdict, now: Duration) {
        todo!("{id:?} {verdict:?} {now:?}")
    }

    /// How long until something becomes due without any input; none if nothing will.
    pub fn next_timeout(&self, now: Duration) -> Option<Duration> {
        todo!("{now:?}")
    }

    /// Stop beginning things: no new marks are sent and no new work is handed out. What is under way ends.
    pub fn drain(&mut self) {
        todo!()
    }

    /// After [`Self::drain`]: nothing is under way any more.
    pub fn is_drained(&self) -> bool {
        todo!()
    }

    /// What the peer refused since the last call. Only our own ends say so.
    pub fn take_refusals(&mut self) -> Vec<PeerRefusal> {
        todo!()
    }

    /// Counters.
    pub fn stats(&self, now: Duration) -> Stats {
        todo!("{now:?}")
    }
}
