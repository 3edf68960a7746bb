//! Plans the writes for one cluster. Pure.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use crate::{
    api::addon::{
        AddOnConfig, ConfigGroupResource, ManagedClusterAddOn, ManagedClusterAddOnStatus, Version,
    },
    condition::{self, Verdict},
    keys,
    name::{ClusterName, is_dns_label},
    sdk::{
        Addon, Admission, Hosts, RemovalInput, RemovalPhase, Target, finalizers, hash,
        hosting::Hosting,
        object_cache::{ConfigObject, Observed},
        registration,
        settled::{self, Configured, Settled, Waiting},
    },
};

mod works;

pub(crate) use self::works::{Step, WantedWork, Works, rendered};

/// The stage of an add-on on one cluster.
#[derive(Debug)]
pub(crate) enum Stage<'a> {
    /// OCM has not set the `ClusterManagementAddOn` as owner yet.
    Idle,
    /// There is neither add-on nor work.
    Removed,
    /// The add-on is being removed, or its cluster is not accepted.
    Removing(RemovalInput),
    /// The add-on does not serve the cluster.
    Blocked {
        /// The cluster.
        target: Target<'a>,
        /// The condition with the reason.
        verdict: Verdict,
        /// Whether to delete its works.
        remove_works: bool,
    },
    /// The add-on serves the cluster.
    Served(Target<'a>),
}

/// Determines the stage of a cluster.
pub(crate) fn stage<'a>(
    addon: &impl Addon,
    name: &'a ClusterName,
    observed: &'a Observed,
) -> Stage<'a> {
    let removing = |phase| {
        let works = observed.works.len();
        Stage::Removing(RemovalInput {
            cluster: name.clone(),
            phase,
            works,
        })
    };
    let Some(cluster_addon) = observed.addon.as_deref() else {
        if observed.works.is_empty() {
            return Stage::Removed;
        }
        return removing(RemovalPhase::AddonGone);
    };
    if cluster_addon.is_deleting() {
        return removing(RemovalPhase::AddonDeleting);
    }
    let Some(target) = observed.target(name) else {
        return removing(RemovalPhase::NotAdmitted);
    };
    if target.cluster.is_deleting() {
        return removing(RemovalPhase::ClusterDeleting);
    }
    if !target.cluster.is_admitted() {
        return removing(RemovalPhase::NotAdmitted);
    }
    if !cluster_addon.is_managed_by(addon.name()) {
        return Stage::Idle;
    }
    match blocked(addon, target, observed) {
        Some(verdict) => Stage::Blocked {
            target,
            verdict,
            remove_works: !uses_template(observed)
                && matches!(addon.admit(target), Admission::Refuse { .. }),
        },
        None => Stage::Served(target),
    }
}

/// The condition of the add-on on an existing cluster that is not accepted. Its `Available` may be outdated: OCM changes
/// it only when the cluster's lease has expired.
pub(crate) fn not_accepted<'a>(
    addon: &impl Addon,
    name: &'a ClusterName,
    observed: &'a Observed,
) -> Option<(Target<'a>, Verdict)> {
    let target = observed.target(name)?;
    if target.cluster.spec.hub_accepts_client
        || !target.addon.is_managed_by(addon.name())
        || uses_template(observed)
    {
        return None;
    }
    let message = format!(
        "the hub does not accept cluster {name}, so its agent is rejected and nothing is deployed there; accept it \
        with clusteradm accept --clusters {name}, or disable the add-on"
    );
    Some((target, degraded("ClusterNotAccepted", message)))
}

/// The condition with the reason why the add-on does not serve a cluster, if so.
pub(crate) fn blocked(
    addon: &impl Addon,
    target: Target<'_>,
    observed: &Observed,
) -> Option<Verdict> {
    if uses_template(observed) {
        let message = "an AddOnTemplate is configured, so OCM itself deploys this add-on; remove it from the \
        configuration to let the manager deploy";
        return Some(degraded("ManagedByTemplate", message));
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
    Some(degraded("HostedModeUnsupported", message))
}

fn degraded(reason: impl Into<String>, message: impl Into<String>) -> Verdict {
    Verdict::new(condition::addon::DEGRADED, true, reason, message)
}

/// Whether OCM's template controller deploys the add-on on this cluster.
pub(crate) fn uses_template(observed: &Observed) -> bool {
    let none = ManagedClusterAddOn::default();
    let addon = observed.addon.as_deref().unwrap_or(&none);
    configured(addon, observed).is_by_template()
}

fn configured<'a>(addon: &'a ManagedClusterAddOn, observed: &'a Observed) -> Configured<'a> {
    Configured {
        addon,
        offer: observed.offer.as_deref(),
        placed: &observed.placed,
    }
}

/// The input of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanInput<'a> {
    /// The version in use.
    pub(crate) version: Version,
    /// The cluster.
    pub(crate) cluster: &'a ClusterName,
    /// The observed state.
    pub(crate) observed: &'a Observed,
    /// The time.
    pub(crate) now: Timestamp,
}

/// The writes for a cluster.
#[derive(Debug)]
pub(crate) struct Plan {
    /// All finalizers, if they have to change.
    pub(crate) finalizers: Option<Vec<String>>,
    /// Whether hashes of the cluster's own configurations are missing or outdated.
    pub(crate) hashes: bool,
    /// The registration part of the status, if it has to change.
    pub(crate) registration: Option<ManagedClusterAddOnStatus>,
    /// The works.
    pub(crate) works: Works,
}

/// The configuration of a cluster and its agent's namespace, if they are settled.
pub(crate) fn settle(
    addon: &impl Addon,
    target: Target<'_>,
    observed: &Observed,
    configs: &impl Fn(&AddOnConfig) -> Option<Arc<ConfigObject>>,
) -> Result<Settled, Waiting> {
    let supported = registration::supported(&addon.supported_configs());
    let object = |named: &AddOnConfig| configs(named).map(|config| config.raw.clone());
    let settled = settled::settle(configured(target.addon, observed), &supported, object)?;
    if is_dns_label(&settled.namespace) {
        Ok(settled)
    } else {
        Err(Waiting::NoNamespace(settled.namespace))
    }
}

/// Plans the writes for a served cluster. `problem` is why the agent's permissions could not be applied, if so.
pub(crate) fn plan(
    addon: &impl Addon,
    input: PlanInput<'_>,
    target: Target<'_>,
    problem: Option<&str>,
    hosting: &Hosting,
    configs: &impl Fn(&AddOnConfig) -> Option<Arc<ConfigObject>>,
) -> Plan {
    let supported = registration::supported(&addon.supported_configs());
    let settled = settle(addon, target, input.observed, configs);
    let namespace = settled.as_ref().ok().map(|it| it.namespace.as_str());
    let wanted = registration::Wanted {
        addon: addon.name(),
        cluster: target.name,
        supported: &supported,
        registrations: &addon.registrations(target),
        health: addon.health_mode(),
        version: input.version,
        problem,
    };
    let registration = registration::plan(&wanted, target.addon, namespace, input.now);
    let (works, finalizers) = match settled {
        Err(waiting) => (Works::Keep(waiting), None),
        Ok(settled) => {
            let wish = WantedWork {
                input,
                target,
                addon: addon.name(),
                settled: &settled,
            };
            match works::plan(addon, &wish, hosting) {
                Err(error) => (Works::Refused(error), None),
                Ok((steps, wanted)) => {
                    let live = target.addon.metadata.finalizers.as_deref();
                    let changed = finalizers::plan(live.unwrap_or_default(), &wanted);
                    (Works::Change(steps), changed)
                }
            }
        }
    };
    Plan {
        finalizers,
        hashes: needs_hashes(target, &supported, configs),
        registration,
        works,
    }
}

fn needs_hashes(
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
pub(crate) mod tests;
