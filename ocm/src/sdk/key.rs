//! The keys of the work queue.

use prometheus_client::encoding::EncodeLabelValue;

use crate::name::ClusterName;

/// A key of the work queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// One cluster.
    Cluster(ClusterName),
    /// One certificate request.
    Request(String),
    /// The hashes of configurations in the `ClusterManagementAddOn`.
    Configs,
}

/// The kind of a reconcile.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, EncodeLabelValue)]
pub(crate) enum Controller {
    Cluster,
    Request,
    Configs,
}

impl Key {
    /// The kind of its reconciles, and the name of its object.
    pub(crate) fn title(&self) -> (Controller, &str) {
        match self {
            Self::Cluster(cluster) => (Controller::Cluster, cluster.as_str()),
            Self::Request(name) => (Controller::Request, name),
            Self::Configs => (Controller::Configs, "ClusterManagementAddOn"),
        }
    }
}
