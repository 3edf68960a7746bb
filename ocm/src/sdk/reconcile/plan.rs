//! What to do about one cluster. Pure.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use crate::{
    api::addon::{AddOnConfig, ConfigGroupResource, GROUP, ManagedClusterAddOnStatus, Version},
    condition::{self, Verdict},
    keys,
    name::ClusterName,
    sdk::{
        Addon, Admission, Leaving, LeavingPhase, Target, hash, registration,
        settled::{self, Waiting},
        world::{ConfigObject, Observed},
    },
};

mod works;

pub(crate) use self::works::{Step, Works, numbered};

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
    match held(addon, target, observed) {
        Some(verdict) => Stage::Held { target, verdict },
        None => Stage::Served(target),
    }
}

/// Why the add-on does not serve a cluster, if so.
pub(crate) fn held(addon: &impl Addon, target: Target<'_>, observed: &Observed) -> Option<Verdict> {
    let degraded = |reason: String, message: String| {
        Verdict::new(condition::addon::DEGRADED, true, reason, message)
    };
    if uses_template(observed) {
        let message = "an AddOnTemplate is configured, so OCM itself deploys this add-on; remove it \
                       from the configuration to have the manager do it";
        return Some(degraded("ManagedByTemplate".to_owned(), message.to_owned()));
    }
    match addon.admit(target) {
        Admission::Serve => {}
        Admission::Hold { reason, message } => return Some(degraded(reason, message)),
    }
    let host = target.addon.hosting_cluster()?;
    let message = format!(
        "hosted mode (on cluster {host:?}) is not supported; remove the annotation {}",
        keys::HOSTING_CLUSTER
    );
    Some(degraded("HostedModeUnsupported".to_owned(), message))
}

/// Whether OCM's template controller plays our part for this cluster.
fn uses_template(observed: &Observed) -> bool {
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

/// What to write for a cluster.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Hashes of the cluster's own configurations are missing or old.
    pub(crate) hashes: bool,
    /// The registration part of the status, if it is not as it should be.
    pub(crate) registration: Option<ManagedClusterAddOnStatus>,
    /// The works.
    pub(crate) works: Works,
}

/// Decides what to write for a served cluster.
pub(crate) fn plan(
    addon: &impl Addon,
    version: Version,
    target: Target<'_>,
    observed: &Observed,
    configs: &impl Fn(&AddOnConfig) -> Option<Arc<ConfigObject>>,
    now: Timestamp,
) -> Plan {
    let supported = registration::supported(&addon.supported_configs());
    let object = |named: &AddOnConfig| configs(named).map(|config| config.raw.clone());
    let settled = settled::settle(target.addon, observed.offer.as_deref(), &supported, object);
    let namespace = settled.as_ref().ok().map(|settled| {
        registration::install_namespace(target.addon, settled.config.deployment.as_ref())
    });
    let wanted = registration::Wanted {
        addon: addon.name(),
        cluster: target.name,
        supported: &supported,
        registrations: &addon.registrations(target),
        health: addon.health_mode(),
    };
    Plan {
        hashes: lacks_hashes(target, &supported, configs),
        registration: registration::plan(&wanted, target.addon, namespace.as_deref(), now),
        works: match (settled, namespace) {
            (Ok(settled), Some(namespace)) => {
                let wish = works::Wish {
                    version,
                    target,
                    settled: &settled,
                };
                works::plan(addon, &wish, observed, &namespace).unwrap_or_else(Works::Refused)
            }
            (Ok(_), None) => Works::Keep(Waiting::NotConfigured),
            (Err(waiting), _) => Works::Keep(waiting),
        },
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
mod tests;
