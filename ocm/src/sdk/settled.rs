//! Whether the configuration of a cluster is settled: resolved, hashed, rolled out and existing.
//!
//! OCM stages a roll-out by changing the desired hash cluster by cluster. So the SDK renders with content
//! only while its hash is the desired one; otherwise the works stay as they are.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Config, hash::spec_hash};
use crate::{
    api::addon::{
        AddOnConfig, AddOnDeploymentConfigSpec, ClusterManagementAddOn, ConfigGroupResource,
        ConfigReference, ManagedClusterAddOn, NO_DEFAULT,
    },
    condition,
};

/// Why the works of a cluster have to wait.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Waiting {
    /// OCM has not resolved the configuration yet.
    #[error("the configuration is not resolved yet")]
    NotConfigured,
    /// A hash is not known yet.
    #[error("the hash of {0} is not known yet")]
    NoHash(String),
    /// The object does not exist.
    #[error("{0} does not exist")]
    Absent(String),
    /// OCM has not rolled the object, or its present content, out to this cluster yet.
    #[error("the content of {0} is not rolled out to this cluster yet")]
    NotRolledOut(String),
    /// The annotation of the cluster's add-on is not a valid namespace; only the old version of the API validates it.
    #[error("{0:?} is not the name of a namespace for the agent")]
    NoNamespace(String),
    /// The `ClusterManagementAddOn` is deleted or deleting; the cluster's add-on follows.
    #[error("the ClusterManagementAddOn was deleted, with its configurations")]
    NoOffer,
    /// Another configuration replaces this one but is not rolled out to this cluster yet.
    #[error(
        "{0} is no longer configured, and its replacement is not rolled out to this cluster yet"
    )]
    Replaced(String),
    /// The status names an object that neither the `ClusterManagementAddOn` nor the cluster's add-on configures.
    #[error("{0} is not one of the configurations for this cluster")]
    NotOffered(String),
}

impl Waiting {
    /// The reason for an Event, if an administrator must act.
    pub(crate) const fn needs_a_person(&self) -> Option<&'static str> {
        match self {
            Self::Absent(_) => Some("ConfigurationAbsent"),
            Self::NotOffered(_) => Some("ConfigurationNotOffered"),
            Self::NoNamespace(_) => Some("ConfigurationInvalid"),
            // Without a `ClusterManagementAddOn` the garbage collector is about to delete the add-on.
            Self::NotConfigured
            | Self::NoHash(_)
            | Self::NotRolledOut(_)
            | Self::Replaced(_)
            | Self::NoOffer => None,
        }
    }
}

/// A settled configuration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settled {
    /// The configuration to render with.
    pub(crate) config: Config,
    /// The annotation of works; none without a configuration.
    pub(crate) annotation: Option<String>,
}

/// What the hub's own objects configure for one cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Configured<'a> {
    /// The add-on on the cluster.
    pub(crate) addon: &'a ManagedClusterAddOn,
    /// The `ClusterManagementAddOn`.
    pub(crate) offer: Option<&'a ClusterManagementAddOn>,
    /// The configurations of the placement that selects the cluster.
    pub(crate) placed: &'a [AddOnConfig],
}

/// Resolves the configuration of one cluster.
///
/// The references are in a status that the cluster may write. So the configuration comes from the hub's own objects, and the
/// status only confirms that OCM has rolled it out: while a reference is missing or names another object, the works wait.
pub(crate) fn settle(
    configured: Configured<'_>,
    supported: &[ConfigGroupResource],
    object: impl Fn(&AddOnConfig) -> Option<Value>,
) -> Result<Settled, Waiting> {
    let Configured { addon, offer, .. } = configured;
    if !condition::is_true(addon.conditions(), condition::addon::CONFIGURED) {
        return Err(Waiting::NotConfigured);
    }
    // Hooks of a removal run without it, with the cluster's own configuration.
    if offer.is_none() && !addon.is_deleting() {
        return Err(Waiting::NoOffer);
    }
    let expected = configured.expected();
    let references = addon.config_references().iter().map(|it| (it, desired(it)));
    let references: Vec<_> = references.collect();
    let is_unexpected =
        |named: &AddOnConfig| supported.contains(&named.kind()) && !expected.contains(&named);
    let mut unexpected = references
        .iter()
        .filter(|(_, (named, _))| is_unexpected(named));
    if let Some((reference, (named, _))) = unexpected.clone().find(|it| !configured.offers(&it.1.0))
    {
        return Err(not_offered(reference, named, offer));
    }
    let mut config = Config::default();
    for named in expected
        .iter()
        .filter(|named| supported.contains(&named.kind()))
    {
        let hash = references.iter().find(|(_, (it, _))| it == *named);
        let (_, (_, hash)) = hash.ok_or_else(|| Waiting::NotRolledOut(label(named)))?;
        let object = object(named).ok_or_else(|| Waiting::Absent(label(named)))?;
        if hash.is_empty() {
            return Err(Waiting::NoHash(label(named)));
        }
        if spec_hash(&object) != *hash {
            return Err(Waiting::NotRolledOut(label(named)));
        }
        if named.resource == "addondeploymentconfigs" && config.deployment.is_none() {
            config.deployment = deployment(&object);
        }
        config.objects.push(object);
    }
    if let Some((_, (named, _))) = unexpected.next() {
        return Err(Waiting::NotRolledOut(label(named)));
    }
    let hashes = references
        .iter()
        .map(|(_, (named, hash))| (label(named), hash));
    let hashes: BTreeMap<_, _> = hashes.collect();
    let annotation = (!hashes.is_empty()).then(|| serde_json::json!(hashes).to_string());
    Ok(Settled { config, annotation })
}

impl<'a> Configured<'a> {
    /// The configurations for the cluster, as OCM computes them: of each kind those of the cluster's add-on, else those of
    /// the placement, else the defaults.
    fn expected(self) -> Vec<&'a AddOnConfig> {
        let defaults = self
            .offer
            .into_iter()
            .flat_map(|it| &it.spec.default_configs);
        let defaults = defaults.filter(|it| !["", NO_DEFAULT].contains(&it.name.as_str()));
        let mut expected = Vec::new();
        for level in [
            defaults.collect(),
            self.placed.iter().collect(),
            self.addon.spec.configs.iter().collect(),
        ] {
            let level: Vec<&AddOnConfig> = level;
            expected
                .retain(|it: &&AddOnConfig| level.iter().all(|above| above.kind() != it.kind()));
            for config in level {
                if !expected.contains(&config) {
                    expected.push(config);
                }
            }
        }
        expected
    }

    /// Whether the hub's own objects name this configuration, for this cluster or another one.
    fn offers(self, named: &AddOnConfig) -> bool {
        let spec = self.offer.map(|offer| &offer.spec);
        let defaults = spec.into_iter().flat_map(|spec| &spec.default_configs);
        let placements = spec
            .into_iter()
            .flat_map(|spec| &spec.install_strategy.placements);
        let placed = placements.flat_map(|placement| &placement.configs);
        let own = self.addon.spec.configs.iter();
        own.chain(defaults)
            .chain(placed)
            .any(|config| config == named)
    }
}

/// Why a reference is not configured on the hub: perhaps because it was replaced, and OCM has not rolled the replacement
/// out to this cluster yet.
fn not_offered(
    reference: &ConfigReference,
    named: &AddOnConfig,
    offer: Option<&ClusterManagementAddOn>,
) -> Waiting {
    if offer.is_none_or(|it| it.metadata.deletion_timestamp.is_some()) {
        return Waiting::NoOffer;
    }
    let applied = reference.last_applied_config.as_ref();
    let was_applied =
        applied.is_some_and(|it| (&it.namespace, &it.name) == (&named.namespace, &named.name));
    if was_applied {
        Waiting::Replaced(label(named))
    } else {
        Waiting::NotOffered(label(named))
    }
}

fn deployment(object: &Value) -> Option<AddOnDeploymentConfigSpec> {
    serde_json::from_value(object.get("spec")?.clone()).ok()
}

/// The desired configuration of a reference, with its hash.
pub(crate) fn desired(reference: &ConfigReference) -> (AddOnConfig, String) {
    let wanted = reference.desired_config.clone().unwrap_or_default();
    let named = AddOnConfig {
        group: reference.group.clone(),
        resource: reference.resource.clone(),
        namespace: wanted.namespace,
        name: wanted.name,
    };
    (named, wanted.spec_hash)
}

/// OCM's name of a configuration in the annotation of works, with two adjacent slashes if it has no
/// namespace.
fn label(config: &AddOnConfig) -> String {
    let AddOnConfig {
        group,
        resource,
        namespace,
        name,
    } = config;
    let dot = if group.is_empty() { "" } else { "." };
    format!("{resource}{dot}{group}/{namespace}/{name}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        api::addon::{ConfigSpecHash, Version},
        condition::Verdict,
    };

    fn named() -> AddOnConfig {
        AddOnConfig {
            group: "addon.open-cluster-management.io".to_owned(),
            resource: "addondeploymentconfigs".to_owned(),
            namespace: "s".to_owned(),
            name: "n".to_owned(),
        }
    }

    fn supported() -> Vec<ConfigGroupResource> {
        vec![ConfigGroupResource {
            group: named().group,
            resource: named().resource,
        }]
    }

    fn object() -> Value {
        json!({ "spec": { "agentInstallNamespace": "there" } })
    }

    fn addon(hash: &str, own: bool) -> ManagedClusterAddOn {
        let mut addon = ManagedClusterAddOn::default();
        if own {
            addon.spec.configs.push(named());
        }
        let status = addon.status.get_or_insert_default();
        let now = jiff::Timestamp::UNIX_EPOCH;
        status
            .conditions
            .push(Verdict::new("Configured", true, "R", "").onto(&[], now));
        status.config_references.push(ConfigReference {
            group: named().group,
            resource: named().resource,
            desired_config: Some(ConfigSpecHash {
                namespace: "s".to_owned(),
                name: "n".to_owned(),
                spec_hash: hash.to_owned(),
            }),
            ..ConfigReference::default()
        });
        addon
    }

    fn settle_with(
        addon: &ManagedClusterAddOn,
        offer: Option<&ClusterManagementAddOn>,
        placed: &[AddOnConfig],
    ) -> Result<Settled, Waiting> {
        let configured = Configured {
            addon,
            offer,
            placed,
        };
        settle(configured, &supported(), |_| Some(object()))
    }

    fn judge(addon: &ManagedClusterAddOn, object: Option<&Value>) -> Result<Settled, Waiting> {
        let offer = ClusterManagementAddOn::default();
        let configured = Configured {
            addon,
            offer: Some(&offer),
            placed: &[],
        };
        settle(configured, &supported(), |_| object.cloned())
    }

    #[test]
    fn a_rolled_out_configuration_is_settled() {
        let hash = spec_hash(&object());
        let settled = judge(&addon(&hash, true), Some(&object())).unwrap();
        let deployment = settled.config.deployment.unwrap();
        assert_eq!(deployment.agent_install_namespace, "there");
        let label = "addondeploymentconfigs.addon.open-cluster-management.io/s/n";
        assert_eq!(
            settled.annotation,
            Some(format!("{{\"{label}\":\"{hash}\"}}"))
        );
    }

    #[test]
    fn of_several_configurations_of_a_kind_the_first_counts() {
        let (first, other) = (
            object(),
            json!({ "spec": { "agentInstallNamespace": "no" } }),
        );
        let mut addon = addon(&spec_hash(&first), true);
        let mut named = named();
        named.name = "other".to_owned();
        addon.spec.configs.push(named);
        let references = &mut addon.status.as_mut().unwrap().config_references;
        let mut second = references[0].clone();
        second.desired_config = Some(ConfigSpecHash {
            namespace: "s".to_owned(),
            name: "other".to_owned(),
            spec_hash: spec_hash(&other),
        });
        references.push(second);
        let offer = ClusterManagementAddOn::default();
        let configured = Configured {
            addon: &addon,
            offer: Some(&offer),
            placed: &[],
        };
        let settled = settle(configured, &supported(), |named| {
            let it = if named.name == "n" { &first } else { &other };
            Some(it.clone())
        });
        let settled = settled.unwrap();
        let deployment = settled.config.deployment.unwrap();
        assert_eq!(deployment.agent_install_namespace, "there");
        // OCM compares the works with all of them.
        assert!(settled.annotation.unwrap().contains("/s/other"));
    }

    #[test]
    fn an_unsettled_configuration_waits_with_its_reason() {
        let hash = spec_hash(&object());
        let name = || "addondeploymentconfigs.addon.open-cluster-management.io/s/n".to_owned();
        let mut unknown = addon(&hash, true);
        unknown.status.as_mut().unwrap().conditions.clear();
        let object = object();
        let cases = [
            (unknown, Some(&object), Waiting::NotConfigured),
            (addon("", true), Some(&object), Waiting::NoHash(name())),
            (addon(&hash, true), None, Waiting::Absent(name())),
            (
                addon("older", true),
                Some(&object),
                Waiting::NotRolledOut(name()),
            ),
            (
                addon(&hash, false),
                Some(&object),
                Waiting::NotOffered(name()),
            ),
        ];
        for (addon, object, waiting) in cases {
            assert_eq!(judge(&addon, object), Err(waiting));
        }
        let without_offer = settle_with(&addon(&hash, false), None, &[]);
        assert_eq!(without_offer, Err(Waiting::NoOffer));
    }

    fn offer(configs: &Value, deleted: bool) -> ClusterManagementAddOn {
        let mut offer =
            json!({ "metadata": { "name": "a" }, "spec": { "defaultConfigs": configs } });
        if deleted {
            offer["metadata"]["deletionTimestamp"] = json!("2026-11-20T12:00:00Z");
        }
        let offer = serde_json::from_value::<kube::api::DynamicObject>(offer).unwrap();
        Version::V1Beta1.read_offer(offer)
    }

    #[test]
    fn forged_reference_is_reported_and_a_deleting_definition_is_not() {
        let addon = addon(&spec_hash(&object()), false);
        let reason = |offer: &ClusterManagementAddOn| {
            settle_with(&addon, Some(offer), &[])
                .unwrap_err()
                .needs_a_person()
        };
        let nothing = json!([]);
        assert_eq!(
            reason(&offer(&nothing, false)),
            Some("ConfigurationNotOffered")
        );
        assert_eq!(reason(&offer(&nothing, true)), None);
    }

    #[test]
    fn replaced_configuration_waits_for_rollout_silently() {
        let object = object();
        let mut addon = addon(&spec_hash(&object), false);
        let reference = &mut addon.status.as_mut().unwrap().config_references[0];
        reference.last_applied_config = reference.desired_config.clone();
        let mut another = named();
        another.name = "another".to_owned();
        let offer = offer(&json!([another]), false);
        let waiting = settle_with(&addon, Some(&offer), &[]).unwrap_err();
        assert!(matches!(waiting, Waiting::Replaced(_)), "{waiting}");
        assert_eq!(waiting.needs_a_person(), None);
    }

    #[test]
    fn the_addons_own_offer_counts() {
        let offer = offer(&json!([named()]), false);
        let hash = spec_hash(&object());
        assert!(settle_with(&addon(&hash, false), Some(&offer), &[]).is_ok());
    }

    #[test]
    fn without_any_configuration_there_is_no_annotation() {
        let mut addon = addon("", false);
        addon.status.as_mut().unwrap().config_references.clear();
        assert_eq!(judge(&addon, None).unwrap().annotation, None);
    }

    #[test]
    fn missing_reference_waits_instead_of_using_defaults() {
        let mut addon = addon("", true);
        addon.status.as_mut().unwrap().config_references.clear();
        let offer = offer(&json!([]), false);
        let judged = settle_with(&addon, Some(&offer), &[]);
        assert_eq!(judged, Err(Waiting::NotRolledOut(label(&named()))));
        addon.spec.configs.clear();
        let judged = settle_with(&addon, Some(&offer), &[named()]);
        assert_eq!(judged, Err(Waiting::NotRolledOut(label(&named()))));
        assert_eq!(
            settle_with(&addon, Some(&offer), &[]).unwrap().annotation,
            None
        );
        assert_eq!(settle_with(&addon, None, &[]), Err(Waiting::NoOffer));
    }

    #[test]
    fn only_the_configuration_with_precedence_is_accepted() {
        // The status names the default, which a configuration of the placement or of the cluster overrides.
        let mut addon = addon(&spec_hash(&object()), false);
        let mut other = named();
        other.name = "other".to_owned();
        let offer = offer(&json!([named()]), false);
        let waits = Err(Waiting::NotRolledOut(label(&other)));
        let placed = std::slice::from_ref(&other);
        assert_eq!(settle_with(&addon, Some(&offer), placed), waits);
        addon.spec.configs.push(other.clone());
        assert_eq!(settle_with(&addon, Some(&offer), &[]), waits);
        assert_eq!(settle_with(&addon, Some(&offer), &[named()]), waits);
        // The status names the one with precedence.
        addon.spec.configs = vec![named()];
        assert!(settle_with(&addon, Some(&offer), placed).is_ok());
    }

    #[test]
    fn reference_beside_the_expected_ones_waits() {
        let mut addon = addon(&spec_hash(&object()), true);
        let mut other = named();
        other.name = "other".to_owned();
        let offer = offer(&json!([other]), false);
        assert!(settle_with(&addon, Some(&offer), &[]).is_ok());
        let references = &mut addon.status.as_mut().unwrap().config_references;
        let mut second = references[0].clone();
        second.desired_config.as_mut().unwrap().name = "other".to_owned();
        references.push(second);
        let judged = settle_with(&addon, Some(&offer), &[]);
        assert_eq!(judged, Err(Waiting::NotRolledOut(label(&other))));
    }

    #[test]
    fn cluster_outside_the_batch_keeps_the_previous_reference() {
        // A progressive roll-out replaces the placement's configuration; this cluster still has the earlier one.
        let mut addon = addon(&spec_hash(&object()), false);
        let reference = &mut addon.status.as_mut().unwrap().config_references[0];
        reference.last_applied_config = reference.desired_config.clone();
        let mut next = named();
        next.name = "next".to_owned();
        let offer = offer(&json!([]), false);
        let judged = settle_with(&addon, Some(&offer), std::slice::from_ref(&next));
        assert_eq!(judged, Err(Waiting::Replaced(label(&named()))));
        // The status follows when OCM reaches the cluster.
        let reference = &mut addon.status.as_mut().unwrap().config_references[0];
        reference.desired_config.as_mut().unwrap().name = "next".to_owned();
        assert!(settle_with(&addon, Some(&offer), &[next]).is_ok());
    }
}
