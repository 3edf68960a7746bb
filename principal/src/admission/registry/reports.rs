//! The reports of all clusters, for the rest of the program.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use live::cluster_info::Census;
use parking_lot::Mutex;
use runtime::clock::Clock;
use tokio::sync::watch;

use crate::{
    fleet::{ClusterName, Mode},
    report::{SessionReport, Sessions},
};

/// The reports of all clusters.
#[derive(Debug)]
pub(crate) struct Reports {
    clock: Clock,
    sender: watch::Sender<Sessions>,
    /// The counts that agents reported, for readers that poll. Bounded by the fleet.
    pub(super) counted: Mutex<BTreeMap<ClusterName, Census>>,
}

impl Reports {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            sender: watch::Sender::default(),
            counted: Mutex::default(),
        }
    }

    /// Receives the reports as they change.
    pub(super) fn follow(&self) -> watch::Receiver<Sessions> {
        self.sender.subscribe()
    }

    /// The report of a cluster, and the last counts of its agent; none before an agent connected.
    pub(crate) fn known(
        &self,
        cluster: &ClusterName,
    ) -> (Option<Arc<SessionReport>>, Option<Census>) {
        let report = self.sender.borrow().get(cluster.as_str()).cloned();
        (report, self.counted.lock().get(cluster).cloned())
    }

    /// Forgets the reports of clusters that do not pass `keep`.
    pub(super) fn keep(&self, keep: impl Fn(&str) -> bool) {
        self.sender.send_if_modified(|reports| {
            if reports.keys().all(|cluster| keep(cluster)) {
                return false;
            }
            Arc::make_mut(reports).retain(|cluster, _| keep(cluster));
            true
        });
    }

    /// Records that an enrolled cluster authenticated.
    pub(crate) fn authenticated(&self, cluster: &ClusterName, mode: Mode, version: &str) {
        self.change(cluster, |report, _now| {
            report.agent_version = Some(version.to_owned());
            report.mode = Some(mode);
        });
    }

    /// Records that an enrolled cluster was refused.
    pub(crate) fn refused(&self, cluster: &ClusterName, why: &str) {
        self.change(cluster, |report, now| {
            report.last_seen = Some(now);
            report.last_error = Some(why.to_owned());
        });
    }

    /// Changes the report of a cluster; an equal report wakes no reader.
    pub(super) fn change(
        &self,
        cluster: &ClusterName,
        change: impl FnOnce(&mut SessionReport, Timestamp),
    ) {
        let now = self.clock.now();
        self.sender.send_if_modified(|reports| {
            let before = reports.get(cluster.as_str()).map(Arc::as_ref);
            let mut after = before.cloned().unwrap_or_else(|| SessionReport {
                since: now,
                ..SessionReport::default()
            });
            change(&mut after, now);
            if before == Some(&after) {
                return false;
            }
            Arc::make_mut(reports).insert(cluster.to_string(), Arc::new(after));
            true
        });
    }
}
