//! Acknowledgements: those that we owe, and what those of the peer end.

use super::{PeerRefusal, Session, Violation, WorkId, flight::Matter};
use crate::event::{Event, Verb};
use crate::object::{Facet, ObjectKey};
use crate::version::Capability;

/// Longest reason in an acknowledgement; the whole one is in the log of the end that refused.
const LONGEST_REFUSAL: usize = 1024;

/// Name of the extension in which our own ends say why they refused an event.
const REFUSED: &str = "refused";
/// Name of the extension in which they say what it was about, when they acknowledged it before.
const ABOUT: &str = "about";

/// How many refusals wait to be taken; further ones are only counted.
const MOST_REFUSALS: usize = 1024;

impl Session {
    /// A Go principal says nothing more about an object, not even that its operation is to be terminated, until its
    /// last word is acknowledged. So a sync that has to wait for another one is acknowledged while it waits.
    pub(super) fn promise(&mut self, id: WorkId) {
        if self.peer.capabilities.has(Capability::CommandIdentity) {
            return;
        }
        let sync = |event: &&Event| event.verb == Verb::SetOperation;
        let Some(event) = self.inbox.running(id).filter(sync).cloned() else {
            return;
        };
        if self.promised.insert(event.identity()) {
            self.acks.push_back(event.ack());
        }
    }

    pub(super) fn acknowledge(
        &mut self,
        event: &Event,
        refusal: Option<String>,
    ) -> Result<(), Violation> {
        self.check_acks()?;
        self.push_ack(event, refusal);
        Ok(())
    }

    /// Bounds the acknowledgements in memory, also where the driver reads on.
    pub(super) fn check_acks(&self) -> Result<(), Violation> {
        if self.acks.len() >= self.limits.acks.saturating_mul(2) {
            return Err(Violation::AcksNotRead);
        }
        Ok(())
    }

    pub(super) fn push_ack(&mut self, event: &Event, refusal: Option<String>) {
        let promised = self.promised.remove(&event.identity());
        if promised && (refusal.is_none() || !self.peer.capabilities.has(Capability::AckOnReceipt))
        {
            return;
        }
        let mut ack = event.ack();
        if promised && let Some(key) = event.object() {
            ack.extensions.insert(ABOUT.to_owned(), key.to_string());
        }
        if let Some(why) = refusal
            && self.peer.capabilities.has(Capability::RefusalInAck)
        {
            ack.extensions.insert(
                REFUSED.to_owned(),
                why.chars().take(LONGEST_REFUSAL).collect(),
            );
        }
        self.acks.push_back(ack);
    }

    pub(super) fn acknowledged(&mut self, ack: &Event) {
        let refusal = ack.extensions.get(REFUSED);
        // what is not in flight was acknowledged before, or overtaken by a delete
        let Some(flight) = self.flights.land(ack) else {
            match (refusal, about(ack)) {
                (Some(reason), Some(key)) => self.note_refusal(key, Facet::State, reason.clone()),
                (Some(_), None) | (None, _) => self.strays = self.strays.saturating_add(1),
            }
            return;
        };
        let Some((key, facet)) = flight.matter.object() else {
            return;
        };
        match (&flight.matter, refusal) {
            (_, Some(reason)) => self.note_refusal(key.clone(), facet, reason.clone()),
            (Matter::Facet(_, Facet::State), None) => {
                self.stated.insert(key.clone());
            }
            (Matter::Delete(_), None) => {
                self.stated.remove(key);
                self.done.remove(key);
            }
            (Matter::Facet(_, Facet::Command), None) => {
                if !self.peer.capabilities.has(Capability::CommandIdentity) {
                    self.done.insert(key.clone(), ack.event_id.clone());
                }
            }
            (Matter::Facet(_, Facet::Status) | Matter::Control, None) => {}
        }
        self.outbox.landed(key, facet);
    }

    pub(super) fn note_refusal(&mut self, key: ObjectKey, facet: Facet, reason: String) {
        if self.refusals.len() < MOST_REFUSALS {
            self.refusals.push(PeerRefusal { key, facet, reason });
        }
    }
}

/// What a late refusal is about.
fn about(ack: &Event) -> Option<ObjectKey> {
    let mut parts = ack.extensions.get(ABOUT)?.splitn(3, '/');
    let kind = parts.next()?.parse().ok()?;
    Some(ObjectKey::new(kind, parts.next()?, parts.next()?))
}
