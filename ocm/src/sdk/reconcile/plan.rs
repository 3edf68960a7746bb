//! What to do about one cluster. Pure.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    api::{
        addon::{AddOnConfig, ConfigGroupResource, GROUP, ManagedClusterAddOnStatus, Version},
        work::ManifestWork,
    },
    condition::{self, Verdict},
    keys,
    name::{AddonName, ClusterName},
    sdk::{
        Addon, Admission, Leaving, LeavingPhase, RenderError, RenderInput, Target, hash, pack,
        registration, render,
        settled::{self, Settled, Waiting},
        world::{ConfigObject, Observed, Work},
    },
};

/// How far a cluster is.
#[derive(Debug)]
pub(crate) enum Stage<'a> {
    /// OCM has not put the add-on under its ClusterManagementAddOn yet.
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

/// What to do about the works.
#[derive(Debug)]
pub(crate) enum Works {
    /// These steps, in this order; none if all is as it should be.
    Change {
        /// The steps.
        steps: Vec<Step>,
        /// For the log.
        note: &'static str,
    },
    /// They stay as they are.
    Keep(Waiting),
    /// They stay as they are, and people should know why.
    Refused(RenderError),
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Make or change a work.
    Apply {
        /// Its name.
        name: String,
        /// The whole of it.
        body: Value,
    },
    /// Delete a work.
    Delete {
        /// Its name.
        name: String,
    },
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
                works(addon, version, target, observed, &settled, &namespace)
                    .unwrap_or_else(Works::Refused)
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

fn works(
    addon: &impl Addon,
    version: Version,
    target: Target<'_>,
    observed: &Observed,
    settled: &Settled,
    install_namespace: &str,
) -> Result<Works, RenderError> {
    let input = RenderInput {
        target,
        install_namespace,
        config: &settled.config,
    };
    let manifests = render::manifests(addon.render(input)?)?;
    let ours: BTreeMap<usize, &Work> = numbered(addon.name(), observed).collect();
    let uid = target.addon.metadata.uid.clone().unwrap_or_default();
    let is_ours = |work: &Work| work.owner.as_ref().is_none_or(|owner| *owner == uid);
    let outgoing: Vec<_> = ours
        .values()
        .filter(|work| work.deleting || !is_ours(work))
        .collect();
    if !outgoing.is_empty() {
        // Of an earlier life of this add-on: they have to be gone before their names are used again.
        let old = outgoing.into_iter().filter(|work| !work.deleting);
        let steps = old
            .map(|work| Step::Delete {
                name: work.report.name.clone(),
            })
            .collect();
        return Ok(Works::Change {
            steps,
            note: "earlier works have to go first",
        });
    }
    let items: Vec<_> = manifests
        .iter()
        .map(|manifest| pack::Item {
            id: manifest.id.clone(),
            size: manifest.size,
        })
        .collect();
    let now = ours
        .iter()
        .map(|(number, work)| (*number, work.held.keys().cloned().collect()));
    let bins = pack::pack(&items, &now.collect()).map_err(|error| RenderError {
        message: error.to_string(),
    })?;
    let frame = Frame {
        addon: addon.name(),
        version,
        target,
        annotation: &settled.annotation,
    };
    let mut applies = Vec::new();
    for (number, ids) in &bins {
        let inside = manifests
            .iter()
            .filter(|manifest| ids.contains(&manifest.id));
        let spec = json!(render::work_spec(inside));
        let live = ours.get(number);
        if live.is_none_or(|live| differs(live, &spec, &settled.annotation)) {
            // Works that take objects come first: one that lets go of an object before another
            // has taken it would have it deleted on the cluster.
            let takes = live.is_none_or(|live| ids.iter().any(|id| !live.held.contains_key(id)));
            let name = work_name(addon.name(), *number);
            let body = frame.work(&name, &spec);
            applies.push((!takes, Step::Apply { name, body }));
        }
    }
    applies.sort_by_key(|(later, _)| *later);
    let empty = ours.iter().filter(|(number, _)| !bins.contains_key(number));
    let deletes = empty.map(|(_, work)| Step::Delete {
        name: work.report.name.clone(),
    });
    let steps = applies
        .into_iter()
        .map(|(_, step)| step)
        .chain(deletes)
        .collect();
    Ok(Works::Change {
        steps,
        note: "compared",
    })
}

fn differs(live: &Work, spec: &Value, annotation: &Option<String>) -> bool {
    live.digest != render::spec_digest(spec)
        || live.annotation != *annotation
        || live.owner.is_none()
}

/// The name of a work by its number.
fn work_name(addon: &AddonName, number: usize) -> String {
    format!("addon-{addon}-deploy-{number}")
}

/// The works that are ours by name, with their numbers.
pub(crate) fn numbered<'a>(
    addon: &AddonName,
    observed: &'a Observed,
) -> impl Iterator<Item = (usize, &'a Work)> {
    let prefix = format!("addon-{addon}-deploy-");
    observed.works.iter().filter_map(move |work| {
        let number = work.report.name.strip_prefix(&prefix)?.parse().ok()?;
        Some((number, work.as_ref()))
    })
}

/// What all works of a cluster have around their objects.
struct Frame<'a> {
    addon: &'a AddonName,
    version: Version,
    target: Target<'a>,
    annotation: &'a Option<String>,
}

impl Frame<'_> {
    fn work(&self, name: &str, spec: &Value) -> Value {
        let metadata = &self.target.addon.metadata;
        let annotations = self
            .annotation
            .as_ref()
            .map(|hashes| (keys::CONFIG_SPEC_HASH, hashes));
        json!({
            "apiVersion": <ManifestWork as kube::Resource>::api_version(&()),
            "kind": <ManifestWork as kube::Resource>::kind(&()),
            "metadata": {
                "name": name,
                "namespace": self.target.name,
                "labels": { (keys::ADDON_NAME): self.addon },
                "annotations": annotations.into_iter().collect::<BTreeMap<_, _>>(),
                "ownerReferences": [{
                    "apiVersion": self.version.api_version(),
                    "kind": "ManagedClusterAddOn",
                    "name": metadata.name,
                    "uid": metadata.uid,
                    "controller": true,
                    "blockOwnerDeletion": true,
                }],
            },
            "spec": spec,
        })
    }
}

#[cfg(test)]
mod tests;
