//! What is in the way of clusters' objects on the hub.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use ocm::name::ClusterName;

/// Why objects of a cluster on the hub are not as they should be. Its agent works without them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Obstacles {
    /// Why its cluster Secret is not.
    pub(super) secret: Option<String>,
    /// Why its `AppProject` is not.
    pub(super) project: Option<String>,
}

/// Those of all clusters that have any.
#[derive(Debug, Default)]
pub(super) struct AllObstacles(
    // Held for a lookup, never over an await.
    Mutex<BTreeMap<ClusterName, Obstacles>>,
);

impl AllObstacles {
    /// What is in the way of one cluster's.
    pub(super) fn of(&self, cluster: &ClusterName) -> Option<Obstacles> {
        self.lock().get(cluster).cloned()
    }

    /// Remembers what was found last.
    pub(super) fn note(&self, cluster: &ClusterName, obstacles: Obstacles) {
        let mut all = self.lock();
        if obstacles == Obstacles::default() {
            all.remove(cluster);
        } else {
            all.insert(cluster.clone(), obstacles);
        }
    }

    /// The cluster has left.
    pub(super) fn forget(&self, cluster: &ClusterName) {
        self.lock().remove(cluster);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ClusterName, Obstacles>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
