//! How often one cluster may ask for tokens and streams.
//!
//! Signing costs a millisecond of processor time; an agent that asks in a loop must not take that from others.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::fleet::ClusterName;

/// What a reconnect needs several times over.
const BURST: u32 = 30;
/// One connect needs about three; this lets an agent that is restarted again and again in.
const REFILL: Duration = Duration::from_millis(500);

/// What each enrolled cluster has left. Bounded by the fleet: nobody else gets here.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    // Held for a lookup, never over an await.
    left: Mutex<BTreeMap<ClusterName, Left>>,
}

#[derive(Clone, Copy, Debug)]
struct Left {
    tokens: u32,
    since: Instant,
}

impl Budget {
    /// Takes one from the cluster's budget; false when nothing is left.
    pub(crate) fn spend(&self, cluster: &ClusterName) -> bool {
        let now = Instant::now();
        let mut all = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let left = all.entry(cluster.clone()).or_insert(Left {
            tokens: BURST,
            since: now,
        });
        let refills = now.duration_since(left.since).as_millis() / REFILL.as_millis();
        if refills > 0 {
            let refills = u32::try_from(refills).unwrap_or(u32::MAX);
            left.tokens = left.tokens.saturating_add(refills).min(BURST);
            left.since = now;
        }
        match left.tokens.checked_sub(1) {
            Some(tokens) => {
                left.tokens = tokens;
                true
            }
            None => false,
        }
    }

    /// Forgets clusters that are not wanted any more.
    pub(crate) fn keep(&self, keep: impl Fn(&str) -> bool) {
        let mut all = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|cluster, _| keep(cluster.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_cluster_in_a_loop_spends_its_own_budget_only() {
        let budget = Budget::default();
        let [a, ab] = ["a", "ab"].map(|name| ClusterName::try_from(name).unwrap());
        let granted = (0..100).filter(|_| budget.spend(&a)).count();
        assert_eq!(granted, 30);
        assert!(budget.spend(&ab));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((0..100).filter(|_| budget.spend(&a)).count(), 2);
        budget.keep(|name| name == "ab");
        assert_eq!(budget.left.lock().unwrap().len(), 1);
    }
}
