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
        ConfigReference, ManagedClusterAddOn,
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
    /// The object has changed and the change is not rolled out to this cluster.
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

/// Resolves the configuration of one cluster.
///
/// The references are in a status that the cluster may write, so each must also be configured in the
/// hub's own objects: a cluster must not read the configuration of another one.
pub(crate) fn settle(
    addon: &ManagedClusterAddOn,
    offer: Option<&ClusterManagementAddOn>,
    supported: &[ConfigGroupResource],
    object: impl Fn(&AddOnConfig) -> Option<Value>,
) -> Result<Settled, Waiting> {
    if !condition::is_true(addon.conditions(), condition::addon::CONFIGURED) {
        return Err(Waiting::NotConfigured);
    }
    let mut config = Config::default();
    let mut hashes = BTreeMap::new();
    for reference in addon.config_references() {
        let (named, hash) = desired(reference);
        hashes.insert(label(&named), hash.clone());
        let kind = ConfigGroupResource {
            group: named.group.clone(),
            resource: named.resource.clone(),
        };
        if !supported.contains(&kind) {
            continue;
        }
        if !is_offered(&named, addon, offer) {
            return Err(not_offered(reference, &named, offer));
        }
        let object = object(&named).ok_or_else(|| Waiting::Absent(label(&named)))?;
        if hash.is_empty() {
            return Err(Waiting::NoHash(label(&named)));
        }
        if spec_hash(&object) != hash {
            return Err(Waiting::NotRolledOut(label(&named)));
        }
        if named.resource == "addondeploymentconfigs" && config.deployment.is_none() {
            config.deployment = deployment(&object);
        }
        config.objects.push(object);
    }
    let annotation = (!hashes.is_empty()).then(|| serde_json::json!(hashes).to_string());
    Ok(Settled { config, annotation })
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

fn is_offered(
    named: &AddOnConfig,
    addon: &ManagedClusterAddOn,
    offer: Option<&ClusterManagementAddOn>,
) -> bool {
    let spec = offer.map(|offer| &offer.spec);
    let defaults = spec.into_iter().flat_map(|spec| &spec.default_configs);
    let placements = spec
        .into_iter()
        .flat_map(|spec| &spec.install_strategy.placements);
    addon
        .spec
        .configs
        .iter()
        .chain(defaults)
        .chain(placements.flat_map(|placement| &placement.configs))
        .any(|config| config == named)
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

    fn judge(addon: &ManagedClusterAddOn, object: Option<&Value>) -> Result<Settled, Waiting> {
        settle(addon, None, &supported(), |_| object.cloned())
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
        let settled = settle(&addon, None, &supported(), |named| {
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
            (addon(&hash, false), Some(&object), Waiting::NoOffer),
        ];
        for (addon, object, waiting) in cases {
            assert_eq!(judge(&addon, object), Err(waiting));
        }
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
            let judged = settle(&addon, Some(offer), &supported(), |_| Some(object()));
            judged.unwrap_err().needs_a_person()
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
        let judged = settle(&addon, Some(&offer), &supported(), |_| Some(object.clone()));
        let waiting = judged.unwrap_err();
        assert!(matches!(waiting, Waiting::Replaced(_)), "{waiting}");
        assert_eq!(waiting.needs_a_person(), None);
    }

    #[test]
    fn the_addons_own_offer_counts() {
        let offer = offer(&json!([named()]), false);
        let hash = spec_hash(&object());
        let settled = settle(&addon(&hash, false), Some(&offer), &supported(), |_| {
            Some(object())
        });
        assert!(settled.is_ok());
    }

    #[test]
    fn without_any_configuration_there_is_no_annotation() {
        let mut addon = addon("", false);
        addon.status.as_mut().unwrap().config_references.clear();
        assert_eq!(judge(&addon, None).unwrap().annotation, None);
    }
}
