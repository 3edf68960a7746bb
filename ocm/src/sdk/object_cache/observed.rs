//! The observed state of one cluster.

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::Value;

use crate::{
    api::{
        addon::{AddOnConfig, ClusterManagementAddOn, ManagedClusterAddOn},
        cluster::ManagedCluster,
        work::ResourceIdentifier,
    },
    keys,
    name::{AddonName, ClusterName},
    sdk::{
        Target, WorkReport, permissions,
        place::{self, Place, Purpose},
        render,
    },
};

/// The observed state of one cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    /// The cluster.
    pub(crate) cluster: Option<Arc<ManagedCluster>>,
    /// The add-on there.
    pub(crate) addon: Option<Arc<ManagedClusterAddOn>>,
    /// The cluster that should host the agent, if it exists.
    pub(crate) host: Option<Arc<ManagedCluster>>,
    /// Works with the add-on's label, in the cluster's namespace and in those of its hosts.
    pub(crate) works: Vec<Arc<Work>>,
    /// Namespaces of works whose cluster no longer exists, so that no work agent deletes the works.
    pub(crate) abandoned: BTreeSet<String>,
    /// The Role and the `RoleBinding` of the agent.
    pub(crate) permissions: permissions::Live,
    /// The `ClusterManagementAddOn`.
    pub(crate) offer: Option<Arc<ClusterManagementAddOn>>,
    /// The configurations of the placement that selects the cluster.
    pub(crate) placed: Vec<AddOnConfig>,
}

impl Observed {
    /// The cluster with its add-on, if both exist.
    pub(crate) fn target<'a>(&'a self, name: &'a ClusterName) -> Option<Target<'a>> {
        Some(Target {
            name,
            cluster: self.cluster.as_deref()?,
            addon: self.addon.as_deref()?,
        })
    }

    /// The works of one purpose in one place, by number.
    pub(crate) fn deploys<'a>(
        &'a self,
        addon: &'a AddonName,
        cluster: &'a ClusterName,
        place: &'a Place,
    ) -> impl Iterator<Item = (usize, &'a Work)> {
        self.titled(addon, cluster, place)
            .filter_map(|(purpose, work)| match purpose {
                Purpose::Deploy(number) => Some((number, work)),
                Purpose::Hook => None,
            })
    }

    /// The work with hooks in one place.
    pub(crate) fn hooks<'a>(
        &'a self,
        addon: &'a AddonName,
        cluster: &'a ClusterName,
        place: &'a Place,
    ) -> Option<&'a Work> {
        self.titled(addon, cluster, place)
            .find(|(purpose, _)| *purpose == Purpose::Hook)
            .map(|(_, work)| work)
    }

    fn titled<'a>(
        &'a self,
        addon: &'a AddonName,
        cluster: &'a ClusterName,
        place: &'a Place,
    ) -> impl Iterator<Item = (Purpose, &'a Work)> {
        let hosted_for = place.is_hosting().then_some(cluster);
        let here = place.namespace(cluster).as_str();
        let works = self.works.iter();
        let works = works.filter(move |work| work.report.namespace == here);
        works.filter_map(move |work| {
            let title = place::title(addon, &work.report.name)?;
            (title.hosted_for.as_ref() == hosted_for).then_some((title.purpose, work.as_ref()))
        })
    }
}

/// A work without its objects; only their sizes are kept, to save memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Work {
    /// Name, generation and status.
    pub(crate) report: WorkReport,
    /// The resourceVersion.
    pub(crate) resource_version: String,
    /// The finalizers.
    pub(crate) finalizers: Vec<String>,
    /// The cluster whose agent is hosted with it, by OCM's label.
    pub(crate) hosted_label: Option<String>,
    /// Whether it is being deleted.
    pub(crate) deleting: bool,
    /// When it was deleted, by the hub's clock.
    pub(crate) deleted_at: Option<Timestamp>,
    /// The configuration it was rendered from.
    pub(crate) annotation: Option<String>,
    /// The UID of its controlling owner.
    pub(crate) owner: Option<String>,
    /// A digest of its spec.
    pub(crate) digest: String,
    /// Its objects with their sizes.
    pub(crate) objects: BTreeSet<ResourceIdentifier>,
}

impl Work {
    /// Whether it belongs to an earlier `ManagedClusterAddOn` than the one with this UID.
    pub(crate) fn is_old(&self, uid: &str) -> bool {
        self.owner.as_deref().is_some_and(|owner| owner != uid)
    }

    /// Reads a work. An unreadable status counts as none.
    pub(crate) fn read(object: DynamicObject) -> Self {
        let DynamicObject {
            metadata, mut data, ..
        } = object;
        let spec = data.get_mut("spec").map(Value::take).unwrap_or_default();
        let status = data.get_mut("status").map(Value::take).unwrap_or_default();
        let owners = metadata.owner_references.unwrap_or_default();
        let mut owners = owners.into_iter();
        let owner = owners.find(|owner| owner.controller == Some(true));
        let annotations = metadata.annotations.unwrap_or_default();
        let labels = metadata.labels.unwrap_or_default();
        Self {
            report: WorkReport {
                name: metadata.name.unwrap_or_default(),
                namespace: metadata.namespace.unwrap_or_default(),
                hosted: labels.contains_key(keys::ADDON_NAMESPACE),
                created: metadata.creation_timestamp.map(|time| time.0),
                generation: metadata.generation.unwrap_or_default(),
                status: serde_json::from_value(status).unwrap_or_default(),
            },
            finalizers: metadata.finalizers.unwrap_or_default(),
            hosted_label: labels.get(keys::ADDON_NAMESPACE).cloned(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            deleted_at: metadata.deletion_timestamp.map(|time| time.0),
            annotation: annotations.get(keys::CONFIG_SPEC_HASH).cloned(),
            owner: owner.map(|owner| owner.uid),
            digest: render::spec_digest(&spec),
            objects: render::identifiers(&spec),
        }
    }
}
