//! Throttles expensive requests per key.
//!
//! Signing a token takes a millisecond of processor time, comparing a password tens of them. A client that asks in a
//! loop must not take that time from others. Admission also checks signatures before it knows the cluster, and logs each
//! refusal: a certificate with too many refusals is rejected before that. Accepted requests do not count there.

use std::{borrow::Borrow, mem::take, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{identity::Thumbprint, reserve::Reserve};
use crate::fleet::ClusterName;

/// Several times the need of a reconnect, and of an agent that retries while its cluster is being enrolled.
const BURST: u32 = 30;
/// A connect needs about three: an agent that restarts again and again can still connect.
const REFILL: Duration = Duration::from_millis(500);
const REFUSAL_REFILL: Duration = Duration::from_secs(2);
/// Interval between two log lines about rejected requests.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// The requests that each key has left.
#[derive(Debug)]
pub(crate) struct Budget<K> {
    left: Reserve<K>,
    /// What one request takes of it.
    refill: Duration,
}

impl Default for Budget<ClusterName> {
    /// For tokens and streams of one cluster.
    fn default() -> Self {
        Self::new(BURST, REFILL)
    }
}

impl<K: Ord + Clone> Budget<K> {
    /// Allows `burst` requests at once, and another one after each `refill`.
    pub(crate) const fn new(burst: u32, refill: Duration) -> Self {
        let left = Reserve::new(refill.saturating_mul(burst.saturating_sub(1)));
        Self { left, refill }
    }

    /// Whether the key's budget has anything left.
    pub(crate) fn has_left(&self, key: &K) -> bool {
        self.left.has_left(key, Instant::now())
    }

    /// Takes one from the key's budget; false when nothing is left.
    pub(crate) fn spend(&self, key: &K) -> bool {
        self.left.take(key, self.refill, Instant::now())
    }

    /// Forgets keys that do not pass `keep`.
    pub(crate) fn keep(&self, keep: impl Fn(&str) -> bool)
    where
        K: Borrow<str>,
    {
        self.left.keep(keep);
    }
}

/// The refusals that each certificate has left.
#[derive(Debug)]
pub(crate) struct RefusalBudget {
    pub(super) left: Budget<Thumbprint>,
    // Held for an addition, never over an await.
    pub(super) unlogged: Mutex<Unlogged>,
}

impl Default for RefusalBudget {
    fn default() -> Self {
        Self {
            left: Budget::new(BURST, REFUSAL_REFILL),
            unlogged: Mutex::default(),
        }
    }
}

/// Rejected requests since the last log line.
#[derive(Debug, Default)]
pub(super) struct Unlogged {
    count: u64,
    logged: Option<Instant>,
}

impl Unlogged {
    /// Adds one; returns the sum when it is time to log it.
    pub(super) fn add(&mut self, now: Instant) -> Option<u64> {
        self.count = self.count.saturating_add(1);
        if self.logged.is_some_and(|at| now < at + LOG_INTERVAL) {
            return None;
        }
        self.logged = Some(now);
        Some(take(&mut self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::reserve::MOST, *};

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
        assert_eq!(budget.left.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn budget_memory_is_bounded() {
        let budget = Budget::new(2, Duration::from_secs(1));
        for key in 0..MOST {
            budget.spend(&key);
        }
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(budget.spend(&MOST));
        assert_eq!(budget.left.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn rejected_requests_are_logged_once_a_minute() {
        let mut unlogged = Unlogged::default();
        assert_eq!(unlogged.add(Instant::now()), Some(1));
        for _ in 0..100 {
            assert_eq!(unlogged.add(Instant::now()), None);
        }
        tokio::time::advance(LOG_INTERVAL).await;
        assert_eq!(unlogged.add(Instant::now()), Some(101));
    }
}
