//! Whether the configuration of a cluster is settled: resolved, hashed, rolled out and existing.
//!
//! OCM stages a roll-out by changing the desired hash cluster by cluster. So the SDK renders with content
//! only while its hash is the desired one; otherwise the works stay as they are.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Config, hash::spec_hash, registration};
use crate::{
    api::addon::{
        AddOnConfig, AddOnDeploymentConfigSpec, ClusterManagementAddOn, ConfigGroupResource,
        ConfigReference, GROUP, ManagedClusterAddOn,
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
    /// The agent's namespace on the cluster, not checked yet.
    pub(crate) namespace: String,
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

/// The configuration of the add-on on one cluster, for authors.
///
/// The hub's own objects decide it. The status of the `ManagedClusterAddOn`, which the cluster may write, can only delay it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// The objects of the supported kinds, of each kind those with precedence; none until OCM has resolved them and has
    /// rolled out these very objects to the cluster.
    pub objects: Option<Vec<AddOnConfig>>,
    /// Whether an `AddOnTemplate` is configured: then OCM deploys the add-on, and the SDK does not.
    pub by_template: bool,
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
    let addon = configured.addon;
    let resolved = configured.resolved(supported)?;
    let mut config = Config::default();
    for (named, hash) in &resolved {
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
    let references = addon.config_references().iter();
    let references = references.map(ConfigReference::desired);
    let hashes = references.map(|(named, hash)| (label(&named), hash));
    let hashes: BTreeMap<_, _> = hashes.collect();
    let annotation = (!hashes.is_empty()).then(|| serde_json::json!(hashes).to_string());
    let namespace = registration::install_namespace(addon, config.deployment.as_ref());
    Ok(Settled {
        config,
        annotation,
        namespace,
    })
}

impl<'a> Configured<'a> {
    /// The configuration, for authors.
    pub(crate) fn configuration(self, supported: &[ConfigGroupResource]) -> Configuration {
        let resolved = self.resolved(supported).ok();
        Configuration {
            objects: resolved.map(|it| it.into_iter().map(|(named, _)| named).collect()),
            by_template: self.is_by_template(),
        }
    }

    /// The configurations to use, with the hashes that OCM has rolled out, once the status names the same objects.
    ///
    /// An `AddOnTemplate` that is no longer expected delays them too: OCM deploys until it has removed the reference.
    fn resolved(
        self,
        supported: &[ConfigGroupResource],
    ) -> Result<Vec<(AddOnConfig, String)>, Waiting> {
        let Self { addon, offer, .. } = self;
        if !condition::is_true(addon.conditions(), condition::addon::CONFIGURED) {
            return Err(Waiting::NotConfigured);
        }
        // Hooks of a removal run without it, with the cluster's own configuration.
        if offer.is_none() && !addon.is_deleting() {
            return Err(Waiting::NoOffer);
        }
        let references = addon.config_references().iter();
        let references: Vec<_> = references.map(|it| (it, it.desired())).collect();
        let understood = |named: &AddOnConfig| supported.contains(&named.kind());
        let counts = |named: &AddOnConfig| understood(named) || is_template(named);
        for (reference, (named, _)) in &references {
            if counts(named) && !self.offers(named) {
                return Err(not_offered(reference, named, offer));
            }
        }
        // A cluster that is removed may have left its placement, and hooks need the configuration that it still has.
        let expected = if addon.is_deleting() {
            references.iter().map(|(_, (named, _))| named).collect()
        } else {
            self.expected()
        };
        let others = references.iter().map(|(_, (named, _))| named);
        let mut others = others.filter(|it| counts(it));
        let mut resolved = Vec::new();
        for named in expected.iter().filter(|it| understood(it)) {
            let mut references = references.iter().map(|(_, desired)| desired);
            let reference = references.find(|(it, _)| it == *named);
            let reference = reference.ok_or_else(|| Waiting::NotRolledOut(label(named)))?;
            resolved.push(reference.clone());
        }
        match others.find(|it| !expected.contains(it)) {
            Some(other) => Err(Waiting::NotRolledOut(label(other))),
            None => Ok(resolved),
        }
    }

    /// Whether OCM's template controller deploys the add-on on this cluster.
    ///
    /// Only the status still has the template of a cluster that has left its placement and is being removed. So a reference
    /// counts then, if the hub offers it.
    pub(crate) fn is_by_template(self) -> bool {
        let references = self.addon.config_references().iter();
        let mut references = references.map(|it| it.desired().0);
        self.expected().into_iter().any(is_template)
            || self.addon.is_deleting() && references.any(|it| is_template(&it) && self.offers(&it))
    }

    /// The configurations for the cluster, as OCM computes them: of each kind those of the cluster's add-on, else those of
    /// the placement, else the defaults.
    fn expected(self) -> Vec<&'a AddOnConfig> {
        let offer = self.offer.into_iter();
        let defaults = offer.flat_map(|it| it.spec.defaults());
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

fn is_template(named: &AddOnConfig) -> bool {
    named.group == GROUP && named.resource == "addontemplates"
}

fn deployment(object: &Value) -> Option<AddOnDeploymentConfigSpec> {
    serde_json::from_value(object.get("spec")?.clone()).ok()
}

/// OCM's name of a configuration in the annotation of works, with two adjacent slashes if it has no
/// namespace.
fn label(config: &AddOnConfig) -> String {
    let (resource, group) = (&config.resource, &config.group);
    let dot = if group.is_empty() { "" } else { "." };
    format!(
        "{resource}{dot}{group}/{}/{}",
        config.namespace, config.name
    )
}

#[cfg(test)]
mod tests;
