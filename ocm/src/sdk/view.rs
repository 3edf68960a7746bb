//! What the SDK sees of the hub, for authors who decide by it.

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

/// A window on the hub: clusters, this add-on on them, and its `ClusterManagementAddOn`.
///
/// Cheap to clone. It is filled by [`super::run`], so an author needs no watches of these objects.
/// The objects come without managed fields, clusters also without resourceVersion and generation.
#[derive(Clone, Debug, Default)]
pub struct View {
    world: Arc<ObjectCache>,
}

impl View {
    /// An empty view, to be handed to [`super::run`].
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) const fn world(&self) -> &Arc<ObjectCache> {
        &self.world
    }

    /// Changes with everything that changes here; wait on it, then look.
    pub fn revision(&self) -> watch::Receiver<u64> {
        self.world.revision()
    }

    /// Whether everything has been listed once. Before that an absent object means nothing.
    pub fn is_synced(&self) -> bool {
        self.world.look().is_synced()
    }

    /// All clusters by name.
    pub fn clusters(&self) -> Vec<(ClusterName, Arc<ManagedCluster>)> {
        let state = self.world.look();
        let clusters = state.clusters.live().iter();
        clusters
            .map(|(name, cluster)| (name.clone(), Arc::clone(cluster)))
            .collect()
    }

    /// One cluster.
    pub fn cluster(&self, name: &ClusterName) -> Option<Arc<ManagedCluster>> {
        self.world.look().clusters.live().get(name).cloned()
    }

    /// This add-on on all clusters that have it.
    pub fn addons(&self) -> Vec<(ClusterName, Arc<ManagedClusterAddOn>)> {
        let state = self.world.look();
        let addons = state.addons.live().iter();
        addons
            .map(|(name, addon)| (name.clone(), Arc::clone(addon)))
            .collect()
    }

    /// This add-on on one cluster.
    pub fn addon(&self, name: &ClusterName) -> Option<Arc<ManagedClusterAddOn>> {
        self.world.look().addons.live().get(name).cloned()
    }

    /// The `ClusterManagementAddOn`.
    pub fn offer(&self) -> Option<Arc<ClusterManagementAddOn>> {
        let state = self.world.look();
        state
            .offer
            .live()
            .get(&())
            .map(|offer| Arc::clone(&offer.model))
    }

    /// Notes that the author has written this add-on of a cluster, and the version that the hub answered with. Until
    /// it can be seen here the cluster is [behind](Self::is_behind), for the SDK too.
    pub fn wrote(&self, cluster: &ClusterName, version: impl Into<String>) {
        let expected = Expected::Version(version.into());
        self.world.expect(&Key::Cluster(cluster.clone()), expected);
    }

    /// The same for the deletion of the one with this UID.
    pub fn deleted(&self, cluster: &ClusterName, uid: impl Into<String>) {
        let uid = uid.into();
        let expected = Expected::NoAddon { uid };
        self.world.expect(&Key::Cluster(cluster.clone()), expected);
    }

    /// Whether something that was written for this cluster, by the SDK or the author, cannot be seen here yet. What is
    /// decided from what was before would be written twice.
    pub fn is_behind(&self, cluster: &ClusterName) -> bool {
        let key = Key::Cluster(cluster.clone());
        self.world.is_behind(&key, Instant::now())
    }
}
