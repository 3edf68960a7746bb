//! What still has to be said: the last word per object and facet, never a history.
//!
//! A mark carries no body, so an object that changes a thousand times while the link is down costs what one
//! change costs. Bounded by the number of objects.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::event::{Event, Verb};
use crate::object::{Facet, Kind, ObjectKey};
use crate::payload::{self, RequestUpdate};

/// What is said next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Emission {
    /// The object is gone.
    Delete(Event),
    /// A facet, to be encoded now.
    Facet(Facet),
}

/// Position in the queue: importance of the kind, then first come, first served.
type Place = (u8, u64);

#[derive(Debug, Default)]
struct Entry {
    delete: Option<Event>,
    /// What is marked; the first is said first.
    marks: BTreeSet<Facet>,
    /// Its place among the ready; none while nothing of it can be said.
    place: Option<Place>,
    /// What is in flight; a delete counts as state.
    out: BTreeSet<Facet>,
}

impl Entry {
    /// What can be said now, with a delete as state. One word about an object is in flight at a time, but a
    /// command, which may wait long on the other side for another one to end, holds up nothing else.
    fn sayable(&self) -> Option<Facet> {
        if self.out.contains(&Facet::State) || self.out.contains(&Facet::Status) {
            return None;
        }
        if self.must_delete() {
            return Some(Facet::State);
        }
        let first = *self.marks.first()?;
        (!self.out.contains(&first)).then_some(first)
    }

    /// A state that was marked after the delete overtakes it, if there turns out to be one.
    fn must_delete(&self) -> bool {
        self.delete.is_some() && !self.marks.contains(&Facet::State)
    }

    fn is_idle(&self) -> bool {
        self.delete.is_none() && self.marks.is_empty() && self.out.is_empty()
    }

    /// Applications refer to projects, repositories and keys: those come first and go last.
    fn rank(&self, kind: Kind) -> u8 {
        match (kind, self.must_delete()) {
            (Kind::Application, true) => 0,
            (Kind::AppProject, false) => 1,
            (Kind::Repository, false) => 2,
            (Kind::GpgKey | Kind::TlsCerts | Kind::SshKnownHosts, false) => 3,
            (Kind::Application, false) => 4,
            (
                Kind::AppProject
                | Kind::Repository
                | Kind::GpgKey
                | Kind::TlsCerts
                | Kind::SshKnownHosts,
                true,
            ) => 5,
        }
    }
}

/// What still has to be said to one peer.
#[derive(Debug, Default)]
pub struct Outbox {
    entries: HashMap<ObjectKey, Entry>,
    ready: BTreeMap<Place, ObjectKey>,
    control: ControlQueue,
    next: u64,
}

/// Control messages in the order in which they are sent; at most one of each content.
#[derive(Debug, Default)]
struct ControlQueue {
    waiting: BTreeMap<u64, (Event, Option<ControlIdentity>)>,
    /// The place of each message that has an identity.
    places: HashMap<ControlIdentity, u64>,
    next: u64,
}

/// What makes two control messages the same.
type ControlIdentity = (Verb, String);

impl ControlQueue {
    fn push(&mut self, event: Event) {
        let identity = identity(&event);
        let place = self.next;
        self.next = self.next.saturating_add(1);
        if let Some(identity) = &identity
            && let Some(replaced) = self.places.insert(identity.clone(), place)
        {
            self.waiting.remove(&replaced);
        }
        self.waiting.insert(place, (event, identity));
    }

    fn pop(&mut self) -> Option<Event> {
        let (_, (event, identity)) = self.waiting.pop_first()?;
        if let Some(identity) = identity {
            self.places.remove(&identity);
        }
        Some(event)
    }
}

impl Outbox {
    /// Objects that something has to be said about, or that are in flight.
    pub fn objects(&self) -> usize {
        self.entries.len()
    }

    /// A facet changed.
    pub fn mark(&mut self, key: &ObjectKey, facet: Facet) {
        let entry = self.entries.entry(key.clone()).or_default();
        entry.marks.insert(facet);
        self.queue(key);
    }

    /// A facet need not be said any more.
    pub fn unmark(&mut self, key: &ObjectKey, facet: Facet) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.marks.remove(&facet);
        }
        self.queue(key);
    }

    /// Whether a facet is marked.
    pub fn is_marked(&self, key: &ObjectKey, facet: Facet) -> bool {
        self.entries
            .get(key)
            .is_some_and(|entry| entry.marks.contains(&facet))
    }

    /// The object is gone: nothing else need be said about it, and what is in flight counts no more.
    pub fn delete(&mut self, key: &ObjectKey, event: Event) {
        let entry = self.entries.entry(key.clone()).or_default();
        entry.marks.clear();
        entry.out.clear();
        entry.delete = Some(event);
        self.queue(key);
    }

    /// A control message; one of the same content that waits is replaced, and the new one goes last.
    pub fn control(&mut self, event: Event) {
        self.control.push(event);
    }

    /// Whether a control message waits to be sent.
    pub fn has_control(&self) -> bool {
        !self.control.waiting.is_empty()
    }

    /// Takes the next control message.
    pub fn next_control(&mut self) -> Option<Event> {
        self.control.pop()
    }

    /// Takes the next word about an object, which is in flight from now on, until [`Self::landed`].
    pub fn next_object(&mut self) -> Option<(ObjectKey, Emission)> {
        let (_, key) = self.ready.pop_first()?;
        let entry = self.entries.get_mut(&key)?;
        entry.place = None;
        let facet = entry.sayable()?;
        entry.out.insert(facet);
        if entry.must_delete()
            && let Some(event) = entry.delete.take()
        {
            return Some((key, Emission::Delete(event)));
        }
        entry.marks.remove(&facet);
        let emitting = Emission::Facet(facet);
        Some((key, emitting))
    }

    /// A facet was sent. If it is the state, the object exists: a delete from before is overtaken.
    pub fn launched(&mut self, key: &ObjectKey, facet: Facet) {
        if facet == Facet::State
            && let Some(entry) = self.entries.get_mut(key)
        {
            entry.delete = None;
        }
    }

    /// A facet is not in flight any more; whatever is left queues up again, at the end.
    pub fn landed(&mut self, key: &ObjectKey, facet: Facet) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.out.remove(&facet);
        }
        self.queue(key);
    }

    /// Gives the object its place in line, or takes it away.
    fn queue(&mut self, key: &ObjectKey) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        let rank = entry.sayable().map(|_| entry.rank(key.kind));
        match (entry.place, rank) {
            (Some(place), Some(rank)) if place.0 == rank => {}
            (place, rank) => {
                if let Some(place) = place {
                    self.ready.remove(&place);
                }
                entry.place = rank.map(|rank| {
                    // a delete moves it to another line, but not behind those that came later
                    let number = place.map_or_else(
                        || {
                            self.next = self.next.saturating_add(1);
                            self.next
                        },
                        |place| place.1,
                    );
                    (rank, number)
                });
                if let Some(place) = entry.place {
                    self.ready.insert(place, key.clone());
                }
            }
        }
        if entry.is_idle() {
            self.entries.remove(key);
        }
    }
}

/// The identity of a control message; none where each counts.
fn identity(event: &Event) -> Option<ControlIdentity> {
    let same = |text: String| Some((event.verb, text));
    match event.verb {
        Verb::RequestSyncedResourceList | Verb::RequestResourceResync | Verb::ClusterInfoUpdate => {
            same(String::new())
        }
        Verb::RequestUpdate | Verb::ResponseSyncedResource => {
            // both have the same identifying fields
            let body: RequestUpdate = payload::decode("control message", &event.payload).ok()?;
            same(format!("{}/{}/{}", body.kind, body.namespace, body.name))
        }
        Verb::Ping
        | Verb::Pong
        | Verb::Create
        | Verb::Delete
        | Verb::SpecUpdate
        | Verb::StatusUpdate
        | Verb::SetOperation
        | Verb::TerminateOperation
        | Verb::Processed
        | Verb::Get
        | Verb::Response
        | Verb::RedisRequest
        | Verb::RedisResponse
        | Verb::TerminalRequest
        | Verb::Error
        | Verb::Http(_) => None,
    }
}
