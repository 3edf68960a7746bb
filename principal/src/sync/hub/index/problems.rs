//! What clusters say that went wrong with Applications: for conditions, and in sum for the add-on.

use std::collections::{BTreeMap, BTreeSet};

use protocol::ObjectKey;

use super::{Effect, Index, Key};
use crate::report::Refused;

/// How many of the objects that a cluster refuses are told by name.
const NAMED: usize = 3;

/// Where there are any, so that nobody has to look for them among all. By cluster; bounded by the Applications that there have been reports about.
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
    /// There is something about this one now, or not any more.
    pub(super) fn change(&mut self, cluster: &str, key: &Key, is_there: bool) {
        let of = self.clusters.entry(cluster.to_owned()).or_default();
        of.changes = of.changes.wrapping_add(1);
        if is_there {
            of.keys.insert(key.clone());
        } else {
            of.keys.remove(key);
        }
    }

    /// How often something has changed.
    pub(super) fn changes(&self, cluster: &str) -> u64 {
        self.clusters.get(cluster).map_or(0, |of| of.changes)
    }

    /// Those of a cluster. Of one that has moved away since, it may be old.
    pub(super) fn of(&self, cluster: &str) -> impl Iterator<Item = &Key> {
        self.clusters
            .get(cluster)
            .into_iter()
            .flat_map(|of| &of.keys)
    }
}

impl Index {
    /// Grows whenever there may be another answer to [`Self::refused`].
    pub(crate) fn complaints_of(&self, cluster: &str) -> u64 {
        let changes = self.complaints.changes(cluster);
        changes.wrapping_add(self.provisions.refusals())
    }

    /// What a cluster refuses, or could not do.
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

    /// Records who keeps changing an Application on its cluster, until nobody does.
    pub(crate) fn set_contest(&mut self, key: &Key, contest: Option<String>) -> Vec<Effect> {
        match self.applications.get_mut(key) {
            Some(entry) if entry.contest != contest => {
                entry.contest = contest;
                vec![Effect::Conditions(key.clone())]
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// Records what a cluster reported about an Application, until it reports its status.
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
