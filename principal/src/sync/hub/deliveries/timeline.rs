//! The recent changes of each Application, and how far they came. Pure.
//!
//! Bounded by the Applications that changed last, and by the changes of each of them.

use std::collections::{BTreeMap, HashMap, VecDeque};

use jiff::Timestamp;
use protocol::{
    Facet,
    session::{Milestone, Progress},
};
use runtime::trace::Context;

use super::super::index::is_newer;
use crate::domain::{ClusterName, Key};

/// So many Applications have deliveries; the one without a change for the longest time is forgotten.
const MOST_APPLICATIONS: usize = 2_000;
/// So many deliveries of one Application are remembered.
const MOST_DELIVERIES: usize = 5;

/// The delivery of one change of an Application to its cluster. A step that did not happen has no time.
///
/// Each step also counts if a newer version took it: a cluster gets the newest version, not each of them. No step is
/// earlier than the one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The `resourceVersion` of the Application on the hub that has the change.
    pub version: String,
    /// Whether the change is only an operation, such as a sync, or the end of one.
    pub is_operation: bool,
    /// When the hub program learned of the change.
    pub written: Timestamp,
    /// When its event was first sent to the agent.
    pub sent: Option<Timestamp>,
    /// When the agent acknowledged the event. Not set if it refused it. An agent of ours acknowledges a state when it
    /// has received it, and refuses it later if it cannot apply it; a Go agent acknowledges it after it has handled it,
    /// also when that failed.
    pub acknowledged: Option<Timestamp>,
    /// When the first report after that was applied. A report counts if Argo CD compared the sources that the hub
    /// wants, or if it has no comparison.
    pub reported: Option<Timestamp>,
    /// The trace of the event, as a hexadecimal id, if it is sampled.
    pub trace: Option<String>,
}

/// A version of an Application with something to deliver.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) version: String,
    pub(super) facet: Facet,
    pub(super) cluster: ClusterName,
    pub(super) at: Timestamp,
}

/// The recent changes of Applications.
#[derive(Debug)]
pub(super) struct Timeline {
    tracks: HashMap<Key, Track>,
    /// The Applications by the place of their last change.
    order: BTreeMap<u64, Key>,
    /// The place of the next change; an Application without a change has place 0.
    next: u64,
    most: usize,
}

/// The recent changes of one Application, oldest first.
#[derive(Debug, Default)]
struct Track {
    place: u64,
    steps: VecDeque<Step>,
}

/// One change.
#[derive(Debug)]
struct Step {
    facet: Facet,
    cluster: ClusterName,
    delivery: Delivery,
    /// The version of the acknowledged event.
    acknowledged_with: Option<String>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self::with(MOST_APPLICATIONS)
    }
}

impl Timeline {
    fn with(most: usize) -> Self {
        Self {
            tracks: HashMap::new(),
            order: BTreeMap::new(),
            next: 1,
            most,
        }
    }

    /// Adds a change. The same version counts once: the watch and our own write may both report it.
    pub(super) fn written(&mut self, key: &Key, written: Written) {
        let Written {
            version,
            facet,
            cluster,
            at,
        } = written;
        let known = self.tracks.get_mut(key);
        if let Some(newest) = known.and_then(|track| track.steps.back_mut())
            && newest.delivery.version == version
            && newest.cluster == cluster
        {
            if facet == Facet::State && newest.facet != facet {
                (newest.facet, newest.delivery.is_operation) = (facet, false);
            }
            return;
        }
        let place = self.next;
        self.next = self.next.saturating_add(1);
        let track = self.tracks.entry(key.clone()).or_default();
        self.order
            .remove(&std::mem::replace(&mut track.place, place));
        self.order.insert(place, key.clone());
        while track.steps.len() >= MOST_DELIVERIES {
            track.steps.pop_front();
        }
        track.steps.push_back(Step {
            facet,
            cluster,
            delivery: Delivery {
                version,
                is_operation: facet == Facet::Command,
                written: at,
                sent: None,
                acknowledged: None,
                reported: None,
                trace: None,
            },
            acknowledged_with: None,
        });
        while self.tracks.len() > self.most {
            let Some((_, oldest)) = self.order.pop_first() else {
                return;
            };
            self.tracks.remove(&oldest);
        }
    }

    /// An event for the cluster was sent, acknowledged or refused: it counts for its version and all earlier ones.
    pub(super) fn progressed(
        &mut self,
        key: &Key,
        cluster: &ClusterName,
        progress: &Progress,
        now: Timestamp,
    ) {
        let Some(track) = self.tracks.get_mut(key) else {
            return;
        };
        let version = progress.version.as_str();
        let of_event = track.steps.iter_mut().filter(|step| {
            step.cluster == *cluster
                && step.facet == progress.facet
                && !is_newer(&step.delivery.version, version)
        });
        match &progress.milestone {
            Milestone::Sent { traceparent } => {
                let mut newest = None;
                for step in of_event.filter(|step| step.delivery.sent.is_none()) {
                    step.delivery.sent = Some(now.max(step.delivery.written));
                    newest = Some(step);
                }
                if let Some(newest) = newest {
                    newest.delivery.trace = traceparent.as_deref().and_then(trace_id);
                }
            }
            Milestone::Acknowledged => {
                for step in of_event.filter(|step| step.delivery.acknowledged.is_none()) {
                    if let Some(sent) = step.delivery.sent {
                        step.delivery.acknowledged = Some(now.max(sent));
                        step.acknowledged_with = Some(version.to_owned());
                    }
                }
            }
            Milestone::Refused => {
                let refused = |step: &&mut Step| step.acknowledged_with.as_deref() == Some(version);
                for step in of_event.filter(refused) {
                    step.acknowledged_with = None;
                    (step.delivery.acknowledged, step.delivery.reported) = (None, None);
                }
            }
        }
    }

    /// Whether a change that the cluster has acknowledged waits for its report.
    pub(super) fn awaits_report(&self, key: &Key, cluster: &ClusterName) -> bool {
        let track = self.tracks.get(key);
        track.is_some_and(|track| track.steps.iter().any(|step| step.awaits_report(cluster)))
    }

    /// The cluster reported the Application, and the report shows the changes of these facets.
    pub(super) fn reported(
        &mut self,
        key: &Key,
        cluster: &ClusterName,
        shows: impl Fn(Facet) -> bool,
        now: Timestamp,
    ) {
        let track = self.tracks.get_mut(key).into_iter();
        let steps = track.flat_map(|track| &mut track.steps);
        for step in steps.filter(|step| step.awaits_report(cluster) && shows(step.facet)) {
            step.delivery.reported = step.delivery.acknowledged.map(|at| now.max(at));
        }
    }

    /// The Application is gone.
    pub(super) fn forget(&mut self, key: &Key) {
        if let Some(track) = self.tracks.remove(key) {
            self.order.remove(&track.place);
        }
    }

    /// The recent deliveries of an Application, newest first.
    pub(super) fn of(&self, key: &Key) -> Vec<Delivery> {
        let track = self.tracks.get(key).into_iter();
        track
            .flat_map(|track| track.steps.iter().rev())
            .map(|step| step.delivery.clone())
            .collect()
    }
}

impl Step {
    fn awaits_report(&self, cluster: &ClusterName) -> bool {
        let Delivery {
            acknowledged,
            reported,
            ..
        } = &self.delivery;
        self.cluster == *cluster && acknowledged.is_some() && reported.is_none()
    }
}

/// The id of the trace in a `traceparent`, if it is sampled.
fn trace_id(traceparent: &str) -> Option<String> {
    let context = Context::read(traceparent, None).filter(Context::is_sampled)?;
    context.parent().split('-').nth(1).map(str::to_owned)
}

#[cfg(test)]
mod tests;
