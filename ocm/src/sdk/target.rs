//! A cluster with the add-on, and the author's settings for it.

use std::collections::BTreeSet;

use kube::api::ApiResource;

use super::registration;
use crate::{
    api::{
        addon::{ConfigGroupResource, ManagedClusterAddOn, Subject},
        cluster::ManagedCluster,
    },
    name::{AddonName, ClusterName},
};

/// A cluster with the add-on enabled.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The cluster's name, which is also its namespace on the hub.
    pub name: &'a ClusterName,
    /// The cluster.
    pub cluster: &'a ManagedCluster,
    /// The add-on there, in the v1beta1 model.
    pub addon: &'a ManagedClusterAddOn,
}

/// Whether the add-on serves a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It does.
    Serve,
    /// It does not: the SDK keeps the works and sets `Degraded`.
    Hold {
        /// The condition's reason, in camel case.
        reason: String,
        /// The condition's message: the cause and the next step.
        message: String,
    },
    /// It does not: the SDK deletes the works and sets `Degraded`. The `ManagedClusterAddOn` stays, with
    /// the condition.
    Refuse {
        /// The condition's reason, in camel case.
        reason: String,
        /// The condition's message: the cause and the next step.
        message: String,
    },
}

/// A kind of configuration objects on the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigKind(pub ApiResource);

impl ConfigKind {
    /// The configuration that every add-on may take.
    pub fn addon_deployment_config() -> Self {
        Self(ApiResource::erase::<crate::api::addon::AddOnDeploymentConfig>(&()))
    }

    /// The kind, as the status of an add-on lists it.
    pub(crate) fn group_resource(&self) -> ConfigGroupResource {
        let (group, resource) = (self.0.group.clone(), self.0.plural.clone());
        ConfigGroupResource { group, resource }
    }
}

/// Which component checks the health of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthMode {
    /// OCM's registration agent, by a lease that the agent renews on its cluster.
    Lease,
    /// The author, in [`Addon::conditions`](super::Addon::conditions).
    Customized,
}

impl HealthMode {
    /// The text in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lease => "Lease",
            Self::Customized => "Customized",
        }
    }
}

/// An identity of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registration {
    /// A client of the hub's API server with OCM's default user and groups.
    KubeClient,
    /// A certificate of the author's custom signer.
    CustomSigner {
        /// The signer's name, `domain/path`.
        signer_name: String,
        /// The certificate's subject: at most two groups and two units.
        subject: Subject,
    },
}

impl Registration {
    /// A custom signer with OCM's default user and groups of one cluster.
    pub fn custom_signer(
        signer_name: impl Into<String>,
        addon: &AddonName,
        cluster: &ClusterName,
    ) -> Self {
        let subject = registration::default_subject(addon, cluster);
        Self::CustomSigner {
            signer_name: signer_name.into(),
            subject,
        }
    }
}

/// Which clusters may host agents of others (hosted mode).
///
/// A `ManagedClusterAddOn` names its host in an annotation, which OCM may have copied from the
/// ManagedCluster, where the cluster itself may write. A host runs all objects that it gets, so list only
/// clusters that are intended as hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Hosts {
    /// None: the add-on has no hosted mode, and a cluster that requests it is not served.
    #[default]
    None,
    /// Only these clusters.
    Only(BTreeSet<ClusterName>),
    /// Every accepted cluster; for hubs whose clusters trust each other.
    Any,
}

impl Hosts {
    /// Whether a cluster may host agents of others.
    pub fn admit(&self, host: &ClusterName) -> bool {
        match self {
            Self::None => false,
            Self::Only(hosts) => hosts.contains(host),
            Self::Any => true,
        }
    }
}
