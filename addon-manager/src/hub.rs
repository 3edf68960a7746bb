//! The state of the hub, read from the SDK's view.

use std::collections::{BTreeMap, BTreeSet};

use argocd::availability::{AGENT_CONNECTED, AGENT_DISCONNECTED};
use ocm::{
    api::{
        addon::{AddOnConfig, ClusterManagementAddOn, ManagedClusterAddOn},
        cluster::ManagedCluster,
    },
    condition,
    name::AddonName,
    sdk::{Configuration, View},
};

pub use facts::{Addon, Cluster, Install, Own, World, is_of_kubernetes, mode_of};

use crate::{decisions::Records, keys};

/// Reads the view. None until every kind is listed: before that, the absence of an object proves nothing.
pub fn read(view: &View, name: &AddonName) -> Option<World> {
    if !view.is_synced() {
        return None;
    }
    let clusters = view.clusters().into_iter();
    let addons = view.addons().into_iter();
    Some(World {
        clusters: clusters
            .map(|(name, object)| (name.to_string(), cluster(&object)))
            .collect(),
        addons: addons
            .map(|(cluster, object)| {
                let configuration = view.configured(&cluster);
                (cluster.to_string(), addon(&object, name, configuration))
            })
            .collect(),
        install: view.offer().map(|offer| install(&offer)),
        left: BTreeSet::new(),
        former: BTreeMap::new(),
    })
}

/// The facts that decisions use of a ManagedCluster.
pub fn cluster(object: &ManagedCluster) -> Cluster {
    let claims = object
        .status
        .iter()
        .flat_map(|status| &status.cluster_claims);
    Cluster {
        uid: object.metadata.uid.clone().unwrap_or_default(),
        accepted: object.spec.hub_accepts_client,
        deleting: object.is_deleting(),
        lost: object.is_lost(),
        labels: object.metadata.labels.clone().unwrap_or_default(),
        claims: claims
            .map(|claim| (claim.name.clone(), claim.value.clone()))
            .collect(),
    }
}

/// The facts that decisions use of a `ManagedClusterAddOn`. The configuration is the SDK's: the cluster may write the status.
pub fn addon(
    object: &ManagedClusterAddOn,
    name: &AddonName,
    configuration: Configuration,
) -> Addon {
    let annotation = |key| object.annotation(key).map(str::to_owned);
    let available = condition::find(object.conditions(), condition::addon::AVAILABLE);
    let created = object.metadata.creation_timestamp.as_ref();
    Addon {
        uid: object.metadata.uid.clone().unwrap_or_default(),
        version: object.metadata.resource_version.clone().unwrap_or_default(),
        created: created.map(|time| time.0),
        deleting: object.is_deleting(),
        adopted: object.is_managed_by(name),
        recorded: annotation(keys::MODE),
        made_for_label: object.annotation(keys::MADE_FOR_LABEL).is_some(),
        confirmed: annotation(keys::CONFIRM_MODE),
        confirm_delete: annotation(keys::CONFIRM_DELETE),
        revoked: annotation(keys::REVOKED),
        rekey: annotation(keys::REKEY),
        argocd: annotation(keys::ARGOCD),
        argocd_place: annotation(keys::ARGOCD_PLACE),
        keeping_since: object
            .annotation(keys::KEEPING_SINCE)
            .and_then(|time| time.parse().ok()),
        unidentified: false,
        missing: BTreeMap::new(),
        configured: configuration.objects.is_some(),
        config: config(configuration.objects.unwrap_or_default()),
        by_template: configuration.by_template,
        was_connected: available.is_some_and(|live| implies_past_session(&live.reason)),
    }
}

/// Whether this reason of `Available` proves that the agent had a session.
pub fn implies_past_session(reason: &str) -> bool {
    reason == AGENT_CONNECTED || reason == AGENT_DISCONNECTED
}

/// The resource of `AddOnDeploymentConfigs`.
pub(crate) const DEPLOYMENT_CONFIGS: &str = "addondeploymentconfigs";
const TEMPLATES: &str = "addontemplates";

fn config(objects: Vec<AddOnConfig>) -> Option<(String, String)> {
    let mut objects = objects.into_iter();
    let config = objects.find(|it| it.resource == DEPLOYMENT_CONFIGS)?;
    Some((config.namespace, config.name))
}

/// The facts that decisions use of the `ClusterManagementAddOn`.
pub fn install(offer: &ClusterManagementAddOn) -> Install {
    let mut defaults = offer.spec.defaults();
    Install {
        by_placements: offer.spec.install_strategy.is_placements(),
        by_template: defaults.any(|config| config.resource == TEMPLATES),
    }
}

/// Whether a `ClusterManagementAddOn` offers `AddOnTemplates`, with or without a default. Ours never does.
pub fn offers_templates(offer: &ClusterManagementAddOn) -> bool {
    let mut defaults = offer.spec.default_configs.iter();
    defaults.any(|config| config.resource == TEMPLATES)
}

/// Remembers which clusters had the add-on, to distinguish a first enrolment from a repeated one.
#[derive(Debug, Default)]
pub struct Memory {
    seen: BTreeSet<String>,
}

impl Memory {
    /// Restores the memory from recorded decisions. A cluster that was removed had no add-on any more.
    pub fn from_records(records: &Records) -> Self {
        let kept = records.iter();
        let kept = kept.filter(|(_, record)| record.details.removed.is_none());
        Self {
            seen: kept.map(|(name, _)| name.clone()).collect(),
        }
    }

    /// Adds to `world` the clusters that lost the add-on.
    pub fn recall(&mut self, world: &mut World) {
        self.seen.extend(world.addons.keys().cloned());
        // Forget clusters that neither have the add-on nor ask for it.
        let asks = |cluster: &Cluster| cluster.label().and_then(mode_of).is_some();
        let World {
            clusters, addons, ..
        } = &*world;
        self.seen.retain(|name| {
            let cluster = clusters.get(name);
            cluster.is_some_and(|cluster| addons.contains_key(name) || asks(cluster))
        });
        world.left = self
            .seen
            .iter()
            .filter(|name| !world.addons.contains_key(*name))
            .cloned()
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decisions::Record;

    fn world(addon: Option<Addon>) -> World {
        let labels = [(keys::MODE.to_owned(), "managed".to_owned())].into();
        let cluster = Cluster {
            labels,
            ..Cluster::default()
        };
        World {
            clusters: [("c".to_owned(), cluster)].into(),
            addons: addon
                .map(|addon| ("c".to_owned(), addon))
                .into_iter()
                .collect(),
            ..World::default()
        }
    }

    #[test]
    fn hostile_status_changes_neither_mode_nor_template() {
        let reference = |resource: &str| {
            serde_json::json!({
                "group": "addon.open-cluster-management.io", "resource": resource,
                "desiredConfig": { "namespace": "hostile", "name": "hostile", "specHash": "h" },
            })
        };
        let object = serde_json::json!({
            "apiVersion": "addon.open-cluster-management.io/v1beta1", "kind": "ManagedClusterAddOn",
            "metadata": { "name": keys::ADDON, "namespace": "c" },
            "spec": {},
            "status": {
                "conditions": [{
                    "type": "Configured", "status": "True", "reason": "R", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
                "configReferences": [reference(DEPLOYMENT_CONFIGS), reference(TEMPLATES)],
            },
        });
        let object: ManagedClusterAddOn = serde_json::from_value(object).unwrap();
        let name = AddonName::new(keys::ADDON).unwrap();
        let unresolved = addon(&object, &name, Configuration::default());
        assert!(!unresolved.configured && !unresolved.by_template);
        assert_eq!(unresolved.config, None);

        let named = AddOnConfig {
            group: "addon.open-cluster-management.io".to_owned(),
            resource: DEPLOYMENT_CONFIGS.to_owned(),
            namespace: "hub".to_owned(),
            name: "mode".to_owned(),
        };
        let configuration = Configuration {
            objects: Some(vec![named]),
            by_template: false,
        };
        let resolved = addon(&object, &name, configuration);
        assert!(resolved.configured);
        let expected = Some(("hub".to_owned(), "mode".to_owned()));
        assert_eq!(resolved.config, expected);
    }

    #[test]
    fn a_lost_add_on_differs_from_one_that_never_existed() {
        let mut memory = Memory::default();
        let mut never = world(None);
        memory.recall(&mut never);
        assert!(never.left.is_empty());
        memory.recall(&mut world(Some(Addon::default())));
        let mut lost = world(None);
        memory.recall(&mut lost);
        assert_eq!(lost.left, ["c".to_owned()].into());
    }

    #[test]
    fn record_of_a_removed_cluster_is_no_memory_of_a_lost_add_on() {
        let mut record = Record::default();
        let left = |record: &Record| {
            let records = [("c".to_owned(), record.clone())].into();
            let mut imported = world(None);
            Memory::from_records(&records).recall(&mut imported);
            imported.left.len()
        };
        assert_eq!(left(&record), 1);
        record.details.removed = Some(jiff::Timestamp::UNIX_EPOCH);
        assert_eq!(left(&record), 0);
    }

    #[test]
    fn opting_out_clears_the_memory_of_a_lost_add_on() {
        let mut memory = Memory::default();
        memory.recall(&mut world(Some(Addon::default())));
        let mut out = world(None);
        out.clusters
            .values_mut()
            .for_each(|cluster| cluster.labels.clear());
        memory.recall(&mut out);
        let mut back = world(None);
        memory.recall(&mut back);
        assert!(back.left.is_empty());
    }
}
mod facts;
