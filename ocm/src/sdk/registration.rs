//! The identities an agent gets, as they stand in the status of its ManagedClusterAddOn.

use crate::{
    api::addon::Subject,
    name::{AddonName, ClusterName},
};

/// OCM's default user and groups of an add-on's agent.
pub(crate) fn default_subject(addon: &AddonName, cluster: &ClusterName) -> Subject {
    Subject {
        user: addon.user(cluster, addon.as_str()),
        groups: vec![addon.cluster_group(cluster), addon.group()],
        organization_units: Vec::new(),
    }
}
