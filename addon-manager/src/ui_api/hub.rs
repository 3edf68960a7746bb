//! The facts that the API shows: of the principal, and of the SDK's view. A trait, so that tests need neither.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

use ocm::{
    api::{addon::ManagedClusterAddOn, cluster::ManagedCluster},
    name::ClusterName,
    sdk::View,
};
use principal::{Changes, Cursor, Delivery, Inventory, Traffic};
use serde_json::Value;
use tokio::sync::watch;

/// Reads facts; the methods about Applications are those of [`Inventory`].
pub trait Hub: Debug + Send + Sync + 'static {
    /// Whether all clusters are known.
    fn is_synced(&self) -> bool;
    /// The clusters with the add-on.
    fn enrolled(&self) -> Vec<ClusterName>;
    /// All clusters.
    fn clusters(&self) -> Vec<(ClusterName, Arc<ManagedCluster>)>;
    /// One cluster.
    fn cluster(&self, name: &ClusterName) -> Option<Arc<ManagedCluster>>;
    /// The add-on of one cluster.
    fn addon(&self, name: &ClusterName) -> Option<Arc<ManagedClusterAddOn>>;
    /// The Applications that changed after `cursor`; none until the hub's objects are read.
    fn changes(&self, cursor: Cursor, limit: usize) -> Option<Changes>;
    /// One Application.
    fn application(&self, namespace: &str, name: &str) -> Option<Value>;
    /// The Applications of this name.
    fn namesakes(&self, name: &str, limit: usize) -> Vec<Value>;
    /// An AppProject of Argo CD's namespace, with its global projects.
    fn project(&self, name: &str) -> Option<Value>;
    /// The last changes of an Application, newest first.
    fn deliveries(&self, namespace: &str, name: &str) -> Vec<Delivery>;
    /// Sessions and reports by cluster.
    fn traffic(&self) -> BTreeMap<String, Traffic>;
}

/// The facts of this process. Clusters are known only while it leads.
#[derive(Clone, Debug)]
pub struct Live {
    /// The principal's.
    pub inventory: Inventory,
    /// The SDK's view, while this replica leads.
    pub view: watch::Receiver<Option<View>>,
}

impl Live {
    fn view(&self) -> Option<View> {
        self.view.borrow().clone()
    }
}

impl Hub for Live {
    fn is_synced(&self) -> bool {
        self.view().is_some_and(|view| view.is_synced())
    }

    fn enrolled(&self) -> Vec<ClusterName> {
        let addons = self.view().map(|view| view.addons());
        let addons = addons.unwrap_or_default().into_iter();
        addons.map(|(name, _)| name).collect()
    }

    fn clusters(&self) -> Vec<(ClusterName, Arc<ManagedCluster>)> {
        self.view().map(|view| view.clusters()).unwrap_or_default()
    }

    fn cluster(&self, name: &ClusterName) -> Option<Arc<ManagedCluster>> {
        self.view()?.cluster(name)
    }

    fn addon(&self, name: &ClusterName) -> Option<Arc<ManagedClusterAddOn>> {
        self.view()?.addon(name)
    }

    fn changes(&self, cursor: Cursor, limit: usize) -> Option<Changes> {
        self.inventory.changes(cursor, limit)
    }

    fn application(&self, namespace: &str, name: &str) -> Option<Value> {
        self.inventory.application(namespace, name)
    }

    fn namesakes(&self, name: &str, limit: usize) -> Vec<Value> {
        self.inventory.namesakes(name, limit)
    }

    fn project(&self, name: &str) -> Option<Value> {
        self.inventory.project(name)
    }

    fn deliveries(&self, namespace: &str, name: &str) -> Vec<Delivery> {
        self.inventory.deliveries(namespace, name)
    }

    fn traffic(&self) -> BTreeMap<String, Traffic> {
        self.inventory.traffic()
    }
}
