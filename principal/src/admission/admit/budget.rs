//! Throttles expensive requests per key.
//!
//! Signing a token takes a millisecond of processor time, comparing a password tens of them. A client that asks in a
//! loop must not take that time from others.

use std::{
    borrow::Borrow,
    collections::BTreeMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::fleet::ClusterName;

/// Several times the need of a reconnect.
const BURST: u32 = 30;
/// A connect needs about three: an agent that restarts again and again can still connect.
const REFILL: Duration = Duration::from_millis(500);
/// Remembered keys; above it, those with a full budget are forgotten.
const MOST: usize = 10_000;

/// The rest of each key's budget.
#[derive(Debug)]
pub(crate) struct Budget<K> {
    burst: u32,
    refill: Duration,
    // Locked for a lookup, never over an await.
    left: Mutex<BTreeMap<K, Left>>,
}

#[derive(Clone, Copy, Debug)]
struct Left {
    tokens: u32,
    since: Instant,
}

impl Default for Budget<ClusterName> {
    /// For tokens and streams of one cluster.
    fn default() -> Self {
        Self::new(BURST, REFILL)
    }
}

impl<K: Ord + Clone + fmt::Debug> Budget<K> {
    /// Allows `burst` requests at once, and another one after each `refill`.
    pub(crate) const fn new(burst: u32, refill: Duration) -> Self {
        Self {
            burst,
            refill,
            left: Mutex::new(BTreeMap::new()),
        }
    }

    /// Whether the key's budget has anything left.
    pub(crate) fn has_left(&self, key: &K) -> bool {
        let now = Instant::now();
        let all = self.lock();
        all.get(key)
            .is_none_or(|left| self.refilled(*left, now).tokens > 0)
    }

    /// Takes one from the key's budget; false when nothing is left.
    pub(crate) fn spend(&self, key: &K) -> bool {
        let now = Instant::now();
        let full = Left {
            tokens: self.burst,
            since: now,
        };
        let mut all = self.lock();
        if all.len() >= MOST {
            all.retain(|_, left| self.refilled(*left, now).tokens < self.burst);
        }
        let left = all.entry(key.clone()).or_insert(full);
        *left = self.refilled(*left, now);
        match left.tokens.checked_sub(1) {
            Some(tokens) => {
                left.tokens = tokens;
                true
            }
            None => false,
        }
    }

    fn refilled(&self, left: Left, now: Instant) -> Left {
        let refills = now.duration_since(left.since).as_millis() / self.refill.as_millis().max(1);
        if refills == 0 {
            return left;
        }
        let refills = u32::try_from(refills).unwrap_or(u32::MAX);
        Left {
            tokens: left.tokens.saturating_add(refills).min(self.burst),
            since: now,
        }
    }

    /// Forgets keys that do not pass `keep`.
    pub(crate) fn keep(&self, keep: impl Fn(&str) -> bool)
    where
        K: Borrow<str>,
    {
        self.lock().retain(|key, _| keep(key.borrow()));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<K, Left>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_cluster_in_a_loop_spends_its_own_budget_only() {
        let budget = Budget::<ClusterName>::default();
        let [a, ab] = ["a", "ab"].map(|name| ClusterName::try_from(name).unwrap());
        let granted = (0..100).filter(|_| budget.spend(&a)).count();
        assert_eq!(granted, 30);
        assert!(!budget.has_left(&a));
        assert!(budget.spend(&ab));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(budget.has_left(&a));
        assert_eq!((0..100).filter(|_| budget.spend(&a)).count(), 2);
        budget.keep(|name| name == "ab");
        assert_eq!(budget.left.lock().unwrap().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn budget_memory_is_bounded() {
        let budget = Budget::new(2, Duration::from_secs(1));
        for key in 0..MOST {
            budget.spend(&key);
        }
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(budget.spend(&MOST));
        assert_eq!(budget.left.lock().unwrap().len(), 1);
    }
}
