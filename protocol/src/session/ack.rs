//! Acknowledgements: those that we send, and the effects of those that we receive.

use std::time::Duration;

use super::{Milestone, PeerRefusal, Role, Session, Violation, WorkId, flight::Matter};
use crate::event::{Event, Verb};
use crate::object::{Facet, ObjectKey};
use crate::version::Capability;

/// Longest reason in an acknowledgement, in characters; the log of the refusing end has the whole one.
const LONGEST_REFUSAL: usize = 1024;

/// The extension with the reason of a refusal, between our own ends.
const REFUSED: &str = "refused";
/// The extension with the object of an event that was refused after its acknowledgement.
const ABOUT: &str = "about";

/// The most refusals that are kept for [`Session::take_refusals`]; further ones are dropped.
const MOST_REFUSALS: usize = 1024;

impl Session {
    /// Whether to acknowledge an event before it is applied: only if the next resync would detect its loss, which it
    /// does not for a delete or a command.
    ///
    /// On the hub, an event that replaces one in back-off is also acknowledged late. All clusters share the hub's API,
    /// so this slows the cluster's updates of the object down to the rate at which the hub applies them. It applies to
    /// few objects at a time only, since each of them occupies a part of the cluster's window.
    pub(super) fn is_acknowledged_on_receipt(&self, event: &Event, now: Duration) -> bool {
        let is_resynced = matches!(
            event.verb,
            Verb::Create | Verb::SpecUpdate | Verb::StatusUpdate
        );
        let is_throttled = || {
            self.role == Role::Principal
                && self.inbox.asleep() <= self.limits.window / 4
                && self.inbox.replaces_sleeping(event, now)
        };
        is_resynced && self.peer.capabilities.has(Capability::AckOnReceipt) && !is_throttled()
    }

    /// A Go principal sends nothing more about an object, not even a termination, until its last event is
    /// acknowledged. So a sync that waits for another operation is acknowledged while it waits.
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

    /// Bounds the acknowledgements in memory, even if the driver reads without room.
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
        // an event that is not in flight was acknowledged before, or superseded by a delete
        let Some(flight) = self.flights.land(ack) else {
            match (refusal, about(ack)) {
                (Some(reason), Some(key)) => {
                    (self.tracker).note(&key, Facet::State, ack, Milestone::Refused);
                    self.note_refusal(key, Facet::State, reason.clone());
                }
                (Some(_), None) | (None, _) => self.counted.strays += 1,
            }
            return;
        };
        let Some((key, facet)) = flight.matter.object() else {
            return;
        };
        if let (Matter::Facet(key, facet), None) = (&flight.matter, refusal) {
            (self.tracker).note(key, *facet, ack, Milestone::Acknowledged);
        }
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

/// The object of a late refusal.
fn about(ack: &Event) -> Option<ObjectKey> {
    let mut parts = ack.extensions.get(ABOUT)?.splitn(3, '/');
    let kind = parts.next()?.parse().ok()?;
    Some(ObjectKey::new(kind, parts.next()?, parts.next()?))
}
