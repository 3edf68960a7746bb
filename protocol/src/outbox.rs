//! Values that wait to be sent: the newest per object and facet, never a history.
//!
//! A mark carries no body, so a thousand changes of one object during a disconnect cost as much as one change.
//! The outbox is bounded by the number of objects.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::event::{Event, Verb};
use crate::object::{Facet, Kind, ObjectKey};
use crate::payload::{self, RequestUpdate};

/// The next message about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Emission {
    /// The object is gone.
    Delete(Event),
    /// A facet, to be encoded now.
    Facet(Facet),
}

/// Position in the queue: rank of the kind, then first in, first out.
type Place = (u8, u64);

#[derive(Debug, Default)]
struct Entry {
    delete: Option<Event>,
    /// Marked facets, in the order of sending.
    marks: BTreeSet<Facet>,
    /// Its place in `ready`; none while it cannot be sent.
    place: Option<Place>,
    /// Facets in flight; a delete counts as state.
    out: BTreeSet<Facet>,
}

impl Entry {
    /// The facet that can be sent now; a delete counts as state. One message about an object is in flight at a time,
    /// except that a command, which may wait long on the peer for another operation, blocks no other facet.
    fn sendable(&self) -> Option<Facet> {
        if self.out.contains(&Facet::State) || self.out.contains(&Facet::Status) {
            return None;
        }
        if self.must_delete() {
            return Some(Facet::State);
        }
        let first = *self.marks.first()?;
        (!self.out.contains(&first)).then_some(first)
    }

    /// A state that was marked after the delete supersedes it, if the object exists at the time of sending.
    fn must_delete(&self) -> bool {
        self.delete.is_some() && !self.marks.contains(&Facet::State)
    }

    fn is_idle(&self) -> bool {
        self.delete.is_none() && self.marks.is_empty() && self.out.is_empty()
    }

    /// Applications refer to projects, repositories and keys: those are created first and deleted last.
    fn rank(&self, kind: Kind) -> u8 {
        if self.must_delete() {
            return if kind == Kind::Application { 0 } else { 5 };
        }
        match kind {
            Kind::AppProject => 1,
            Kind::Repository => 2,
            Kind::GpgKey | Kind::TlsCerts | Kind::SshKnownHosts => 3,
            Kind::Application => 4,
        }
    }
}

/// Values that wait to be sent to one peer.
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

/// Two control messages with equal identities are duplicates.
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
    /// Objects with values that wait to be sent or are in flight.
    pub fn objects(&self) -> usize {
        self.entries.len()
    }

    /// A facet changed.
    pub fn mark(&mut self, key: &ObjectKey, facet: Facet) {
        let entry = self.entries.entry(key.clone()).or_default();
        entry.marks.insert(facet);
        self.queue(key);
    }

    /// A facet need not be sent any more.
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

    /// The object is gone: the delete replaces everything that is marked or in flight.
    pub fn delete(&mut self, key: &ObjectKey, event: Event) {
        let entry = self.entries.entry(key.clone()).or_default();
        entry.marks.clear();
        entry.out.clear();
        entry.delete = Some(event);
        self.queue(key);
    }

    /// Queues a control message; it replaces a waiting duplicate and goes last.
    pub fn control(&mut self, event: Event) {
        self.control.push(event);
    }

    /// How many control messages wait.
    pub fn control_messages(&self) -> usize {
        self.control.waiting.len()
    }

    /// Takes the next control message.
    pub fn next_control(&mut self) -> Option<Event> {
        self.control.pop()
    }

    /// Takes the next message about an object; it is in flight until [`Self::landed`].
    pub fn next_object(&mut self) -> Option<(ObjectKey, Emission)> {
        let (_, key) = self.ready.pop_first()?;
        let entry = self.entries.get_mut(&key)?;
        entry.place = None;
        let facet = entry.sendable()?;
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

    /// A facet was sent. A state means that the object exists, so it supersedes an older delete.
    pub fn launched(&mut self, key: &ObjectKey, facet: Facet) {
        if facet == Facet::State
            && let Some(entry) = self.entries.get_mut(key)
        {
            entry.delete = None;
        }
    }

    /// A facet is not in flight any more; the remaining marks of the object queue again, at the end.
    pub fn landed(&mut self, key: &ObjectKey, facet: Facet) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.out.remove(&facet);
        }
        self.queue(key);
    }

    /// Adds the object to the queue or removes it.
    fn queue(&mut self, key: &ObjectKey) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        let rank = entry.sendable().map(|_| entry.rank(key.kind));
        match (entry.place, rank) {
            (Some(place), Some(rank)) if place.0 == rank => {}
            (place, rank) => {
                if let Some(place) = place {
                    self.ready.remove(&place);
                }
                entry.place = rank.map(|rank| {
                    // a delete changes the rank, but the object stays before later ones of that rank
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

/// The identity of a control message; none if each must be sent.
fn identity(event: &Event) -> Option<ControlIdentity> {
    let is_single = matches!(
        event.verb,
        Verb::RequestSyncedResourceList | Verb::RequestResourceResync | Verb::ClusterInfoUpdate
    );
    if is_single {
        return Some((event.verb, String::new()));
    }
    // both have the same identifying fields
    if !matches!(
        event.verb,
        Verb::RequestUpdate | Verb::ResponseSyncedResource
    ) {
        return None;
    }
    let body: RequestUpdate = payload::decode("control message", &event.payload).ok()?;
    let name = format!("{}/{}/{}", body.kind, body.namespace, body.name);
    Some((event.verb, name))
}
