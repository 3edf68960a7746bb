//! What to do about one cluster. Pure.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use crate::{
    api::addon::{AddOnConfig, ConfigGroupResource, GROUP, ManagedClusterAddOnStatus, Version},
    condition::{self, Verdict},
    keys,
    name::{ClusterName, is_dns_label},
    sdk::{
        Addon, Admission, Hosts, Leaving, LeavingPhase, Target, finalizers, hash,
        hosting::Hosting,
        object_cache::{ConfigObject, Observed},
        registration,
        settled::{self, Settled, Waiting},
    },
};

mod works;

pub(crate) use self::works::{Step, WantedWork, Works, rendered};

/// How far a cluster is.
#[derive(Debug)]
pub(crate) enum Stage<'a> {
    /// OCM has not put the add-on under its `ClusterManagementAddOn` yet.
    Idle,
    /// There is neither add-on nor work.
    Left,
    /// The add-on goes, or has to stay away.
    Leaving(Leaving),
    /// The add-on does not serve the cluster.
    Held {
        /// The cluster.
        target: Target<'a>,
        /// Why.
        verdict: Verdict,
        /// Whether it loses what it has.
        clears: bool,
    },
    /// The add-on serves the cluster.
    Served(Target<'a>),
}

/// Finds out how far a cluster is.
pub(crate) fn stage<'a>(
    addon: &impl Addon,
    name: &'a ClusterName,
    observed: &'a Observed,
) -> Stage<'a> {
    let leaving = |phase| {
        let works = observed.works.len();
        Stage::Leaving(Leaving {
            cluster: name.clone(),
            phase,
            works,
        })
    };
    let Some(cluster_addon) = observed.addon.as_deref() else {
        let gone = observed.works.is_empty();
        return if gone {
            Stage::Left
        } else {
            leaving(LeavingPhase::AddonGone)
        };
    };
    if cluster_addon.is_deleting() {
        return leaving(LeavingPhase::AddonDeleting);
    }
    let Some(cluster) = observed.cluster.as_deref() else {
        return leaving(LeavingPhase::NotAdmitted);
    };
    if cluster.is_deleting() {
        return leaving(LeavingPhase::ClusterDeleting);
    }
    if !cluster.is_admitted() {
        return leaving(LeavingPhase::NotAdmitted);
    }
    if !cluster_addon.is_managed_by(addon.name()) {
        return Stage::Idle;
    }
    let target = Target {
        name,
        cluster,
        addon: cluster_addon,
    };
    match blocked(addon, target, observed) {
        Some(verdict) => Stage::Held {
            target,
            verdict,
            clears: !uses_template(observed)
                && matches!(addon.admit(target), Admission::Refuse { .. }),
        },
        None => Stage::Served(target),
    }
}

/// What is said of the add-on on a cluster that is there and not accepted. Its `Available` may tell of better times: OCM
/// itself changes it only when the cluster's lease has run out.
pub(crate) fn not_accepted<'a>(
    addon: &impl Addon,
    name: &'a ClusterName,
    observed: &'a Observed,
) -> Option<(Target<'a>, Verdict)> {
    let (cluster, cluster_addon) = observed.cluster.as_deref().zip(observed.addon.as_deref())?;
    let target = Target {
        name,
        cluster,
        addon: cluster_addon,
    };
    if cluster.spec.hub_accepts_client
        || !cluster_addon.is_managed_by(addon.name())
        || uses_template(observed)
    {
        return None;
    }
    let message = format!(
        "the hub does not accept cluster {name}, so its agent is rejected and nothing is deployed there; accept it \
        with clusteradm accept --clusters {name}, or disable the add-on"
    );
    let verdict = Verdict::new(
        condition::addon::DEGRADED,
        true,
        "ClusterNotAccepted",
        message,
    );
    Some((target, verdict))
}

/// Why the add-on does not serve a cluster, if so.
pub(crate) fn blocked(
    addon: &impl Addon,
    target: Target<'_>,
    observed: &Observed,
) -> Option<Verdict> {
    let degraded = |reason: String, message: String| {
        Verdict::new(condition::addon::DEGRADED, true, reason, message)
    };
    if uses_template(observed) {
        let message = "an AddOnTemplate is configured, so OCM itself deploys this add-on; remove it from the \
        configuration to let the manager deploy";
        return Some(degraded("ManagedByTemplate".to_owned(), message.to_owned()));
    }
    match addon.admit(target) {
        Admission::Serve => {}
        Admission::Hold { reason, message } | Admission::Refuse { reason, message } => {
            return Some(degraded(reason, message));
        }
    }
    let host = target.addon.hosting_cluster()?;
    if addon.hosts() != Hosts::None {
        return None;
    }
    let message = format!(
        "hosted mode (on cluster {host:?}) is not supported; remove the annotation {}",
        keys::HOSTING_CLUSTER
    );
    Some(degraded("HostedModeUnsupported".to_owned(), message))
}

/// Whether OCM's template controller plays our part for this cluster.
pub(crate) fn uses_template(observed: &Observed) -> bool {
    let template = |group: &str, resource: &str| group == GROUP && resource == "addontemplates";
    let addon = observed.addon.iter();
    let referred = addon.clone().flat_map(|addon| addon.config_references());
    let own = addon.flat_map(|addon| &addon.spec.configs);
    let defaults = observed
        .offer
        .iter()
        .flat_map(|offer| &offer.spec.default_configs);
    let defaults = defaults.filter(|config| config.name != crate::api::addon::NO_DEFAULT);
    referred
        .into_iter()
        .any(|reference| template(&reference.group, &reference.resource))
        || own
            .chain(defaults)
            .any(|config| template(&config.group, &config.resource))
}

/// A look at a cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look<'a> {
    /// The version in use.
    pub(crate) version: Version,
    /// The cluster.
    pub(crate) target: Target<'a>,
    /// What is known of it.
    pub(crate) observed: &'a Observed,
    /// The time.
    pub(crate) now: Timestamp,
    /// Why the agent could not be given its permissions, if so.
    pub(crate) problem: Option<&'a str>,
}

/// What to write for a cluster.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The finalizers, all of them, if they are not as they should be.
    pub(crate) finalizers: Option<Vec<String>>,
    /// Hashes of the cluster's own configurations are missing or old.
    pub(crate) hashes: bool,
    /// The registration part of the status, if it is not as it should be.
    pub(crate) registration: Option<ManagedClusterAddOnStatus>,
    /// The works.
    pub(crate) works: Works,
}

/// The configuration of a cluster and its agent's namespace, if they are settled.
pub(crate) fn settle(
    addon: &impl Addon,
    look: Look<'_>,
    configs: &impl Fn(&AddOnConfig) -> Option<Arc<ConfigObject>>,
) -> Result<(Settled, String), Waiting> {
    let supported = registration::supported(&addon.supported_configs());
    let object = |named: &AddOnConfig| configs(named).map(|config| config.raw.clone());
    let (cluster_addon, offer) = (look.target.addon, look.observed.offer.as_deref());
    let settled = settled::settle(cluster_addon, offer, &supported, object)?;
    let namespace =
        registration::install_namespace(cluster_addon, settled.config.deployment.as_ref());
    if is_dns_label(&namespace) {
        Ok((settled, namespace))
    } else {
        Err(Waiting::NoNamespace(namespace))
    }
}

/// Decides what to write for a served cluster.
pub(crate) fn plan(
    addon: &impl Addon,
    look: Look<'_>,
    hosting: &Hosting,
    configs: &impl Fn(&AddOnConfig) -> Option<Arc<ConfigObject>>,
) -> Plan {
    let Look {
        version,
        target,
        now,
        problem,
        ..
    } = look;
    let supported = registration::supported(&addon.supported_configs());
    let settled = settle(addon, look, configs);
    let namespace = settled
        .as_ref()
        .ok()
        .map(|(_, namespace)| namespace.as_str());
    let wanted = registration::Wanted {
        addon: addon.name(),
        cluster: target.name,
        supported: &supported,
        registrations: &addon.registrations(target),
        health: addon.health_mode(),
        version,
        problem,
    };
    let registration = registration::plan(&wanted, target.addon, namespace, now);
    let (works, finalizers) = match settled {
        Err(waiting) => (Works::Keep(waiting), None),
        Ok((settled, namespace)) => {
            let wish = WantedWork {
                look,
                addon: addon.name(),
                settled: &settled,
            };
            match works::plan(addon, &wish, hosting, &namespace) {
                Err(error) => (Works::Refused(error), None),
                Ok(decided) => {
                    let live = target.addon.metadata.finalizers.as_deref();
                    let wanted = finalizers::plan(live.unwrap_or_default(), decided.finalizers);
                    (Works::Change(decided.steps), wanted)
                }
            }
        }
    };
    Plan {
        finalizers,
        hashes: lacks_hashes(target, &supported, configs),
        registration,
        works,
    }
}

fn lacks_hashes(
    target: Target<'_>,
    supported: &[ConfigGroupResource],
    configs: &impl Fn(&AddOnConfig) -> Option<Arc<ConfigObject>>,
) -> bool {
    let raw = json!({
        "metadata": { "resourceVersion": "" },
        "spec": target.addon.spec,
        "status": { "configReferences": target.addon.config_references() },
    });
    let live = |named: &AddOnConfig| configs(named).map(|config| config.live.clone());
    hash::addon_patch(&raw, supported, live).is_some()
}

#[cfg(test)]
mod hosted_tests;
#[cfg(test)]
mod rollout_tests;
#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;
