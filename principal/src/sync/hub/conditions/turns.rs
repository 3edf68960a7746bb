//! The order and the pace of the writes of conditions. Pure.
//!
//! One cluster with many changes must not delay another, so the clusters are served in turn. An Application that changes
//! all the time must not be written all the time, so it has a reserve of writes that refills with time.

use std::{collections::HashMap, time::Duration};

use indexmap::{IndexMap, IndexSet};
use tokio::time::Instant;

use crate::domain::{ClusterName, Key};

/// The refill interval: after a flood, the shown conditions are no older than this.
const PAUSE: Duration = Duration::from_millis(500);
/// The size of the reserve: a user who changes an Application does not use it up.
const RESERVE: u32 = 10;

/// The waiting Applications, by cluster; none for those of the hub. Bounded by the Applications.
#[derive(Debug, Default)]
pub(super) struct Turns {
    waiting: IndexMap<Option<ClusterName>, IndexSet<Key>>,
    /// When the reserve of an Application is full again. Bounded by the Applications written during that time.
    full: HashMap<Key, Instant>,
}

impl Turns {
    pub(super) fn add(&mut self, cluster: Option<ClusterName>, key: Key) {
        self.waiting.entry(cluster).or_default().insert(key);
    }

    /// Takes an Application of the next cluster.
    pub(super) fn take(&mut self) -> Option<Key> {
        let (cluster, mut keys) = self.waiting.shift_remove_index(0)?;
        let key = keys.shift_remove_index(0);
        if !keys.is_empty() {
            self.waiting.insert(cluster, keys);
        }
        key
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The time before which an Application may not be written, if it is not over.
    pub(super) fn throttled(&self, key: &Key, now: Instant) -> Option<Instant> {
        let at = self.full.get(key)?.checked_sub(PAUSE * (RESERVE - 1))?;
        (now < at).then_some(at)
    }

    /// Counts a write.
    pub(super) fn wrote(&mut self, key: &Key, now: Instant) {
        self.full.retain(|_, full| *full > now);
        let full = self.full.entry(key.clone()).or_insert(now);
        *full += PAUSE;
    }
}
