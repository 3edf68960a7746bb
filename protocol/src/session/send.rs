//! Sends acknowledgements, resends and new events.

use std::time::Duration;

use super::{
    Role, Session, Source,
    flight::{Flight, Matter},
};
use crate::event::Event;
use crate::object::{Facet, ObjectKey};
use crate::outbox::Emission;
use crate::wire::cloudevents::CloudEvent;

/// The source of every event of an agent, as in Go.
const AGENT_SOURCE: &str = "agent://agent-managed";

impl Session {
    /// The next frame to write: acknowledgements, then due resends, then control messages, then marks in the order of
    /// kinds, fair over objects. None if nothing can be sent now.
    pub fn next_outgoing(&mut self, source: &impl Source, now: Duration) -> Option<CloudEvent> {
        let event = self
            .acks
            .pop_front()
            .or_else(|| self.next_resend(source, now))
            .or_else(|| self.next_heartbeat(now))
            .or_else(|| self.next_new(source, now))?;
        Some(event.into_cloud_event(match self.role {
            Role::Principal => "",
            Role::Agent => AGENT_SOURCE,
        }))
    }

    fn next_heartbeat(&mut self, now: Duration) -> Option<Event> {
        let (due, every) = (self.next_ping?, self.limits.heartbeat?);
        (due <= now).then(|| {
            self.next_ping = Some(now.saturating_add(every));
            // never resent: the next heartbeat replaces it
            Event::ping()
        })
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
        let lost = self.flights.launch(flight);
        if let Some((key, facet)) = lost.as_ref().and_then(|flight| flight.matter.object()) {
            self.outbox.landed(key, facet);
        }
        event
    }
}
