//! The problems that clusters report for Applications: for conditions, and as a summary for the add-on.

use std::collections::{BTreeMap, BTreeSet};

use protocol::ObjectKey;

use super::{Effect, Index, Key};
use crate::report::Refused;

/// So many refused objects are listed by name.
const NAMED: usize = 3;

/// Indexes the Applications with problems by cluster, so that no query scans all. Bounded by the reported Applications.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    clusters: BTreeMap<String, OfCluster>,
}

#[derive(Debug, Default)]
struct OfCluster {
    changes: u64,
    keys: BTreeSet<Key>,
}

impl Complaints {
    /// Sets whether this Application has a problem.
    pub(super) fn change(&mut self, cluster: &str, key: &Key, is_there: bool) {
        let of = self.clusters.entry(cluster.to_owned()).or_default();
        of.changes = of.changes.wrapping_add(1);
        if is_there {
            of.keys.insert(key.clone());
        } else {
            of.keys.remove(key);
        }
    }

    /// Counts the changes.
    pub(super) fn changes(&self, cluster: &str) -> u64 {
        self.clusters.get(cluster).map_or(0, |of| of.changes)
    }

    /// The Applications of a cluster with problems. One that was moved away since may still be listed.
    pub(super) fn of(&self, cluster: &str) -> impl Iterator<Item = &Key> {
        self.clusters
            .get(cluster)
            .into_iter()
            .flat_map(|of| &of.keys)
    }
}

impl Index {
    /// A version that grows with each change of [`Self::refused`].
    pub(crate) fn complaints_of(&self, cluster: &str) -> u64 {
        let changes = self.complaints.changes(cluster);
        changes.wrapping_add(self.provisions.refusals())
    }

    /// The objects that a cluster refuses, or failed to apply.
    pub(crate) fn refused(&self, cluster: &str) -> Option<Refused> {
        let is_theirs = |key: &&Key| {
            let entry = self.applications.get(key);
            entry.is_some_and(|entry| entry.cluster() == Some(cluster) && entry.report.is_some())
        };
        let applications = self.complaints.of(cluster).filter(is_theirs);
        let names = applications.map(|key| key.object().to_string()).chain(
            self.provisions
                .refused_by(cluster)
                .map(ObjectKey::to_string),
        );
        let names: Vec<String> = names.collect();
        (!names.is_empty()).then(|| Refused {
            count: names.len(),
            names: names.into_iter().take(NAMED).collect(),
        })
    }

    /// Sets the field manager that keeps changing an Application on its cluster, or clears it.
    pub(crate) fn set_contest(&mut self, key: &Key, contest: Option<String>) -> Vec<Effect> {
        match self.applications.get_mut(key) {
            Some(entry) if entry.contest != contest => {
                entry.contest = contest;
                vec![Effect::Conditions(key.clone())]
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// Sets the error that a cluster reported for an Application; its next status clears it.
    pub(crate) fn set_report(&mut self, key: &Key, report: Option<String>) -> Vec<Effect> {
        match self.applications.get_mut(key) {
            Some(entry) if entry.report != report => {
                if let Some(cluster) = entry.cluster() {
                    self.complaints.change(cluster, key, report.is_some());
                }
                entry.report = report;
                vec![Effect::Conditions(key.clone())]
            }
            Some(_) | None => Vec::new(),
        }
    }
}
