//! The registration part of a `ManagedClusterAddOn`'s status: identities and namespace of the agent, the
//! supported configurations and the health mode.
//!
//! The SDK computes it from trusted input and compares it with the status, so it reverts writes of the
//! cluster. The agent may write two fields: the driver of a client of the hub's API server, and with
//! driver `token` its subject, which has only one valid value.

use jiff::Timestamp;

use super::{ConfigKind, HealthMode, Registration};
use crate::{
    api::addon::{
        AddOnDeploymentConfigSpec, CUSTOM_SIGNER, ConfigGroupResource, CustomSignerConfig,
        HealthCheck, KUBE_CLIENT, KubeClientConfig, ManagedClusterAddOn, ManagedClusterAddOnStatus,
        RegistrationConfig, Subject, Version,
    },
    condition::{self, Verdict},
    keys,
    name::{AddonName, ClusterName},
};

/// The driver of an agent with certificates.
pub(crate) const CSR: &str = "csr";
/// The driver of an agent with tokens.
pub(crate) const TOKEN: &str = "token";

/// OCM's default user and groups of an add-on's agent.
pub(crate) fn default_subject(addon: &AddonName, cluster: &ClusterName) -> Subject {
    Subject {
        user: addon.user(cluster, addon.as_str()),
        groups: vec![addon.cluster_group(cluster), addon.group()],
        organization_units: Vec::new(),
    }
}

/// The user name of an agent with a token.
pub(crate) fn service_account(addon: &AddonName, cluster: &ClusterName) -> String {
    format!("system:serviceaccount:{cluster}:{addon}-agent")
}

/// The kinds of configuration as the status lists them.
pub(crate) fn supported(kinds: &[ConfigKind]) -> Vec<ConfigGroupResource> {
    kinds.iter().map(ConfigKind::group_resource).collect()
}

/// The agent's namespace: the configuration's, else the annotation's, else OCM's default.
pub(crate) fn install_namespace(
    addon: &ManagedClusterAddOn,
    config: Option<&AddOnDeploymentConfigSpec>,
) -> String {
    let configured = config.map(|config| config.agent_install_namespace.as_str());
    let annotated = addon.annotation(keys::INSTALL_NAMESPACE);
    let namespace = [configured, annotated]
        .into_iter()
        .flatten()
        .find(|name| !name.is_empty());
    namespace
        .unwrap_or(keys::DEFAULT_INSTALL_NAMESPACE)
        .to_owned()
}

/// The input for the registration part of the status.
#[derive(Clone, Debug)]
pub(crate) struct Wanted<'a> {
    /// The add-on.
    pub(crate) addon: &'a AddonName,
    /// The cluster.
    pub(crate) cluster: &'a ClusterName,
    /// Kinds of configuration.
    pub(crate) supported: &'a [ConfigGroupResource],
    /// Identities.
    pub(crate) registrations: &'a [Registration],
    /// The health mode.
    pub(crate) health: HealthMode,
    /// The version in use.
    pub(crate) version: Version,
    /// Why the agent could not be given its permissions, if so.
    pub(crate) problem: Option<&'a str>,
}

/// The desired registration part, or `None` if the status has it.
///
/// Without a settled configuration (`namespace` is `None`) the current namespace stays; a first namespace
/// is not guessed, since each change makes the agent enrol again. The supported configurations are
/// written even then if the cluster names its own configurations, since OCM needs them first.
pub(crate) fn plan(
    wanted: &Wanted<'_>,
    live: &ManagedClusterAddOn,
    namespace: Option<&str>,
    now: Timestamp,
) -> Option<ManagedClusterAddOnStatus> {
    let status = live.status.clone().unwrap_or_default();
    let before = Some(status.namespace.as_str()).filter(|name| !name.is_empty());
    let Some(namespace) = namespace.or(before) else {
        let silent = live.spec.configs.is_empty() || status.supported_configs == wanted.supported;
        return (!silent).then(|| ManagedClusterAddOnStatus {
            supported_configs: wanted.supported.to_vec(),
            ..ManagedClusterAddOnStatus::default()
        });
    };
    let registrations = wanted.registrations.iter().enumerate();
    let registrations =
        registrations.map(|(index, it)| registration(wanted, it, status.registrations.get(index)));
    let desired = ManagedClusterAddOnStatus {
        conditions: vec![verdict(wanted).onto(&status.conditions, now)],
        supported_configs: wanted.supported.to_vec(),
        config_references: Vec::new(),
        registrations: registrations.collect(),
        namespace: namespace.to_owned(),
        health_check: Some(HealthCheck {
            mode: wanted.health.as_str().to_owned(),
        }),
    };
    (!is_reported(&desired, &status)).then_some(desired)
}

fn verdict(wanted: &Wanted<'_>) -> Verdict {
    let kind = condition::addon::REGISTRATION_APPLIED;
    if let Some(problem) = wanted.problem {
        let message = format!("Failed to set permission for hub agent: {problem}");
        return Verdict::new(kind, false, "SetPermissionFailed", message);
    }
    let (reason, message) = if wanted.registrations.is_empty() {
        ("NilRegistration", "The addon agent needs no registration")
    } else {
        (
            "SetPermissionApplied",
            "Registration of the addon agent is configured",
        )
    };
    Verdict::new(kind, true, reason, message)
}

fn is_reported(desired: &ManagedClusterAddOnStatus, live: &ManagedClusterAddOnStatus) -> bool {
    let is_current = |wanted| condition::is_reported(wanted, &live.conditions);
    desired.conditions.iter().all(is_current)
        && same_kinds(&desired.supported_configs, &live.supported_configs)
        && desired.registrations == live.registrations
        && desired.namespace == live.namespace
        && desired.health_check == live.health_check
}

/// A list with keys may come back in any order.
fn same_kinds(a: &[ConfigGroupResource], b: &[ConfigGroupResource]) -> bool {
    a.len() == b.len() && a.iter().all(|kind| b.contains(kind))
}

fn registration(
    wanted: &Wanted<'_>,
    entry: &Registration,
    live: Option<&RegistrationConfig>,
) -> RegistrationConfig {
    match entry {
        Registration::KubeClient => {
            let live = live.and_then(|live| live.kube_client.as_ref());
            RegistrationConfig {
                kind: KUBE_CLIENT.to_owned(),
                kube_client: Some(kube_client(wanted, live)),
                custom_signer: None,
            }
        }
        Registration::CustomSigner {
            signer_name,
            subject,
        } => RegistrationConfig {
            kind: CUSTOM_SIGNER.to_owned(),
            kube_client: None,
            custom_signer: Some(CustomSignerConfig {
                signer_name: signer_name.clone(),
                subject: Some(subject.clone()),
            }),
        },
    }
}

/// The initial driver `csr` saves the agent a write; an agent with tokens changes it.
fn kube_client(wanted: &Wanted<'_>, live: Option<&KubeClientConfig>) -> KubeClientConfig {
    if live.is_none_or(|live| live.driver != TOKEN) {
        // In v1alpha1 the driver has its own field, which only the agent writes.
        let driver = match wanted.version {
            Version::V1Beta1 => CSR.to_owned(),
            Version::V1Alpha1 => live.map(|live| live.driver.clone()).unwrap_or_default(),
        };
        return KubeClientConfig {
            driver,
            subject: Some(default_subject(wanted.addon, wanted.cluster)),
        };
    }
    let user = service_account(wanted.addon, wanted.cluster);
    let subject = live.and_then(|live| live.subject.clone());
    let subject = subject.filter(|subject| subject.user == user && subject.groups.is_empty());
    KubeClientConfig {
        driver: TOKEN.to_owned(),
        subject,
    }
}

#[cfg(test)]
mod tests;
