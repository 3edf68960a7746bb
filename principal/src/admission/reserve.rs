//! What each client or cluster may still cost: a reserve per key that refills with time.

use std::{borrow::Borrow, collections::BTreeMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::fleet::ClusterName;

/// Remembered keys; above it, those with a full reserve are forgotten.
pub(super) const MOST: usize = 10_000;

/// The reserves of all keys, in the time that they take to refill.
#[derive(Debug)]
pub(crate) struct Reserve<K> {
    size: Duration,
    /// When the reserve of a key is full again. Locked for a lookup, never over an await.
    full: Mutex<BTreeMap<K, Instant>>,
}

impl<K: Ord + Clone> Reserve<K> {
    pub(crate) const fn new(size: Duration) -> Self {
        let full = Mutex::new(BTreeMap::new());
        Self { size, full }
    }

    /// Whether the key's reserve is not overdrawn.
    pub(super) fn has_left(&self, key: &K, now: Instant) -> bool {
        let full = self.full.lock().get(key).copied();
        full.is_none_or(|full| self.debt(full, now).is_zero())
    }

    /// Takes a cost unless the reserve is overdrawn; false if it is.
    pub(crate) fn take(&self, key: &K, cost: Duration, now: Instant) -> bool {
        self.update(key, now, |full| {
            let has_left = self.debt(*full, now).is_zero();
            if has_left {
                *full += cost;
            }
            has_left
        })
    }

    /// Takes a cost in any case; returns the time until the reserve is no longer overdrawn.
    fn overdraw(&self, key: &K, cost: Duration, now: Instant) -> Duration {
        self.update(key, now, |full| {
            *full += cost;
            self.debt(*full, now)
        })
    }

    /// Changes when the reserve of a key is full again, which is now at the earliest.
    fn update<T>(&self, key: &K, now: Instant, change: impl FnOnce(&mut Instant) -> T) -> T {
        let mut all = self.full.lock();
        if let Some(full) = all.get_mut(key) {
            *full = now.max(*full);
            return change(full);
        }
        if all.len() >= MOST {
            all.retain(|_, full| *full > now);
        }
        change(all.entry(key.clone()).or_insert(now))
    }

    fn debt(&self, full: Instant, now: Instant) -> Duration {
        full.saturating_duration_since(now)
            .saturating_sub(self.size)
    }

    /// Forgets keys that do not pass `keep`.
    pub(super) fn keep(&self, keep: impl Fn(&str) -> bool)
    where
        K: Borrow<str>,
    {
        self.full.lock().retain(|key, _| keep(key.borrow()));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.full.lock().len()
    }
}

/// The reserves of all clusters, in bytes.
#[derive(Debug)]
pub(crate) struct ByteReserve {
    /// The bytes that refill in a second.
    rate: u64,
    left: Reserve<ClusterName>,
}

impl ByteReserve {
    /// Reserves of `size` bytes, which refill with `rate` bytes a second.
    pub(crate) fn new(size: u64, rate: u64) -> Self {
        let left = Reserve::new(refill(size, rate));
        Self { rate, left }
    }

    /// Takes these bytes, which may overdraw the reserve; returns the time until it is no longer overdrawn.
    pub(crate) fn take(&self, cluster: &ClusterName, bytes: usize, now: Instant) -> Duration {
        let cost = refill(bytes as u64, self.rate);
        self.left.overdraw(cluster, cost, now)
    }
}

/// How long these bytes take to refill.
fn refill(bytes: u64, rate: u64) -> Duration {
    Duration::from_micros(bytes.saturating_mul(1_000_000) / rate)
}
