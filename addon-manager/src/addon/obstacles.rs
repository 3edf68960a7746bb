//! Obstacles to clusters' objects on the hub.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use ocm::name::ClusterName;

/// Why objects of a cluster on the hub are missing or wrong. Its agent works without them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Obstacles {
    /// The error of its cluster Secret.
    pub(super) secret: Option<String>,
    /// The error of its `AppProject`.
    pub(super) project: Option<String>,
}

/// The obstacles of all clusters that have any.
#[derive(Debug, Default)]
pub(super) struct AllObstacles(
    // Locked for a lookup, never across an await.
    Mutex<BTreeMap<ClusterName, Obstacles>>,
);

impl AllObstacles {
    /// The obstacles of one cluster.
    pub(super) fn of(&self, cluster: &ClusterName) -> Option<Obstacles> {
        self.lock().get(cluster).cloned()
    }

    /// Replaces the obstacles of one cluster.
    pub(super) fn note(&self, cluster: &ClusterName, obstacles: Obstacles) {
        let mut all = self.lock();
        if obstacles == Obstacles::default() {
            all.remove(cluster);
        } else {
            all.insert(cluster.clone(), obstacles);
        }
    }

    /// Forgets a cluster that has left.
    pub(super) fn forget(&self, cluster: &ClusterName) {
        self.lock().remove(cluster);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ClusterName, Obstacles>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
