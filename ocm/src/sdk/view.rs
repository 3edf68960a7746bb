//! Read access to the SDK's cache, for authors.

use std::{collections::BTreeMap, sync::Arc};

use tokio::{sync::watch, time::Instant};

use super::{
    key::Key,
    object_cache::{Expected, ObjectCache},
    settled::Configuration,
};
use crate::{
    api::{
        addon::{ClusterManagementAddOn, ManagedClusterAddOn},
        cluster::ManagedCluster,
    },
    name::ClusterName,
};

/// A view of the hub: clusters, this add-on on them, and its `ClusterManagementAddOn`.
///
/// Cheap to clone. [`super::run`] keeps it current, so an author needs no watches of these objects.
/// The objects come without managed fields, clusters also without resourceVersion and generation.
#[derive(Clone, Debug, Default)]
pub struct View {
    world: Arc<ObjectCache>,
}

impl View {
    /// An empty view, for [`super::run`].
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) const fn world(&self) -> &Arc<ObjectCache> {
        &self.world
    }

    /// Notifies of every change of the cache.
    pub fn revision(&self) -> watch::Receiver<u64> {
        self.world.revision()
    }

    /// Whether all first lists are complete. Until then a missing object may exist.
    pub fn is_synced(&self) -> bool {
        self.world.lock().is_synced()
    }

    /// All clusters by name.
    pub fn clusters(&self) -> Vec<(ClusterName, Arc<ManagedCluster>)> {
        pairs(self.world.lock().clusters.live())
    }

    /// One cluster.
    pub fn cluster(&self, name: &ClusterName) -> Option<Arc<ManagedCluster>> {
        self.world.lock().clusters.live().get(name).cloned()
    }

    /// This add-on on all clusters that have it.
    pub fn addons(&self) -> Vec<(ClusterName, Arc<ManagedClusterAddOn>)> {
        pairs(self.world.lock().addons.live())
    }

    /// This add-on on one cluster.
    pub fn addon(&self, name: &ClusterName) -> Option<Arc<ManagedClusterAddOn>> {
        self.world.lock().addons.live().get(name).cloned()
    }

    /// The `ClusterManagementAddOn`.
    pub fn offer(&self) -> Option<Arc<ClusterManagementAddOn>> {
        self.world.lock().offer()
    }

    /// The configuration of this add-on on one cluster; the default if the cluster has not the add-on.
    ///
    /// Use it instead of the status of the `ManagedClusterAddOn`, which the cluster may write.
    pub fn configured(&self, name: &ClusterName) -> Configuration {
        self.world.lock().configured(name)
    }

    /// Records that the author has written this add-on of a cluster, and the version that the hub returned. Until the
    /// cache shows it, the cluster is [behind](Self::is_behind), for the SDK too.
    pub fn wrote(&self, cluster: &ClusterName, version: impl Into<String>) {
        let expected = Expected::Version(version.into());
        self.world.expect(Key::Cluster(cluster.clone()), expected);
    }

    /// Records that the author has deleted this add-on of a cluster, with this UID; as for [`wrote`](Self::wrote).
    pub fn deleted(&self, cluster: &ClusterName, uid: impl Into<String>) {
        let expected = Expected::NoAddon(uid.into());
        self.world.expect(Key::Cluster(cluster.clone()), expected);
    }

    /// Whether the cache does not show a write for this cluster yet, by the SDK or the author. A decision from the state
    /// before it would repeat the write.
    pub fn is_behind(&self, cluster: &ClusterName) -> bool {
        let key = Key::Cluster(cluster.clone());
        self.world.is_behind(&key, Instant::now())
    }
}

fn pairs<T>(live: &BTreeMap<ClusterName, Arc<T>>) -> Vec<(ClusterName, Arc<T>)> {
    let pairs = live.iter();
    pairs
        .map(|(name, it)| (name.clone(), Arc::clone(it)))
        .collect()
}
