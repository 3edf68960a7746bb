//! The progress of the values of one kind of object, for a driver that shows it. Decides nothing.

use super::flight::{Flight, Matter};
use crate::event::Event;
use crate::object::{Facet, Kind, ObjectKey};

/// The most steps that are kept for [`Tracker::take`]; further ones are dropped.
const MOST_STEPS: usize = 1024;

/// A step of one value on its way to the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The object.
    pub key: ObjectKey,
    /// The facet that was sent.
    pub facet: Facet,
    /// The version in the event. In a [refusal](Milestone::Refused) it is a claim of the peer, as is the key.
    pub version: String,
    /// The step.
    pub milestone: Milestone,
}

/// A step of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Milestone {
    /// It was sent, perhaps again.
    Sent {
        /// The trace context of the event.
        traceparent: Option<String>,
    },
    /// The peer acknowledged it and did not refuse it.
    Acknowledged,
    /// The peer refused it after it had acknowledged it.
    Refused,
}

/// The steps since the driver took them.
#[derive(Debug, Default)]
pub struct Tracker {
    kind: Option<Kind>,
    steps: Vec<Progress>,
}

impl Tracker {
    /// Records the steps of values of this kind from now on.
    pub const fn track(&mut self, kind: Kind) {
        self.kind = Some(kind);
    }

    /// The steps since the last call.
    pub fn take(&mut self) -> Vec<Progress> {
        std::mem::take(&mut self.steps)
    }

    pub(super) fn sent(&mut self, flight: &Flight) {
        if let Matter::Facet(key, facet) = &flight.matter
            && self.kind == Some(key.kind)
        {
            let traceparent = flight.event.trace().map(|(parent, _)| parent.to_owned());
            self.note(key, *facet, &flight.event, Milestone::Sent { traceparent });
        }
    }

    /// `event` has the ids of the value's event.
    pub(super) fn note(
        &mut self,
        key: &ObjectKey,
        facet: Facet,
        event: &Event,
        milestone: Milestone,
    ) {
        if self.kind != Some(key.kind) || self.steps.len() >= MOST_STEPS {
            return;
        }
        if let Some(version) = event.version() {
            self.steps.push(Progress {
                key: key.clone(),
                facet,
                version: version.to_owned(),
                milestone,
            });
        }
    }
}
