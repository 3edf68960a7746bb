//! When the recent changes of Applications were written, sent, acknowledged and reported, for people.
//!
//! Nothing is decided by it, and a restart forgets it. `timeline` is pure; this is its lock and its clock.

use argocd::Application;
use parking_lot::Mutex;
use protocol::{Facet, ObjectKey, session::Progress};
use runtime::clock::Clock;
use serde_json::Value;

use super::index::{Effect, Entry, Index};
use crate::domain::{ClusterName, Key};

mod timeline;

pub use timeline::Delivery;
use timeline::{Timeline, Written};

/// The recent changes of Applications.
#[derive(Debug)]
pub(crate) struct Deliveries {
    /// Locked for a lookup, never over an await; after the hub's objects.
    timeline: Mutex<Timeline>,
    clock: Clock,
}

impl Deliveries {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            timeline: Mutex::default(),
            clock,
        }
    }

    /// Notes the effects of a change of this object. `listed` is whether all Applications have been listed: those of the
    /// first list were written earlier.
    pub(super) fn begin(&self, index: &Index, key: &ObjectKey, effects: &[Effect], listed: bool) {
        let Some(key) = Key::from_object(key) else {
            return;
        };
        match index.application(&key) {
            Some(entry) if listed => self.written(&key, entry, effects),
            Some(_) => {}
            None => self.timeline.lock().forget(&key),
        }
    }

    /// Notes a new version of an Application, if the cluster gets something for it.
    fn written(&self, key: &Key, entry: &Entry, effects: &[Effect]) {
        let object = key.object();
        let of = |effect: &Effect| match effect {
            Effect::State { key, .. } if *key == object => Some(Facet::State),
            Effect::Command { key, .. } if *key == object => Some(Facet::Command),
            Effect::State { .. }
            | Effect::Command { .. }
            | Effect::Gone { .. }
            | Effect::Conditions(_) => None,
        };
        let (Some(facet), Some(cluster)) = (effects.iter().filter_map(of).min(), entry.cluster())
        else {
            return;
        };
        let written = Written {
            version: entry.version().to_owned(),
            facet,
            cluster: cluster.clone(),
            at: self.clock.now(),
        };
        self.timeline.lock().written(key, written);
    }

    /// Notes the progress of events for a cluster.
    pub(crate) fn progressed(&self, cluster: &ClusterName, progress: Vec<Progress>) {
        if progress.is_empty() {
            return;
        }
        let now = self.clock.now();
        let mut timeline = self.timeline.lock();
        for step in progress {
            let Some(key) = Key::from_object(&step.key) else {
                continue;
            };
            timeline.progressed(&key, cluster, &step, now);
        }
    }

    /// Notes an applied report of a cluster about an Application; `shows` finds the changes that it shows, by facet.
    pub(super) fn reported(&self, key: &Key, cluster: &ClusterName, shows: impl Fn(Facet) -> bool) {
        let mut timeline = self.timeline.lock();
        timeline.reported(key, cluster, shows, self.clock.now());
    }

    /// Whether a change that the cluster has acknowledged waits for its report.
    pub(super) fn awaits_report(&self, key: &Key, cluster: &ClusterName) -> bool {
        self.timeline.lock().awaits_report(key, cluster)
    }

    /// The recent deliveries of an Application, newest first.
    pub(crate) fn of(&self, key: &Key) -> Vec<Delivery> {
        self.timeline.lock().of(key)
    }
}

/// Whether Argo CD on the cluster compared the sources that the hub wants; true if either has none.
pub(super) fn compares_sources(hub: Application<'_>, report: Application<'_>) -> bool {
    let compared = report
        .status()
        .and_then(|status| status.pointer("/sync/comparedTo"));
    let wanted = hub.spec().map_or_else(Vec::new, sources);
    let compared = compared.map_or_else(Vec::new, sources);
    wanted.is_empty() || compared.is_empty() || wanted == compared
}

/// The identifying fields of the sources in a `spec` or a `comparedTo`. Others differ between versions of Argo CD.
fn sources(of: &Value) -> Vec<[&str; 4]> {
    let several = of.get("sources").and_then(Value::as_array);
    let several = several.filter(|several| !several.is_empty());
    let one = of
        .get("source")
        .filter(|one| several.is_none() && one.is_object());
    let fields = ["repoURL", "path", "chart", "targetRevision"];
    several
        .into_iter()
        .flatten()
        .chain(one)
        .map(|source| fields.map(|field| source.get(field).and_then(Value::as_str).unwrap_or("")))
        .collect()
}

#[cfg(test)]
mod tests;
