//! Counts the sessions and the reports of each cluster.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

use crate::{fleet::ClusterName, report::Traffic};

/// The counters of all clusters. Bounded by the fleet.
#[derive(Debug, Default)]
pub(super) struct Counters(Mutex<BTreeMap<ClusterName, Arc<Counter>>>);

/// The counters of one cluster.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    sessions: AtomicU64,
    reports: AtomicU64,
}

impl Counter {
    /// A report of the cluster was applied.
    pub(crate) fn count_report(&self) {
        self.reports.fetch_add(1, Ordering::Relaxed);
    }
}

impl Counters {
    /// Counts a session that begins, and returns the counters of its cluster.
    pub(super) fn count_session(&self, cluster: &ClusterName) -> Arc<Counter> {
        let mut counters = self.0.lock();
        let counter = counters.entry(cluster.clone()).or_default();
        counter.sessions.fetch_add(1, Ordering::Relaxed);
        Arc::clone(counter)
    }

    /// Forgets clusters that do not pass `keep`.
    pub(super) fn keep(&self, keep: impl Fn(&str) -> bool) {
        self.0.lock().retain(|cluster, _| keep(cluster.as_str()));
    }

    /// The sessions and reports of each cluster that had a session.
    pub(super) fn traffic(&self) -> BTreeMap<String, Traffic> {
        let counters = self.0.lock();
        let traffic = counters.iter().map(|(cluster, counter)| {
            let traffic = Traffic {
                sessions: counter.sessions.load(Ordering::Relaxed),
                reports: counter.reports.load(Ordering::Relaxed),
            };
            (cluster.to_string(), traffic)
        });
        traffic.collect()
    }
}
