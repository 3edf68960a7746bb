//! Plans the writes of works for one cluster. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::PlanInput;
use crate::{
    api::work::ManifestWork,
    keys,
    name::AddonName,
    sdk::{
        Addon, RenderError, RenderInput, Target,
        hosting::Hosting,
        object_cache::{Observed, Work},
        pack,
        place::{self, Place},
        render::{self, Manifest},
        settled::{Settled, Waiting},
    },
};

/// The plan for the works.
#[derive(Debug)]
pub(crate) enum Works {
    /// Carry out these steps in this order.
    Change(Vec<Step>),
    /// Keep the works, since the configuration is not settled.
    Keep(Waiting),
    /// Keep the works, since rendering failed, and report it.
    Refused(RenderError),
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Create or change a work.
    Apply {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The complete object.
        body: Value,
    },
    /// Delete a work.
    Delete {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

impl Step {
    /// The step that deletes this work.
    pub(crate) fn delete(work: &Work) -> Self {
        Self::Delete {
            namespace: work.report.namespace.clone(),
            name: work.report.name.clone(),
        }
    }
}

/// The input for the desired works.
#[derive(Clone, Copy)]
pub(crate) struct WantedWork<'a> {
    pub(crate) input: PlanInput<'a>,
    pub(crate) target: Target<'a>,
    pub(crate) addon: &'a AddonName,
    pub(crate) settled: &'a Settled,
}

/// The plan for a cluster with a settled configuration: writes of works, and the desired finalizers.
type Decided = (Vec<Step>, BTreeSet<&'static str>);

/// Renders the objects of a cluster.
pub(crate) fn rendered(
    addon: &impl Addon,
    wish: &WantedWork<'_>,
) -> Result<Vec<Manifest>, RenderError> {
    let input = RenderInput {
        target: wish.target,
        install_namespace: &wish.settled.namespace,
        config: &wish.settled.config,
    };
    render::manifests(addon.render(input)?)
}

/// Plans the works of a cluster with a settled configuration.
pub(super) fn plan(
    addon: &impl Addon,
    wish: &WantedWork<'_>,
    hosting: &Hosting,
) -> Result<Decided, RenderError> {
    let manifests = rendered(addon, wish)?;
    let (mut steps, mut finalizers) = (Vec::new(), BTreeSet::new());
    for place in hosting.places() {
        let bound = render::bound_for(&manifests, &place, hosting.is_hosted());
        let (hooks, bound): (Vec<_>, Vec<_>) = bound.into_iter().partition(|it| it.hook);
        if !hooks.is_empty() {
            finalizers.insert(place.hook_finalizer());
        }
        if place.is_hosting() && !(bound.is_empty() && hooks.is_empty()) {
            finalizers.insert(keys::HOSTING_CLEANUP_FINALIZER);
        }
        // Hooks that are too large are reported now, not at the removal.
        check_hooks(&hooks)?;
        steps.extend(wish.place(&place, &bound)?);
    }
    let strays = strays(addon.name(), wish.input.observed, hosting);
    if !strays.is_empty() {
        finalizers.insert(keys::HOSTING_CLEANUP_FINALIZER);
    }
    let outgoing = strays.into_iter().filter(|work| !work.deleting);
    steps.extend(outgoing.map(Step::delete));
    Ok((steps, finalizers))
}

fn check_hooks(hooks: &[Manifest]) -> Result<(), RenderError> {
    let size: usize = hooks.iter().map(|hook| hook.size).sum();
    if size <= pack::LIMIT {
        return Ok(());
    }
    let limit = pack::LIMIT;
    let message = format!("the hooks have {size} bytes together; the limit is {limit}");
    Err(RenderError { message })
}

/// Works on former hosts, and hooks of an earlier removal.
fn strays<'a>(addon: &AddonName, observed: &'a Observed, hosting: &Hosting) -> Vec<&'a Work> {
    let host = match hosting {
        Hosting::On(host) => Some(host.as_str()),
        Hosting::No | Hosting::Refused(_) => None,
    };
    let is_stray = |work: &&Work| {
        let title = place::title(addon, &work.report.name);
        title.is_some_and(|title| {
            title.hosted_for.is_some()
                && (title.purpose == place::Purpose::Hook
                    || Some(work.report.namespace.as_str()) != host)
        })
    };
    let works = observed.works.iter().map(AsRef::as_ref);
    works.filter(is_stray).collect()
}

impl WantedWork<'_> {
    fn uid(&self) -> &str {
        let metadata = &self.target.addon.metadata;
        metadata.uid.as_deref().unwrap_or_default()
    }

    /// Plans the works in one place.
    fn place(&self, place: &Place, manifests: &[Manifest]) -> Result<Vec<Step>, RenderError> {
        let observed = self.input.observed;
        let live: BTreeMap<usize, &Work> = observed
            .deploys(self.addon, self.target.name, place)
            .collect();
        if let Some(steps) = self.clear_away(&live) {
            return Ok(steps);
        }
        let sizes = manifests.iter().map(|it| (it.id.clone(), it.size));
        let now = live
            .iter()
            .map(|(number, work)| (*number, work.objects.clone()));
        let bins = pack::pack(&sizes.collect::<Vec<_>>(), &now.collect())?;
        let mut steps = self.applies(place, manifests, &bins, &live);
        let empty = live.iter().filter(|(number, _)| !bins.contains_key(number));
        steps.extend(empty.map(|(_, work)| Step::delete(work)));
        Ok(steps)
    }

    /// Works of an earlier `ManagedClusterAddOn` must be gone before their names are used again.
    fn clear_away(&self, live: &BTreeMap<usize, &Work>) -> Option<Vec<Step>> {
        let outgoing: Vec<_> = live
            .values()
            .copied()
            .filter(|work| work.deleting || self.is_old(work))
            .collect();
        let old = outgoing.iter().filter(|work| !work.deleting);
        let steps = old.map(|work| Step::delete(work)).collect();
        (!outgoing.is_empty()).then_some(steps)
    }

    /// Whether a work belongs to an earlier `ManagedClusterAddOn`.
    pub(crate) fn is_old(&self, work: &Work) -> bool {
        work.is_old(self.uid())
    }

    fn applies(
        &self,
        place: &Place,
        manifests: &[Manifest],
        bins: &pack::Bins,
        live: &BTreeMap<usize, &Work>,
    ) -> Vec<Step> {
        let mut applies = Vec::new();
        for (number, ids) in bins {
            let inside = manifests
                .iter()
                .filter(|manifest| ids.contains(&manifest.id));
            let spec = json!(render::work_spec(inside));
            let live = live.get(number);
            if live.is_none_or(|live| self.differs(place, live, &spec)) {
                // Works that adopt objects come first: if a work lost an object before another has
                // adopted it, the work agent would delete it on the cluster.
                let takes = live.is_none_or(|live| !ids.is_subset(&live.objects));
                let name = place.deploy_name(self.addon, self.target.name, *number);
                applies.push((!takes, self.apply(place, name, &spec)));
            }
        }
        applies.sort_by_key(|(later, _)| *later);
        applies.into_iter().map(|(_, step)| step).collect()
    }

    /// Whether a work differs from the desired one.
    pub(crate) fn differs(&self, place: &Place, live: &Work, spec: &Value) -> bool {
        let hosting = place.is_hosting();
        let owner = (!hosting).then(|| self.uid());
        let label = hosting.then(|| self.target.name.as_str());
        live.digest != render::spec_digest(spec)
            || live.annotation != self.settled.annotation
            || live.owner.as_deref() != owner
            || live.hosted_label.as_deref() != label
    }

    /// The step that creates or changes a work. An owner must be in the same namespace, so a work on a
    /// host has a label instead.
    pub(crate) fn apply(&self, place: &Place, name: String, spec: &Value) -> Step {
        let (addon, cluster) = (self.addon, self.target.name);
        let hashes = self.settled.annotation.as_ref();
        let annotations = hashes.map(|hashes| (keys::CONFIG_SPEC_HASH, hashes));
        let owner = json!({
            "apiVersion": self.input.version.api_version(),
            "kind": "ManagedClusterAddOn",
            "name": addon,
            "uid": self.uid(),
            "controller": true,
            "blockOwnerDeletion": true,
        });
        let mut labels = BTreeMap::from([(keys::ADDON_NAME, addon.as_str())]);
        let mut owners = vec![owner];
        if place.is_hosting() {
            labels.insert(keys::ADDON_NAMESPACE, cluster.as_str());
            owners.clear();
        }
        let metadata = json!({
            "name": name,
            "namespace": place.namespace(cluster),
            "labels": labels,
            "annotations": annotations.into_iter().collect::<BTreeMap<_, _>>(),
            "ownerReferences": owners,
        });
        let body = json!({
            "apiVersion": <ManifestWork as kube::Resource>::api_version(&()),
            "kind": <ManifestWork as kube::Resource>::kind(&()),
            "metadata": metadata,
            "spec": spec,
        });
        Step::Apply {
            namespace: place.namespace(cluster).to_string(),
            name,
            body,
        }
    }
}
