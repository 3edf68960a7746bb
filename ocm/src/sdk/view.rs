//! Read access to the SDK's cache, for authors.

use std::sync::Arc;

use tokio::{sync::watch, time::Instant};

use super::{
    drive::Key,
    object_cache::{Expected, ObjectCache},
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
        let state = self.world.lock();
        let clusters = state.clusters.live().iter();
        clusters
            .map(|(name, cluster)| (name.clone(), Arc::clone(cluster)))
            .collect()
    }

    /// One cluster.
    pub fn cluster(&self, name: &ClusterName) -> Option<Arc<ManagedCluster>> {
        self.world.lock().clusters.live().get(name).cloned()
    }

    /// This add-on on all clusters that have it.
    pub fn addons(&self) -> Vec<(ClusterName, Arc<ManagedClusterAddOn>)> {
        let state = self.world.lock();
        let addons = state.addons.live().iter();
        addons
            .map(|(name, addon)| (name.clone(), Arc::clone(addon)))
            .collect()
    }

    /// This add-on on one cluster.
    pub fn addon(&self, name: &ClusterName) -> Option<Arc<ManagedClusterAddOn>> {
        self.world.lock().addons.live().get(name).cloned()
    }

    /// The `ClusterManagementAddOn`.
    pub fn offer(&self) -> Option<Arc<ClusterManagementAddOn>> {
        let state = self.world.lock();
        state
            .offer
            .live()
            .get(&())
            .map(|offer| Arc::clone(&offer.model))
    }

    /// Records that the author has written this add-on of a cluster, and the version that the hub returned. Until the
    /// cache shows it, the cluster is [behind](Self::is_behind), for the SDK too.
    pub fn wrote(&self, cluster: &ClusterName, version: impl Into<String>) {
        let expected = Expected::Version(version.into());
        self.world.expect(&Key::Cluster(cluster.clone()), expected);
    }

    /// Records that the author has deleted this add-on of a cluster, with this UID; as for [`wrote`](Self::wrote).
    pub fn deleted(&self, cluster: &ClusterName, uid: impl Into<String>) {
        let uid = uid.into();
        let expected = Expected::NoAddon { uid };
        self.world.expect(&Key::Cluster(cluster.clone()), expected);
    }

    /// Whether the cache does not show a write for this cluster yet, by the SDK or the author. A decision from the state
    /// before it would repeat the write.
    pub fn is_behind(&self, cluster: &ClusterName) -> bool {
        let key = Key::Cluster(cluster.clone());
        self.world.is_behind(&key, Instant::now())
    }
}
