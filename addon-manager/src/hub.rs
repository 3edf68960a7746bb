//! The state of the hub, read from the SDK's view.

use std::collections::{BTreeMap, BTreeSet};

use ocm::{
    api::{
        addon::{ClusterManagementAddOn, ConfigReference, ManagedClusterAddOn},
        cluster::ManagedCluster,
    },
    condition,
    name::AddonName,
    sdk::View,
};

pub use facts::{Addon, Cluster, Install, Own, World, is_of_kubernetes, mode_of};
use principal::Mode;

use crate::{addon::conditions, keys};

/// The step that resolves an API error, for errors that a retry does not resolve.
pub fn next_step(error: &kube::Error) -> Option<&'static str> {
    let kube::Error::Api(status) = error else {
        return None;
    };
    if status.is_forbidden() {
        // A new program may need a permission that an old chart does not grant.
        return Some(
            "upgrade the Helm release: its chart grants this program the rights that it needs",
        );
    }
    // We write objects by name, so only the kind or the namespace can be missing.
    let no_kind = status.is_not_found();
    no_kind.then_some("install Argo CD on the hub, or set its namespace")
}

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
            .map(|(cluster, object)| (cluster.to_string(), addon(&object, name)))
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

/// The facts that decisions use of a `ManagedClusterAddOn`.
pub fn addon(object: &ManagedClusterAddOn, name: &AddonName) -> Addon {
    let references = object.config_references();
    let available = condition::find(object.conditions(), condition::addon::AVAILABLE);
    Addon {
        uid: object.metadata.uid.clone().unwrap_or_default(),
        deleting: object.is_deleting(),
        adopted: object.is_managed_by(name),
        recorded: object.annotation(keys::MODE).map(str::to_owned),
        recalled: None,
        made_for_label: object.annotation(keys::MADE_FOR_LABEL).is_some(),
        confirmed: object.annotation(keys::CONFIRM_MODE).map(str::to_owned),
        confirm_delete: object.annotation(keys::CONFIRM_DELETE).map(str::to_owned),
        revoked: object.annotation(keys::REVOKED).is_some(),
        rekey: object.annotation(keys::REKEY).map(str::to_owned),
        config: references
            .iter()
            .find(|it| it.resource == DEPLOYMENT_CONFIGS)
            .and_then(config),
        configured: condition::is_true(object.conditions(), condition::addon::CONFIGURED),
        by_template: references
            .iter()
            .any(|reference| reference.resource == TEMPLATES)
            || object
                .spec
                .configs
                .iter()
                .any(|config| config.resource == TEMPLATES),
        was_connected: available.is_some_and(|live| conditions::implies_past_session(&live.reason)),
    }
}

const DEPLOYMENT_CONFIGS: &str = "addondeploymentconfigs";
const TEMPLATES: &str = "addontemplates";

fn config(reference: &ConfigReference) -> Option<(String, String)> {
    let desired = reference.desired_config.as_ref()?;
    Some((desired.namespace.clone(), desired.name.clone()))
}

/// The facts that decisions use of the `ClusterManagementAddOn`.
pub fn install(offer: &ClusterManagementAddOn) -> Install {
    let defaults = &offer.spec.default_configs;
    let template = |name: &str| name != ocm::api::addon::NO_DEFAULT && !name.is_empty();
    Install {
        by_placements: offer.spec.install_strategy.is_placements(),
        by_template: defaults
            .iter()
            .any(|config| config.resource == TEMPLATES && template(&config.name)),
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
    seen: BTreeMap<String, Seen>,
    /// Kept while the ManagedCluster exists, so that opting out and in again does not bypass a blocked change of mode.
    modes: Modes,
}

/// The last mode of each cluster.
pub type Modes = BTreeMap<String, InstalledBefore>;

/// The last mode of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledBefore {
    /// The mode.
    pub mode: Mode,
    /// UID of the ManagedCluster: another cluster of the same name did not have this mode.
    pub uid: String,
    /// UID of the `ManagedClusterAddOn` that recorded it last.
    pub addon: String,
}

#[derive(Debug)]
struct Seen {
    uid: String,
    recorded: Option<String>,
}

impl Memory {
    /// Restores the memory from recorded modes.
    pub fn from_modes(modes: Modes) -> Self {
        let had = |(name, had): (&String, &InstalledBefore)| {
            let seen = Seen {
                uid: had.addon.clone(),
                recorded: Some(had.mode.as_str().to_owned()),
            };
            (name.clone(), seen)
        };
        Self {
            seen: modes.iter().map(had).collect(),
            modes,
        }
    }

    /// The current or last mode of each cluster whose ManagedCluster exists.
    pub const fn modes(&self) -> &Modes {
        &self.modes
    }

    /// Adds to `world` the facts that only earlier observations show: clusters that lost the add-on, and modes
    /// that were wiped. (`clusteradm addon enable` on an existing add-on replaces all of its annotations.)
    pub fn recall(&mut self, world: &mut World) {
        for (name, addon) in &mut world.addons {
            let before = self.seen.get(name).filter(|seen| seen.uid == addon.uid);
            if addon.recorded.is_none() {
                addon.recalled = before.and_then(|seen| seen.recorded.clone());
            }
            let recorded = addon.recorded.clone().or_else(|| addon.recalled.clone());
            self.seen.insert(
                name.clone(),
                Seen {
                    uid: addon.uid.clone(),
                    recorded,
                },
            );
        }
        let recorded = world.addons.iter().filter_map(|(name, addon)| {
            let uid = world.clusters.get(name)?.uid.clone();
            let mode = addon.mode()?;
            let addon = addon.uid.clone();
            Some((name.clone(), InstalledBefore { mode, uid, addon }))
        });
        self.modes.extend(recorded);
        self.modes.retain(|name, had| {
            let cluster = world.clusters.get(name);
            cluster.is_some_and(|cluster| cluster.uid == had.uid)
        });
        let former = self.modes.iter();
        world.former = former.map(|(name, had)| (name.clone(), had.mode)).collect();
        // Forget clusters that neither have the add-on nor ask for it.
        let asks = |cluster: &Cluster| cluster.label().and_then(mode_of).is_some();
        let World {
            clusters, addons, ..
        } = &*world;
        self.seen.retain(|name, _| {
            let cluster = clusters.get(name);
            cluster.is_some_and(|cluster| addons.contains_key(name) || asks(cluster))
        });
        world.left = self
            .seen
            .keys()
            .filter(|name| !world.addons.contains_key(*name))
            .cloned()
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permanent_api_errors_have_a_next_step_and_transient_ones_none() {
        let refused = |code: u16, reason: &str| {
            let status = kube::core::Status::failure("", reason).with_code(code);
            next_step(&kube::Error::Api(Box::new(status)))
        };
        assert!(
            refused(403, "Forbidden")
                .unwrap()
                .contains("upgrade the Helm release")
        );
        assert!(
            refused(404, "NotFound")
                .unwrap()
                .contains("install Argo CD")
        );
        assert_eq!(refused(409, "Conflict"), None);
        assert_eq!(refused(500, "InternalError"), None);
    }

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

    fn recorded(mode: Option<&str>, uid: &str) -> Addon {
        Addon {
            uid: uid.to_owned(),
            recorded: mode.map(str::to_owned),
            ..Addon::default()
        }
    }

    #[test]
    fn a_wiped_mode_is_recalled_for_the_same_object_only() {
        let mut memory = Memory::default();
        memory.recall(&mut world(Some(recorded(Some("autonomous"), "1"))));
        let mut wiped = world(Some(recorded(None, "1")));
        memory.recall(&mut wiped);
        assert_eq!(wiped.addons["c"].recalled.as_deref(), Some("autonomous"));
        let mut other = world(Some(recorded(None, "2")));
        memory.recall(&mut other);
        assert_eq!(other.addons["c"].recalled, None);
    }

    #[test]
    fn a_lost_add_on_differs_from_one_that_never_existed() {
        let mut memory = Memory::default();
        let mut never = world(None);
        memory.recall(&mut never);
        assert!(never.left.is_empty());
        memory.recall(&mut world(Some(recorded(None, "1"))));
        let mut lost = world(None);
        memory.recall(&mut lost);
        assert_eq!(lost.left, ["c".to_owned()].into());
    }

    #[test]
    fn the_mode_of_a_cluster_is_known_until_it_is_removed() {
        let mut memory = Memory::default();
        memory.recall(&mut world(Some(recorded(Some("managed"), "1"))));
        let mut out = world(None);
        out.clusters
            .values_mut()
            .for_each(|cluster| cluster.labels.clear());
        memory.recall(&mut out);
        assert_eq!(out.former.get("c"), Some(&Mode::Managed));
        let kept = memory.modes().clone();
        memory.recall(&mut World::default());
        let mut new = world(None);
        memory.recall(&mut new);
        assert_eq!(new.former.get("c"), None);

        let mut wiped = world(Some(recorded(None, "1")));
        Memory::from_modes(kept.clone()).recall(&mut wiped);
        assert_eq!(wiped.addons["c"].recalled.as_deref(), Some("managed"));
        let mut another = world(Some(recorded(None, "2")));
        Memory::from_modes(kept.clone()).recall(&mut another);
        assert_eq!(another.addons["c"].recalled, None);
        let mut after_a_restart = Memory::from_modes(kept);
        after_a_restart.recall(&mut new);
        assert_eq!(new.former.get("c"), Some(&Mode::Managed));
        new.clusters.get_mut("c").unwrap().uid = "another".to_owned();
        after_a_restart.recall(&mut new);
        assert_eq!(new.former.get("c"), None, "it is another cluster");
    }

    #[test]
    fn opting_out_clears_the_memory_of_a_lost_add_on() {
        let mut memory = Memory::default();
        memory.recall(&mut world(Some(recorded(None, "1"))));
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
