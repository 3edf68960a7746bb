//! What the SDK sees of the hub, for authors who decide by it.

use std::sync::Arc;

use tokio::sync::watch;

use crate::{
    api::{
        addon::{ClusterManagementAddOn, ManagedClusterAddOn},
        cluster::ManagedCluster,
    },
    name::ClusterName,
};

/// A window on the hub: clusters, this add-on on them, and its ClusterManagementAddOn.
///
/// Cheap to clone. It is filled by [`super::run`], so an author needs no watches of these objects.
#[derive(Clone, Debug, Default)]
pub struct View {}

impl View {
    /// An empty view, to be handed to [`super::run`].
    pub fn new() -> Self {
        todo!()
    }

    /// Changes with everything that changes here; wait on it, then look.
    pub fn revision(&self) -> watch::Receiver<u64> {
        todo!()
    }

    /// Whether everything has been listed once. Before that an absent object means nothing.
    pub fn is_synced(&self) -> bool {
        todo!()
    }

    /// All clusters by name, without managed fields.
    pub fn clusters(&self) -> Vec<(ClusterName, Arc<ManagedCluster>)> {
        todo!()
    }

    /// One cluster.
    pub fn cluster(&self, name: &ClusterName) -> Option<Arc<ManagedCluster>> {
        todo!()
    }

    /// This add-on on all clusters that have it.
    pub fn addons(&self) -> Vec<(ClusterName, Arc<ManagedClusterAddOn>)> {
        todo!()
    }

    /// This add-on on one cluster.
    pub fn addon(&self, name: &ClusterName) -> Option<Arc<ManagedClusterAddOn>> {
        todo!()
    }

    /// The ClusterManagementAddOn.
    pub fn offer(&self) -> Option<Arc<ClusterManagementAddOn>> {
        todo!()
    }
}
