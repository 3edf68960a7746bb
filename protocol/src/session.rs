//! The session of one subscribed stream, for both ends: a state machine without I/O.
//!
//! The driver creates a session when a stream opens and drops it when the stream ends. Nothing in it has to survive:
//! after a reconnect a resync finds the differences and marks them in the new session.
//!
//! The driver, one task, runs this loop:
//!
//! 1. call [`Session::next_outgoing`] until it returns none, and write each frame to the stream;
//! 2. call [`Session::next_work`] while a worker is free, and start each work item;
//! 3. wait for the first of: a frame ([`Session::receive`], read only while [`Session::has_room`]), a
//!    finished work item ([`Session::finished`]), a local change ([`Session::mark`], [`Session::emit`]),
//!    the time of [`Session::next_timeout`]. While it may not read, it calls [`Session::skip_read`] at each turn.
//!
//! # Guarantees for the receiver
//!
//! Between our own ends, events about one [`ObjectKey`] arrive in causal order: one state or status is in flight at a
//! time, a delete supersedes everything before it, and a state is never sent before the peer has acknowledged an older
//! delete. So a delete is its owner's newest statement about its *hub name*, even if its UID is that of an object whose
//! state never arrived; for another hub name with the same name on the spoke the UID decides. A Go principal keeps
//! this order only by UID.
//!
//! A command follows the state that was marked with it, blocks nothing, and may precede a state that was marked later:
//! the receiver retries a command for a missing object and does not refuse it. A Go agent carries a command out each
//! time that it receives it, so the session sends it an acknowledged command only once.
//!
//! # Duties of the driver
//!
//! [`Session::next_timeout`] is zero while something is due that the driver does not take: a resend while the stream
//! is full, or a retry while no worker is free. The driver must then wait for the stream or a worker, not spin.
//!
//! A live request to a Go agent is a control message that is sent once. If the agent does not acknowledge it, the
//! session drops it after the resend pause; the agent's response is a control message of its own. The final state of
//! an object before its delete is a control message as well: a Go agent deletes its copy as the copy is, including the
//! workload if the copy has the finalizer.
//!
//! Writing never waits for the peer to read: while the stream is full, the driver stops taking from the outbox, which
//! continues to coalesce, and keeps reading. So two busy ends cannot block each other.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use crate::event::{self, Event, Target, Verb};
use crate::inbox::Inbox;
use crate::object::{Facet, ObjectKey};
use crate::outbox::{Emission, Outbox};
use crate::wire::cloudevents::CloudEvent;

mod ack;
mod flight;
mod liveness;
mod progress;
mod rules;
mod terms;

use flight::{Flight, Flights, Matter};
use liveness::Liveness;

#[cfg(test)]
mod tests;

pub use crate::inbox::WorkId;
pub use progress::{Milestone, Progress, Tracker};
pub use terms::{Limits, Peer, PeerRefusal, Role, Source, Stats, Verdict, Violation, Work};

/// The source of every event of an agent, as in Go.
const AGENT_SOURCE: &str = "agent://agent-managed";

/// The state machine. The module describes how to drive it.
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
    /// Event ids of the last commands that a peer without [`CommandIdentity`](crate::version::Capability::CommandIdentity)
    /// has acknowledged: it would carry them out again.
    done: HashMap<ObjectKey, String>,
    /// Resource id and event id of events that we acknowledged before they were applied. Bounded by the inbox.
    promised: HashSet<(String, String)>,
    refusals: Vec<PeerRefusal>,
    next_ping: Option<Duration>,
    liveness: Liveness,
    draining: bool,
    tracker: Tracker,
    /// The counters; the rest is filled in by [`Self::stats`].
    counted: Stats,
}

impl Session {
    /// A new session; its clock starts at zero.
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
            liveness: Liveness::default(),
            draining: false,
            tracker: Tracker::default(),
            counted: Stats::default(),
        }
    }

    /// The peer's mode and capabilities.
    pub const fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Queues a changed facet of an object. Idempotent and cheap.
    ///
    /// A new [`Facet::State`] cancels a delete that was not sent yet, if the object exists at the time of sending.
    ///
    /// Ignores kinds that the peer does not know.
    pub fn mark(&mut self, key: impl Borrow<ObjectKey>, facet: Facet) {
        if !self.peer.knows(key.borrow().kind) {
            return;
        }
        self.outbox.mark(key.borrow(), facet);
        // an event in flight may be due earlier now, as this mark replaces it
        self.flights.recheck();
    }

    /// Cancels a mark. An event in flight stays in flight.
    pub fn unmark(&mut self, key: &ObjectKey, facet: Facet) {
        self.outbox.unmark(key, facet);
    }

    /// Queues a complete event: a delete, which replaces everything else about its object, or a control message, which
    /// replaces an unsent duplicate. A state that is emitted is the final state before a delete that is emitted right
    /// after it: it is sent first, and once.
    pub fn emit(&mut self, event: Event) {
        match event.object() {
            Some(key) if !self.peer.knows(key.kind) => {}
            Some(key) if event.verb == Verb::Delete => {
                // the delete supersedes everything in flight, so it need not wait for an acknowledgement
                self.flights.forget(&key);
                self.outbox.delete(&key, event);
            }
            Some(_) | None => self.outbox.control(event),
        }
    }

    /// The next frame to write: acknowledgements, then due resends, then control messages, then marks in the order of
    /// kinds, fair over objects. None if nothing can be sent now.
    pub fn next_outgoing(&mut self, source: &impl Source, now: Duration) -> Option<CloudEvent> {
        let mut event = self
            .acks
            .pop_front()
            .or_else(|| self.next_resend(source, now))
            .or_else(|| self.next_heartbeat(now))
            .or_else(|| self.next_new(source, now))?;
        event.verb = self.peer.spelled(event.verb);
        Some(event.into_cloud_event(match self.role {
            Role::Principal => "",
            Role::Agent => AGENT_SOURCE,
        }))
    }

    fn next_resend(&mut self, source: &impl Source, now: Duration) -> Option<Event> {
        let mut flight = self.flights.take_due(&self.outbox, &self.limits, now)?;
        while flight.is_sent_once() {
            flight = self.flights.take_due(&self.outbox, &self.limits, now)?;
        }
        self.counted.resent += 1;
        if let Matter::Facet(key, facet) = &flight.matter
            && self.outbox.is_marked(key, *facet)
        {
            self.outbox.unmark(key, *facet);
            // resend the newest value
            if let Some(newer) = source.encode(key, *facet, self.stated.contains(key)) {
                flight.event = newer;
            }
        }
        flight.again(&self.limits, now);
        Some(self.launch(flight))
    }

    fn next_new(&mut self, source: &impl Source, now: Duration) -> Option<Event> {
        if self.draining || self.flights.len() >= self.limits.window {
            return None;
        }
        if let Some(event) = self.outbox.next_control() {
            return Some(self.launch(Flight::new(Matter::Control, event, &self.limits, now)));
        }
        loop {
            let (key, emitting) = self.outbox.next_object()?;
            let (matter, facet, event) = match emitting {
                Emission::Delete(event) => (Matter::Delete(key.clone()), Facet::State, Some(event)),
                Emission::Facet(facet) => {
                    let event = source
                        .encode(&key, facet, self.stated.contains(&key))
                        .filter(|event| !self.was_done(&key, facet, event));
                    (Matter::Facet(key.clone(), facet), facet, event)
                }
            };
            match event {
                Some(event) if event.payload.len() <= self.limits.message_bytes => {
                    self.outbox.launched(&key, facet);
                    return Some(self.launch(Flight::new(matter, event, &self.limits, now)));
                }
                Some(event) => {
                    let size = event.payload.len();
                    let why = format!("its size of {size} bytes exceeds the message limit");
                    self.note_refusal(key.clone(), facet, why);
                    self.outbox.landed(&key, facet);
                }
                None => self.outbox.landed(&key, facet),
            }
        }
    }

    /// Whether the peer has carried this command out in this session and would repeat it.
    fn was_done(&self, key: &ObjectKey, facet: Facet, event: &Event) -> bool {
        facet == Facet::Command && self.done.get(key) == Some(&event.event_id)
    }

    /// Adds a flight and returns its event.
    fn launch(&mut self, flight: Flight) -> Event {
        let event = flight.event.clone();
        self.tracker.sent(&flight);
        let lost = self.flights.launch(flight);
        if let Some((key, facet)) = lost.as_ref().and_then(|flight| flight.matter.object()) {
            self.outbox.landed(key, facet);
        }
        event
    }

    /// Handles one received frame. Consumes acknowledgements, acknowledges malformed and forbidden events as refused,
    /// and queues the others as work, newest value per object.
    pub fn receive(&mut self, raw: CloudEvent, now: Duration) -> Result<(), Violation> {
        self.liveness.received = now;
        let event = match event::read(raw) {
            Ok(event) => event,
            Err(unread) => {
                self.counted.malformed += 1;
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
            self.counted.refused += 1;
            let why = format!("{} of {} is not accepted here", event.verb, event.target);
            return self.acknowledge(&event, Some(why));
        }
        if event.target == Target::Heartbeat {
            self.liveness.beat(now, event.ack());
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

    /// Whether the driver may read another frame. Above twice the limits [`Self::receive`] returns a [`Violation`].
    pub fn has_room(&self) -> bool {
        self.inbox.entries() < self.limits.inbox_entries
            && self.inbox.bytes() < self.limits.inbox_bytes
            && self.acks.len() < self.limits.acks
    }

    /// Whether a control message that is emitted now would be sent at once. The driver emits unbounded input, such as
    /// live requests, only then.
    pub fn can_emit_at_once(&self) -> bool {
        !self.draining
            && self.flights.len() < self.limits.window
            && self.outbox.control_messages() == 0
    }

    /// How many control messages of a long list may be emitted now. A list uses half of the window, so it delays other
    /// events little, and only what is in flight or about to be sent waits in memory.
    pub fn list_room(&self) -> usize {
        let used = (self.flights.len()).saturating_add(self.outbox.control_messages());
        if self.draining {
            0
        } else {
            (self.limits.window / 2).saturating_sub(used)
        }
    }

    /// Starts the next work item: at most one per object, state before command; control messages in order, one at a
    /// time. None if nothing is ready.
    pub fn next_work(&mut self, now: Duration) -> Option<Work> {
        if self.draining {
            return None;
        }
        self.inbox
            .next_work(now)
            .map(|(id, event)| Work { id, event })
    }

    /// Finishes a work item. [`Verdict::Done`] and [`Verdict::Refused`] are acknowledged.
    pub fn finished(&mut self, id: WorkId, verdict: Verdict, now: Duration) {
        let (event, why) = match verdict {
            Verdict::Done => (self.inbox.finish(id), None),
            Verdict::Refused(why) => {
                self.counted.refused += 1;
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

    /// Ends the back-off of all work items.
    pub fn end_backoff(&mut self) {
        self.inbox.end_backoff();
    }

    /// Time until a resend, a retry, a heartbeat or a sign of life is due; none if none is scheduled.
    pub fn next_timeout(&self, now: Duration) -> Option<Duration> {
        let resend = self.flights.next_due(&self.outbox, &self.limits);
        [resend, self.inbox.next_wake(), self.next_ping]
            .into_iter()
            .flatten()
            .map(|when| when.saturating_sub(now))
            .chain(self.next_sign(now))
            .min()
    }

    /// Starts the drain: no more marks are sent and no more work starts. Work in progress and events in flight finish.
    pub const fn drain(&mut self) {
        self.draining = true;
    }

    /// Whether the drain is complete.
    pub fn is_drained(&self) -> bool {
        self.draining
            && self.flights.is_empty()
            && self.acks.is_empty()
            && self.inbox.working() == 0
    }

    /// The progress of values, for a driver that shows it.
    pub const fn tracker(&mut self) -> &mut Tracker {
        &mut self.tracker
    }

    /// The peer's refusals since the last call. Only our own peers report them.
    pub fn take_refusals(&mut self) -> Vec<PeerRefusal> {
        std::mem::take(&mut self.refusals)
    }

    /// Counters.
    pub fn stats(&self, now: Duration) -> Stats {
        Stats {
            outbox_objects: self.outbox.objects(),
            in_flight: self.flights.len(),
            oldest: self.flights.oldest(now),
            unacknowledged: self.flights.oldest_value(now),
            inbox_objects: self.inbox.entries(),
            inbox_bytes: self.inbox.bytes(),
            working: self.inbox.working(),
            last_received: self.liveness.received,
            ..self.counted
        }
    }
}
