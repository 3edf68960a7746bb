//! Group `addon.open-cluster-management.io`: add-ons and their configuration.
//!
//! `ManagedClusterAddOn` and `ClusterManagementAddOn` are modelled as v1beta1 has them. Hubs before
//! OCM 1.2 serve v1alpha1 only: read and write through [`Version`], found by discovery once, and
//! never mix the two versions in one process (each read of the version that is not stored costs a
//! call of the conversion webhook).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::{keys, name::AddonName};

mod deployment_config;
mod version;

pub use deployment_config::{
    AddOnDeploymentConfig, AddOnDeploymentConfigSpec, ContainerResourceRequirements,
    CustomizedVariable, ImageMirror, NodePlacement, ProxyConfig,
};
pub use version::Version;

/// The group's name.
pub const GROUP: &str = "addon.open-cluster-management.io";
/// The reserved name that v1beta1 uses for a supported configuration without a default.
pub const NO_DEFAULT: &str = "__reserved_no_default__";

/// Spec of a `ManagedClusterAddOn`, which enables an add-on for one cluster.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "addon.open-cluster-management.io",
    version = "v1beta1",
    kind = "ManagedClusterAddOn",
    plural = "managedclusteraddons",
    namespaced,
    status = "ManagedClusterAddOnStatus",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase", default)]
pub struct ManagedClusterAddOnSpec {
    /// Configurations for this cluster; they win over those of placements and defaults.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub configs: Vec<AddOnConfig>,
}

/// Names a configuration object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct AddOnConfig {
    /// API group, empty for the core group.
    pub group: String,
    /// Plural name of the resource.
    pub resource: String,
    /// Namespace, empty if the resource is cluster-scoped.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// Status of a `ManagedClusterAddOn`.
///
/// The registration agent of the cluster may write all of it: everything here is a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ManagedClusterAddOnStatus {
    /// Conditions, see [`crate::condition::addon`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Kinds of configuration that the add-on understands (written by its manager).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub supported_configs: Vec<ConfigGroupResource>,
    /// Configurations to use, with the hashes that are rolled out (written by OCM).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub config_references: Vec<ConfigReference>,
    /// Identities that the agent gets (written by the manager, completed by the agent).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub registrations: Vec<RegistrationConfig>,
    /// Namespace of the agent on the cluster (written by the manager).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Which component checks the health of the agent (written by the manager).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_check: Option<HealthCheck>,
}

/// A kind of configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct ConfigGroupResource {
    /// API group.
    pub group: String,
    /// Plural name of the resource.
    pub resource: String,
}

/// A configuration in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigReference {
    /// API group.
    pub group: String,
    /// Plural name of the resource.
    pub resource: String,
    /// Generation that the manager saw last.
    pub last_observed_generation: i64,
    /// The content that the cluster should have now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_config: Option<ConfigSpecHash>,
    /// The content that the cluster was last observed to have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_applied_config: Option<ConfigSpecHash>,
}

/// Names one content of a configuration object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigSpecHash {
    /// Namespace, empty if the resource is cluster-scoped.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Hash of the spec; empty means that it is not known yet, so rendering has to wait.
    pub spec_hash: String,
}

/// One identity of the agent. Exactly one of the two parts is set: the one that `type` names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RegistrationConfig {
    /// `kubeClient` or `customSigner`.
    #[serde(rename = "type")]
    pub kind: String,
    /// A client of the hub's API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kube_client: Option<KubeClientConfig>,
    /// A certificate of a custom signer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_signer: Option<CustomSignerConfig>,
}

/// The type of a registration that is a client of the hub's API server.
pub const KUBE_CLIENT: &str = "kubeClient";
/// The type of a registration with a custom signer.
pub const CUSTOM_SIGNER: &str = "customSigner";

/// A client of the hub's API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeClientConfig {
    /// `csr` or `token`; the agent decides.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub driver: String,
    /// User and groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
}

/// A certificate of a custom signer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomSignerConfig {
    /// The signer's name, `domain/path`.
    pub signer_name: String,
    /// User, groups and units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
}

/// The subject of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Subject {
    /// The common name.
    pub user: String,
    /// Organizations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Organizational units.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub organization_units: Vec<String>,
}

/// Which component checks the health of the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HealthCheck {
    /// `Lease` or `Customized`.
    pub mode: String,
}

impl AddOnConfig {
    /// The kind of the object.
    pub fn kind(&self) -> ConfigGroupResource {
        ConfigGroupResource {
            group: self.group.clone(),
            resource: self.resource.clone(),
        }
    }
}

impl ConfigReference {
    /// The object that the cluster should use now, and the hash of its content.
    pub fn desired(&self) -> (AddOnConfig, String) {
        let desired = self.desired_config.clone().unwrap_or_default();
        let named = AddOnConfig {
            group: self.group.clone(),
            resource: self.resource.clone(),
            namespace: desired.namespace,
            name: desired.name,
        };
        (named, desired.spec_hash)
    }
}

impl ManagedClusterAddOn {
    /// The conditions, none if there is no status.
    pub fn conditions(&self) -> &[Condition] {
        let status = self.status.as_ref();
        status.map_or(&[], |status| &status.conditions)
    }

    /// The configurations to use, none if there is no status.
    pub fn config_references(&self) -> &[ConfigReference] {
        let status = self.status.as_ref();
        status.map_or(&[], |status| &status.config_references)
    }

    /// Whether it is being deleted.
    pub const fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// An annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        let annotations = self.metadata.annotations.as_ref()?;
        annotations.get(key).map(String::as_str)
    }

    /// Whether OCM has set the `ClusterManagementAddOn` as its owner; before that a manager must wait.
    pub fn is_managed_by(&self, addon: &AddonName) -> bool {
        let mut owners = self.metadata.owner_references.iter().flatten();
        owners.any(|owner| {
            owner.controller == Some(true)
                && owner.kind == "ClusterManagementAddOn"
                && owner.name == addon.as_str()
                && owner
                    .api_version
                    .starts_with("addon.open-cluster-management.io/")
        })
    }

    /// The cluster that hosts the agent, if the add-on is in hosted mode.
    pub fn hosting_cluster(&self) -> Option<&str> {
        self.annotation(keys::HOSTING_CLUSTER)
            .filter(|name| !name.is_empty())
    }
}

/// Spec of a `ClusterManagementAddOn`: an add-on that the hub offers.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "addon.open-cluster-management.io",
    version = "v1beta1",
    kind = "ClusterManagementAddOn",
    plural = "clustermanagementaddons",
    status = "ClusterManagementAddOnStatus",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterManagementAddOnSpec {
    /// Kinds of configuration with their defaults; the name may be [`NO_DEFAULT`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub default_configs: Vec<AddOnConfig>,
    /// How `ManagedClusterAddOns` are created.
    pub install_strategy: InstallStrategy,
}

impl ClusterManagementAddOnSpec {
    /// The default configurations: entries without an object only allow its kind.
    pub fn defaults(&self) -> impl Iterator<Item = &AddOnConfig> {
        let defaults = self.default_configs.iter();
        defaults.filter(|it| !["", NO_DEFAULT].contains(&it.name.as_str()))
    }
}

/// How `ManagedClusterAddOns` are created: by users (`Manual`) or by OCM (`Placements`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstallStrategy {
    /// `Manual` or `Placements`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The placements, for `Placements`; this model omits the roll-out strategies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub placements: Vec<PlacementStrategy>,
}

impl Default for InstallStrategy {
    fn default() -> Self {
        Self {
            kind: "Manual".to_owned(),
            placements: Vec::new(),
        }
    }
}

impl InstallStrategy {
    /// Whether OCM creates and deletes the `ManagedClusterAddOns`.
    pub fn is_placements(&self) -> bool {
        self.kind == "Placements"
    }
}

/// One placement of an add-on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlacementStrategy {
    /// Namespace of the Placement.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Configurations for its clusters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub configs: Vec<AddOnConfig>,
}

/// Status of a `ClusterManagementAddOn`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterManagementAddOnStatus {
    /// Defaults in use with their hashes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub default_config_references: Vec<ConfigReference>,
}
