//! The configuration that every add-on may take: values, and where and how its agent runs.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ResourceRequirements, Toleration};
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// Spec of an `AddOnDeploymentConfig`: the configuration that every add-on may take.
///
/// v1alpha1 is served by every hub and stored by all; the two versions are the same.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "addon.open-cluster-management.io",
    version = "v1alpha1",
    kind = "AddOnDeploymentConfig",
    plural = "addondeploymentconfigs",
    namespaced,
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase", default)]
pub struct AddOnDeploymentConfigSpec {
    /// Values by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub customized_variables: Vec<CustomizedVariable>,
    /// Where the agent runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_placement: Option<NodePlacement>,
    /// Where its images come from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub registries: Vec<ImageMirror>,
    /// Proxies on its way out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_config: Option<ProxyConfig>,
    /// Its namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub agent_install_namespace: String,
    /// Resources of its containers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_requirements: Vec<ContainerResourceRequirements>,
}

impl AddOnDeploymentConfigSpec {
    /// A variable by name.
    pub fn variable(&self, name: &str) -> Option<&str> {
        let variables = &self.customized_variables;
        variables
            .iter()
            .find(|variable| variable.name == name)
            .map(|v| v.value.as_str())
    }
}

/// A value with a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CustomizedVariable {
    /// Name.
    pub name: String,
    /// Value.
    pub value: String,
}

/// Where an agent runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodePlacement {
    /// Labels of nodes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints to tolerate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
}

/// Replaces one image registry (or the beginning of an image's name) by another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImageMirror {
    /// What to use.
    pub mirror: String,
    /// What it replaces; empty replaces everything before the last part of the name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
}

/// Proxies on an agent's way out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProxyConfig {
    /// For `http://`.
    #[serde(rename = "httpProxy", skip_serializing_if = "String::is_empty")]
    pub http_proxy: String,
    /// For `https://`.
    #[serde(rename = "httpsProxy", skip_serializing_if = "String::is_empty")]
    pub https_proxy: String,
    /// Where none is used.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub no_proxy: String,
    /// The proxy's CA certificates, PEM in base64.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ca_bundle: String,
}

/// Resources of some containers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerResourceRequirements {
    /// `resource:name:container`, each of them may be `*`.
    #[serde(rename = "containerID")]
    pub container_id: String,
    /// The resources.
    pub resources: ResourceRequirements,
}
