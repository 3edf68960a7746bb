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
//! # What the receiver may rely on
//!
//! Between our own ends, events about one [`ObjectKey`] arrive in the order of their meaning: one state or
//! status is in flight at a time, a delete overtakes what was said before it, and a state is never said
//! before an older delete has landed. So a delete is its owner's last word about the *hub name* it carries,
//! even if the UID in it is that of an object whose state never came through; for another hub name that
//! has the same name on the spoke the UID decides. A Go principal keeps this order only by UID.
//!
//! Commands are said after the state that was marked with them, hold up nothing, and may come before a state
//! that was marked later: a command for an object that is not here (yet) is tried again, not refused. A Go agent
//! does a command as often as it hears it, so it hears one that it has acknowledged only once in a session.
//!
//! # What the driver has to mind
//!
//! [`Session::next_timeout`] is zero while something is due that the driver does not take: a resend while
//! the stream is full, a retry while it has no hand free. It must not turn in circles then, but wait for
//! the stream or the hand.
//!
//! What people ask of a Go agent is a control message that is sent once and, unacknowledged, forgotten after the pause
//! before a resend; the peer's answer is a control message of its own. So is the last state of an object that a Go agent
//! hears before its delete: it removes what it holds as it holds it, with the workload if the copy still says so.
//!
//! Writing never waits for the peer to read: while the stream is full the driver stops taking from the
//! outbox, which goes on coalescing, and keeps reading. So two busy ends cannot block each other.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use crate::event::{self, Event, Target, Verb};
use crate::inbox::Inbox;
use crate::object::{Facet, ObjectKey};
use crate::outbox::Outbox;
use crate::version::Capability;
use crate::wire::cloudevents::CloudEvent;

mod ack;
mod flight;
mod rules;
mod send;
mod terms;

use flight::Flights;

#[cfg(test)]
mod tests;

pub use terms::{Limits, Peer, PeerRefusal, Role, Source, Stats, Verdict, Violation, Work, WorkId};

/// The machine. See the module for how it is driven.
#[derive(Debug)]
pub struct Session {
    role: Role,
    peer: Peer,
    limits: Limits,
    outbox: Outbox,
    inbox: Inbox,
    flights: Flights,
    acks: VecDeque<Event>,
    /// Objects whose state the peer has acknowledged in this session.
    stated: HashSet<ObjectKey>,
    /// Event ids of the last commands that a peer without [`Capability::CommandIdentity`] has acknowledged: it would
    /// do them again.
    done: HashMap<ObjectKey, String>,
    /// Resource id and event id of what was acknowledged before it was done. Bounded by the inbox.
    promised: HashSet<(String, String)>,
    refusals: Vec<PeerRefusal>,
    next_ping: Option<Duration>,
    /// How the last heartbeat of the peer was answered.
    answered: Option<Event>,
    draining: bool,
    resent: u64,
    malformed: u64,
    refused: u64,
    strays: u64,
    last_received: Duration,
}

impl Session {
    /// A session that has just begun; its clock stands at zero.
    pub fn new(role: Role, peer: Peer, limits: Limits) -> Self {
        Self {
            role,
            peer,
            next_ping: limits.heartbeat,
            limits,
            outbox: Outbox::default(),
            inbox: Inbox::default(),
            flights: Flights::default(),
            acks: VecDeque::new(),
            stated: HashSet::new(),
            done: HashMap::new(),
            promised: HashSet::new(),
            refusals: Vec::new(),
            answered: None,
            draining: false,
            resent: 0,
            malformed: 0,
            refused: 0,
            strays: 0,
            last_received: Duration::ZERO,
        }
    }

    /// Who is at the other end.
    pub const fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Something about this object changed here and has to be said. Idempotent and cheap.
    ///
    /// A new [`Facet::State`] takes back a delete that was not sent yet, if there is a state when it is sent.
    ///
    /// A kind that the peer has no word for is nothing to it.
    pub fn mark(&mut self, key: impl Borrow<ObjectKey>, facet: Facet) {
        if !self.peer.knows(key.borrow().kind) {
            return;
        }
        self.outbox.mark(key.borrow(), facet);
        // something in flight may be due earlier now, to be replaced by this
        self.flights.look_again();
    }

    /// It need not be said any more. What is in flight stays in flight.
    pub fn unmark(&mut self, key: &ObjectKey, facet: Facet) {
        self.outbox.unmark(key, facet);
    }

    /// Says a ready-made event: a delete, which wipes everything else about its object, or a control
    /// message, which replaces one of the same content that was not sent yet. A state that is said so is the last word
    /// before a delete that is said right after it: it goes out first, and once.
    pub fn emit(&mut self, event: Event) {
        match event.object() {
            Some(key) if !self.peer.knows(key.kind) => {}
            Some(key) if event.verb == Verb::Delete => {
                // what is in flight about it does not matter any more, so the delete need not wait for it
                self.flights.forget(&key);
                self.outbox.delete(&key, event);
            }
            Some(_) | None => self.outbox.control(event),
        }
    }

    /// Takes in one frame. Acknowledgements are consumed; what cannot be read or is not allowed is
    /// acknowledged as refused; the rest becomes work, newest value per object.
    pub fn receive(&mut self, raw: CloudEvent, now: Duration) -> Result<(), Violation> {
        self.last_received = now;
        let event = match event::read(raw) {
            Ok(event) => event,
            Err(unread) => {
                self.malformed = self.malformed.saturating_add(1);
                return match unread.answer {
                    Some(answer) => self.acknowledge(&answer, Some(unread.why.to_string())),
                    None => Ok(()),
                };
            }
        };
        if event.target == Target::Ack {
            self.acknowledged(&event);
            return Ok(());
        }
        if !rules::takes(self.role, self.peer.mode, event.target, event.verb) {
            self.refused = self.refused.saturating_add(1);
            let why = format!("{} of {} is not accepted here", event.verb, event.target);
            return self.acknowledge(&event, Some(why));
        }
        if event.target == Target::Heartbeat {
            self.answered = Some(event.ack());
            return self.acknowledge(&event, None);
        }
        if self.inbox.entries() >= self.limits.inbox_entries.saturating_mul(2)
            || self.inbox.bytes() >= self.limits.inbox_bytes.saturating_mul(2)
        {
            return Err(Violation::TooMuchWork);
        }
        let receipt = self
            .is_acknowledged_on_receipt(&event, now)
            .then(|| event.ack());
        for replaced in self.inbox.insert(event) {
            self.acknowledge(&replaced, None)?;
        }
        let Some(receipt) = receipt else {
            return Ok(());
        };
        self.check_acks()?;
        self.promised.insert(receipt.identity());
        self.acks.push_back(receipt);
        Ok(())
    }

    /// What the next resync would notice if it were lost, which a delete or a command is not.
    ///
    /// Nor, on the hub, what takes the place of one that was put back: many share its API, so a cluster is to say no more
    /// of this object than is done, and hears so by waiting. Not for many objects at a time, since each of them has a part
    /// of the cluster's window.
    fn is_acknowledged_on_receipt(&self, event: &Event, now: Duration) -> bool {
        let noticed = matches!(
            event.verb,
            Verb::Create | Verb::SpecUpdate | Verb::StatusUpdate
        );
        let is_waited_for = || {
            self.role == Role::Principal
                && self.inbox.asleep() <= self.limits.window / 4
                && self.inbox.replaces_sleeping(event, now)
        };
        noticed && self.peer.capabilities.has(Capability::AckOnReceipt) && !is_waited_for()
    }

    /// Whether another frame should be read now. Reading on to twice the limits ends in a [`Violation`].
    pub fn has_room(&self) -> bool {
        self.inbox.entries() < self.limits.inbox_entries
            && self.inbox.bytes() < self.limits.inbox_bytes
            && self.acks.len() < self.limits.acks
    }

    /// Answers the last heartbeat once more, for a peer that is not read for now and so gets no answer to those that
    /// follow it. Whoever it is takes anything that it hears for a sign of life.
    pub fn answer_again(&mut self) {
        if self.acks.is_empty() {
            self.acks.extend(self.answered.clone());
        }
    }

    /// Whether what is said now is the next control message that goes out. What comes without a bound of its own, such
    /// as what people ask, is said only then.
    pub fn takes_questions(&self) -> bool {
        !self.draining && self.flights.len() < self.limits.window && !self.outbox.has_control()
    }

    /// The next piece of work: at most one per object, state before command; control messages one at a
    /// time in their order. None: nothing is ready.
    pub fn next_work(&mut self, now: Duration) -> Option<Work> {
        if self.draining {
            return None;
        }
        self.inbox
            .next_work(now)
            .map(|(id, event)| Work { id, event })
    }

    /// A piece of work ended. Done and refused are acknowledged.
    pub fn finished(&mut self, id: WorkId, verdict: Verdict, now: Duration) {
        let (event, why) = match verdict {
            Verdict::Done => (self.inbox.finish(id), None),
            Verdict::Refused(why) => {
                self.refused = self.refused.saturating_add(1);
                (self.inbox.finish(id), Some(why))
            }
            Verdict::Retry { after } => {
                self.promise(id);
                (self.inbox.retry(id, now.saturating_add(after)), None)
            }
        };
        if let Some(event) = event {
            self.push_ack(&event, why);
        }
    }

    /// Nothing that was put back waits for its time any more.
    pub fn rouse(&mut self) {
        self.inbox.rouse();
    }

    /// How long until something becomes due without any input; none if nothing will.
    pub fn next_timeout(&self, now: Duration) -> Option<Duration> {
        let resend = self.flights.next_due(&self.outbox, &self.limits);
        [resend, self.inbox.next_wake(), self.next_ping]
            .into_iter()
            .flatten()
            .min()
            .map(|when| when.saturating_sub(now))
    }

    /// Stop beginning things: no new marks are sent and no new work is handed out. What is under way ends.
    pub const fn drain(&mut self) {
        self.draining = true;
    }

    /// After [`Self::drain`]: nothing is under way any more.
    pub fn is_drained(&self) -> bool {
        self.draining
            && self.flights.is_empty()
            && self.acks.is_empty()
            && self.inbox.working() == 0
    }

    /// What the peer refused since the last call. Only our own ends say so.
    pub fn take_refusals(&mut self) -> Vec<PeerRefusal> {
        std::mem::take(&mut self.refusals)
    }

    /// Counters.
    pub fn stats(&self, now: Duration) -> Stats {
        Stats {
            outbox_objects: self.outbox.objects(),
            in_flight: self.flights.len(),
            oldest: self.flights.oldest(now),
            unheard: self.flights.unheard(now),
            inbox_objects: self.inbox.entries(),
            working: self.inbox.working(),
            resent: self.resent,
            malformed: self.malformed,
            refused: self.refused,
            strays: self.strays,
            last_received: self.last_received,
        }
    }
}
