//! What is known of one cluster.

use std::{collections::BTreeMap, sync::Arc};

use kube::api::DynamicObject;
use serde_json::Value;

use crate::{
    api::{
        addon::{ClusterManagementAddOn, ManagedClusterAddOn},
        cluster::ManagedCluster,
        work::ResourceIdentifier,
    },
    keys,
    sdk::{WorkReport, render},
};

/// What is known of one cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    /// The cluster.
    pub(crate) cluster: Option<Arc<ManagedCluster>>,
    /// The add-on there.
    pub(crate) addon: Option<Arc<ManagedClusterAddOn>>,
    /// Works with the add-on's label, by name.
    pub(crate) works: Vec<Arc<Work>>,
    /// The `ClusterManagementAddOn`.
    pub(crate) offer: Option<Arc<ClusterManagementAddOn>>,
}

/// A work without its objects: they are measured and forgotten when it is read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Work {
    /// Name, generation and status.
    pub(crate) report: WorkReport,
    /// The version.
    pub(crate) resource_version: String,
    /// Whether it is being deleted.
    pub(crate) deleting: bool,
    /// The configuration it was rendered from.
    pub(crate) annotation: Option<String>,
    /// The UID of its controlling owner.
    pub(crate) owner: Option<String>,
    /// A digest of its spec.
    pub(crate) digest: String,
    /// Its objects with their sizes.
    pub(crate) held: BTreeMap<ResourceIdentifier, usize>,
}

impl Work {
    /// Reads a work. A status that cannot be read is no status.
    pub(crate) fn read(object: DynamicObject) -> Self {
        let DynamicObject {
            metadata, mut data, ..
        } = object;
        let spec = data.get_mut("spec").map(Value::take).unwrap_or_default();
        let status = data.get_mut("status").map(Value::take).unwrap_or_default();
        let owners = metadata.owner_references.unwrap_or_default();
        let owner = owners
            .into_iter()
            .find(|owner| owner.controller == Some(true));
        let annotations = metadata.annotations.unwrap_or_default();
        Self {
            report: WorkReport {
                name: metadata.name.unwrap_or_default(),
                created: metadata.creation_timestamp.map(|time| time.0),
                generation: metadata.generation.unwrap_or_default(),
                status: serde_json::from_value(status).unwrap_or_default(),
            },
            resource_version: metadata.resource_version.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            annotation: annotations.get(keys::CONFIG_SPEC_HASH).cloned(),
            owner: owner.map(|owner| owner.uid),
            digest: render::spec_digest(&spec),
            held: render::held(&spec),
        }
    }
}
