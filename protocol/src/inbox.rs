//! Received values that wait to be applied: the newest per object and facet, one work item per object at a time.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use crate::event::{Event, Target, Verb};
use crate::object::{Facet, ObjectKey};

/// The id of one work item of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkId(u64);

/// Objects handled in a row while a control message waits.
const OBJECTS_BEFORE_CONTROL: u32 = 8;

/// The queue of an event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Line {
    /// Newest value per facet.
    Object(ObjectKey),
    /// One request, independent of all others.
    Single(String),
    /// Resync: strictly in order.
    Control,
}

impl Line {
    fn of(event: &Event) -> Self {
        match (event.target, event.facet().and_then(|_| event.object())) {
            (_, Some(key)) => Self::Object(key),
            (Target::Resync, None) => Self::Control,
            (_, None) => Self::Single(event.resource_id.clone()),
        }
    }
}

#[derive(Debug)]
struct Pending {
    event: Event,
    /// After a retry; zero otherwise.
    not_before: Duration,
}

#[derive(Debug, Default)]
struct Slot {
    /// In the order of execution.
    waiting: VecDeque<Pending>,
    running: Option<Event>,
    /// Whether its key is in `ready`.
    queued: bool,
}

impl Slot {
    /// Adds an event; returns those that it replaces.
    fn add(&mut self, event: Event) -> Vec<Event> {
        let (mut replaced, class_of_new) = (Vec::new(), class(&event));
        // thousands of control messages may wait, and none replaces another
        if class_of_new != Class::Other {
            let waiting = std::mem::take(&mut self.waiting);
            let (gone, waiting): (VecDeque<_>, VecDeque<_>) = waiting
                .into_iter()
                .partition(|pending| replaces(&event, &pending.event));
            self.waiting = waiting;
            replaced.extend(gone.into_iter().map(|pending| pending.event));
        }
        let place = (self.waiting).partition_point(|it| class(&it.event) <= class_of_new);
        let not_before = Duration::ZERO;
        self.waiting.insert(place, Pending { event, not_before });
        replaced
    }

    /// Index of the event that can start now.
    fn startable(&self, now: Duration) -> Option<usize> {
        if self.running.is_some() {
            return None;
        }
        for (index, pending) in self.waiting.iter().enumerate() {
            if pending.not_before <= now {
                return Some(index);
            }
            // an event in back-off blocks those behind it; a command that waits for another operation blocks none
            if class(&pending.event) != Class::Operation
                && class(&pending.event) != Class::Termination
            {
                return None;
            }
        }
        None
    }
}

/// Events of one class replace each other; lower classes run first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    State,
    Status,
    Operation,
    Termination,
    /// Never replaced.
    Other,
}

fn class(event: &Event) -> Class {
    match event.facet() {
        Some(Facet::State) => Class::State,
        Some(Facet::Status) => Class::Status,
        Some(Facet::Command) if event.verb == Verb::SetOperation => Class::Operation,
        Some(Facet::Command) => Class::Termination,
        None => Class::Other,
    }
}

/// Received events of one peer that wait to be applied.
#[derive(Debug, Default)]
pub struct Inbox {
    slots: HashMap<Line, Slot>,
    /// Objects and single requests that may have work.
    ready: VecDeque<Line>,
    /// Whether control messages may have work.
    is_control_ready: bool,
    sleeping: BTreeSet<(Duration, Line)>,
    running: HashMap<WorkId, Line>,
    entries: usize,
    bytes: usize,
    objects_in_a_row: u32,
    next: u64,
}

impl Inbox {
    /// Events received and not finished.
    pub const fn entries(&self) -> usize {
        self.entries
    }

    /// Bytes of their bodies, identifiers and extensions.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Work items in progress.
    pub fn working(&self) -> usize {
        self.running.len()
    }

    /// Adds an event. Returns the events that it replaces: they need no work, and the caller acknowledges them at once.
    pub fn insert(&mut self, event: Event) -> Vec<Event> {
        let line = Line::of(&event);
        let slot = self.slots.entry(line.clone()).or_default();
        // One version may have several values: those that depend on more than the object, as a project compiled for a
        // cluster does.
        let is_same = |other: &Event| {
            other.verb == event.verb
                && other.event_id == event.event_id
                && other.payload == event.payload
        };
        if slot.running.as_ref().is_some_and(is_same)
            || slot.waiting.iter().any(|pending| is_same(&pending.event))
        {
            // a resend of an unfinished event: one acknowledgement answers both
            return Vec::new();
        }
        self.entries = self.entries.saturating_add(1);
        self.bytes = self.bytes.saturating_add(event.bytes());
        let replaced = slot.add(event);
        self.queue(&line);
        for event in &replaced {
            self.entries = self.entries.saturating_sub(1);
            self.bytes = self.bytes.saturating_sub(event.bytes());
        }
        replaced
    }

    /// Starts the next work item; none if nothing can start now.
    pub fn next_work(&mut self, now: Duration) -> Option<(WorkId, Event)> {
        self.wake(now);
        // try each line at most once
        for _ in 0..=self.ready.len() {
            let line = self.next_line()?;
            if let Some(work) = self.start(line, now) {
                return Some(work);
            }
        }
        None
    }

    /// The event of a work item in progress.
    pub fn running(&self, id: WorkId) -> Option<&Event> {
        let line = self.running.get(&id)?;
        self.slots.get(line)?.running.as_ref()
    }

    /// Removes a finished work item and returns its event.
    pub fn finish(&mut self, id: WorkId) -> Option<Event> {
        let line = self.running.remove(&id)?;
        let slot = self.slots.get_mut(&line)?;
        let event = slot.running.take()?;
        self.entries = self.entries.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(event.bytes());
        self.queue(&line);
        Some(event)
    }

    /// Requeues a work item until `not_before`. Returns its event instead if a newer event replaces it.
    pub fn retry(&mut self, id: WorkId, not_before: Duration) -> Option<Event> {
        let line = self.running.get(&id)?;
        let slot = self.slots.get_mut(line)?;
        let superseded = {
            let event = slot.running.as_ref()?;
            slot.waiting
                .iter()
                .any(|pending| replaces(&pending.event, event))
        };
        if superseded {
            return self.finish(id);
        }
        let line = self.running.remove(&id)?;
        let slot = self.slots.get_mut(&line)?;
        let event = slot.running.take()?;
        let place = slot
            .waiting
            .partition_point(|pending| class(&pending.event) < class(&event));
        slot.waiting.insert(place, Pending { event, not_before });
        self.sleeping.insert((not_before, line.clone()));
        self.queue(&line);
        None
    }

    /// When the next back-off ends.
    pub fn next_wake(&self) -> Option<Duration> {
        self.sleeping.first().map(|(when, _)| *when)
    }

    /// How many events are in back-off; an upper bound.
    pub fn asleep(&self) -> usize {
        self.sleeping.len()
    }

    /// Whether the event would replace one that is in back-off.
    pub fn replaces_sleeping(&self, event: &Event, now: Duration) -> bool {
        let replaced = |it: &Pending| it.not_before > now && replaces(event, &it.event);
        let slot = self.slots.get(&Line::of(event));
        slot.is_some_and(|slot| slot.waiting.iter().any(replaced))
    }

    /// Ends every back-off now.
    pub fn end_backoff(&mut self) {
        for (_, line) in std::mem::take(&mut self.sleeping) {
            if let Some(slot) = self.slots.get_mut(&line) {
                for pending in &mut slot.waiting {
                    pending.not_before = Duration::ZERO;
                }
            }
            self.queue(&line);
        }
    }

    fn wake(&mut self, now: Duration) {
        while let Some((when, _)) = self.sleeping.first()
            && *when <= now
            && let Some((_, line)) = self.sleeping.pop_first()
        {
            self.queue(&line);
        }
    }

    fn next_line(&mut self) -> Option<Line> {
        let is_controls_turn =
            self.ready.is_empty() || self.objects_in_a_row >= OBJECTS_BEFORE_CONTROL;
        if self.is_control_ready && is_controls_turn {
            (self.is_control_ready, self.objects_in_a_row) = (false, 0);
            return Some(Line::Control);
        }
        self.objects_in_a_row = self.objects_in_a_row.saturating_add(1);
        self.ready.pop_front()
    }

    fn start(&mut self, line: Line, now: Duration) -> Option<(WorkId, Event)> {
        let slot = self.slots.get_mut(&line)?;
        slot.queued = false;
        let Some(index) = slot.startable(now) else {
            if slot.waiting.is_empty() && slot.running.is_none() {
                self.slots.remove(&line);
            }
            return None;
        };
        let event = slot.waiting.remove(index)?.event;
        slot.running = Some(event.clone());
        self.next = self.next.saturating_add(1);
        let id = WorkId(self.next);
        self.running.insert(id, line);
        Some((id, event))
    }

    fn queue(&mut self, line: &Line) {
        let Some(slot) = self.slots.get_mut(line) else {
            return;
        };
        if slot.waiting.is_empty() && slot.running.is_none() {
            if !slot.queued {
                self.slots.remove(line);
            }
        } else if slot.running.is_none() && !slot.queued {
            slot.queued = true;
            if *line == Line::Control {
                self.is_control_ready = true;
            } else {
                self.ready.push_back(line.clone());
            }
        }
    }
}

/// Whether `newer` makes `older`, of the same object, obsolete.
fn replaces(newer: &Event, older: &Event) -> bool {
    let (new, old) = (class(newer), class(older));
    // a successor has taken the name: commands for the former object have no target any more
    let is_successor = newer.resource_id != older.resource_id;
    match new {
        Class::Other => false,
        Class::State if newer.verb == Verb::Delete || is_successor => old != Class::Other,
        Class::State | Class::Status | Class::Operation | Class::Termination => new == old,
    }
}
