//! Applications of a cluster, counted. Pure.

use std::collections::{BTreeMap, btree_map::Entry};

use jiff::Timestamp;
use serde::Serialize;

use super::standing::{HealthStatus, Standing, SyncStatus, is_late};

/// The Applications of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    total: u32,
    sync: BTreeMap<SyncStatus, u32>,
    health: BTreeMap<HealthStatus, u32>,
    troubled: u32,
    behind: u32,
    behind_since: Option<Timestamp>,
    /// How many are behind since then, so that one can be taken out again.
    #[serde(skip)]
    changes: BTreeMap<Timestamp, u32>,
}

/// Counts Applications by cluster.
pub fn tallies<'a>(standings: impl IntoIterator<Item = &'a Standing>) -> BTreeMap<String, Tally> {
    let mut tallies = BTreeMap::<String, Tally>::new();
    for standing in standings {
        let tally = tallies.entry(standing.cluster.to_string()).or_default();
        tally.add(standing);
    }
    tallies
}

impl Tally {
    /// That of these Applications, which are of one cluster.
    pub fn of<'a>(standings: impl IntoIterator<Item = &'a Standing>) -> Self {
        let mut tally = Self::default();
        for standing in standings {
            tally.add(standing);
        }
        tally
    }

    /// Takes in one Application.
    pub fn add(&mut self, standing: &Standing) {
        self.total += 1;
        self.troubled += u32::from(standing.troubled);
        self.behind += u32::from(standing.behind);
        count(&mut self.sync, standing.sync);
        count(&mut self.health, standing.health);
        if let Some(since) = standing.behind_since {
            count(&mut self.changes, since);
        }
        self.behind_since = self.changes.keys().next().copied();
    }

    /// Takes out one Application that was taken in with the same standing.
    pub fn remove(&mut self, standing: &Standing) {
        let less = |count: u32, by: bool| count.saturating_sub(u32::from(by));
        self.total = less(self.total, true);
        self.troubled = less(self.troubled, standing.troubled);
        self.behind = less(self.behind, standing.behind);
        discount(&mut self.sync, standing.sync);
        discount(&mut self.health, standing.health);
        if let Some(since) = standing.behind_since {
            discount(&mut self.changes, since);
        }
        self.behind_since = self.changes.keys().next().copied();
    }

    /// How many there are.
    pub const fn total(&self) -> u32 {
        self.total
    }

    /// By status of the sync, without those that no Application has.
    pub const fn sync(&self) -> &BTreeMap<SyncStatus, u32> {
        &self.sync
    }

    /// By health, without those that no Application has.
    pub const fn health(&self) -> &BTreeMap<HealthStatus, u32> {
        &self.health
    }

    /// Those with a condition of ours: not delivered, or something is in the way.
    pub const fn troubled(&self) -> u32 {
        self.troubled
    }

    /// Those of the others with which the cluster's Argo CD has not compared as they are now.
    pub const fn behind(&self) -> u32 {
        self.behind
    }

    /// Since when the oldest of these is as it is.
    pub const fn behind_since(&self) -> Option<Timestamp> {
        self.behind_since
    }

    /// How many are in sync.
    pub fn synced(&self) -> u32 {
        let synced = self.sync.get(&SyncStatus::Synced);
        synced.copied().unwrap_or_default()
    }

    /// How many are healthy.
    pub fn healthy(&self) -> u32 {
        let healthy = self.health.get(&HealthStatus::Healthy);
        healthy.copied().unwrap_or_default()
    }

    /// Whether one of them is broken or not delivered, or behind for too long. Being out of sync is not: a user may want
    /// it so.
    pub fn needs_a_look(&self, now: Timestamp) -> bool {
        self.troubled > 0
            || self.health.keys().any(|it| it.is_sick())
            || self.behind_since.is_some_and(|since| is_late(since, now))
    }
}

fn count<K: Ord>(counts: &mut BTreeMap<K, u32>, key: K) {
    *counts.entry(key).or_default() += 1;
}

fn discount<K: Ord>(counts: &mut BTreeMap<K, u32>, key: K) {
    if let Entry::Occupied(mut count) = counts.entry(key) {
        if *count.get() > 1 {
            *count.get_mut() -= 1;
        } else {
            count.remove();
        }
    }
}

#[cfg(test)]
mod tests;
