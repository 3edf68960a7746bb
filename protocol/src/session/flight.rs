//! Sent events that the peer has not acknowledged.

use std::collections::HashMap;
use std::time::Duration;

use super::Limits;
use crate::event::Event;
use crate::object::{Facet, ObjectKey};
use crate::outbox::Outbox;

/// The subject of an unacknowledged event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Matter {
    Facet(ObjectKey, Facet),
    Delete(ObjectKey),
    Control,
}

impl Matter {
    /// The object, and the facet that is in flight; a delete counts as state.
    pub(super) const fn object(&self) -> Option<(&ObjectKey, Facet)> {
        match self {
            Self::Facet(key, facet) => Some((key, *facet)),
            Self::Delete(key) => Some((key, Facet::State)),
            Self::Control => None,
        }
    }
}

/// An event that the peer has not acknowledged.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) matter: Matter,
    pub(super) event: Event,
    first_sent: Duration,
    last_sent: Duration,
    /// Pause before the next resend.
    pause: Duration,
    /// Among events that are due, the lowest number goes first.
    number: u64,
}

impl Flight {
    pub(super) const fn new(matter: Matter, event: Event, limits: &Limits, now: Duration) -> Self {
        Self {
            matter,
            event,
            first_sent: now,
            last_sent: now,
            pause: limits.resend_min,
            number: 0,
        }
    }

    /// Whether it is never resent: a live request, or the final state of an object, which must not follow its delete.
    pub(super) fn is_sent_once(&self) -> bool {
        let is_final_state = self.matter == Matter::Control && self.event.object().is_some();
        is_final_state || self.event.is_live_request()
    }

    /// Records a resend.
    pub(super) fn again(&mut self, limits: &Limits, now: Duration) {
        self.last_sent = now;
        self.pause = self
            .pause
            .saturating_mul(limits.resend_factor)
            .clamp(limits.resend_min, limits.resend_max);
    }

    /// When the next resend is due: sooner if a newer value replaces the event.
    fn due(&self, outbox: &Outbox, limits: &Limits) -> Duration {
        let newer = match &self.matter {
            Matter::Facet(key, facet) => outbox.is_marked(key, *facet),
            Matter::Delete(_) | Matter::Control => false,
        };
        let pause = if newer {
            limits.resend_min.min(self.pause)
        } else {
            self.pause
        };
        self.last_sent.saturating_add(pause)
    }
}

/// Resource id and event id, with which an acknowledgement names an event.
type Identity = (String, String);

/// All unacknowledged events of a session.
#[derive(Debug, Default)]
pub(super) struct Flights {
    by_identity: HashMap<Identity, Flight>,
    /// No event is due before this; avoids a search in the usual case.
    quiet_until: Duration,
    launched: u64,
}

impl Flights {
    pub(super) fn len(&self) -> usize {
        self.by_identity.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_identity.is_empty()
    }

    /// Age of the oldest event.
    pub(super) fn oldest(&self, now: Duration) -> Duration {
        self.oldest_where(now, |_| true)
    }

    /// Age of the oldest event that a peer acknowledges promptly. A command may wait for another operation, and a delete
    /// for its finalizers.
    pub(super) fn oldest_value(&self, now: Duration) -> Duration {
        self.oldest_where(now, |matter| match matter {
            Matter::Facet(_, facet) => *facet != Facet::Command,
            Matter::Delete(_) => false,
            Matter::Control => true,
        })
    }

    fn oldest_where(&self, now: Duration, counts: impl Fn(&Matter) -> bool) -> Duration {
        let flights = self.by_identity.values();
        flights
            .filter(|flight| counts(&flight.matter))
            .map(|flight| now.saturating_sub(flight.first_sent))
            .max()
            .unwrap_or_default()
    }

    /// Searches again at the next call: a new mark makes an event due earlier.
    pub(super) const fn recheck(&mut self) {
        self.quiet_until = Duration::ZERO;
    }

    /// Adds a flight. Returns an older one with the same identity, which it replaces: acknowledgements cannot distinguish
    /// the two.
    pub(super) fn launch(&mut self, mut flight: Flight) -> Option<Flight> {
        self.launched = self.launched.saturating_add(1);
        flight.number = self.launched;
        self.quiet_until = self
            .quiet_until
            .min(flight.last_sent.saturating_add(flight.pause));
        self.by_identity.insert(flight.event.identity(), flight)
    }

    /// Removes the flight that an acknowledgement names.
    pub(super) fn land(&mut self, ack: &Event) -> Option<Flight> {
        self.by_identity.remove(&ack.identity())
    }

    /// Removes all flights of an object.
    pub(super) fn forget(&mut self, key: &ObjectKey) {
        self.by_identity
            .retain(|_, flight| flight.matter.object().is_none_or(|(other, _)| other != key));
    }

    /// When the next resend is due.
    pub(super) fn next_due(&self, outbox: &Outbox, limits: &Limits) -> Option<Duration> {
        self.by_identity
            .values()
            .map(|flight| flight.due(outbox, limits))
            .min()
    }

    /// Removes the flight that has been due longest.
    pub(super) fn take_due(
        &mut self,
        outbox: &Outbox,
        limits: &Limits,
        now: Duration,
    ) -> Option<Flight> {
        if now < self.quiet_until {
            return None;
        }
        let next = self
            .by_identity
            .iter()
            .map(|(identity, flight)| ((flight.due(outbox, limits), flight.number), identity))
            .min();
        match next {
            Some(((due, _), identity)) if due <= now => {
                let identity = identity.clone();
                self.by_identity.remove(&identity)
            }
            Some(((due, _), _)) => {
                self.quiet_until = due;
                None
            }
            None => {
                self.quiet_until = Duration::MAX;
                None
            }
        }
    }
}
