//! What to do about the works of one cluster. Pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    api::{addon::Version, work::ManifestWork},
    keys,
    name::AddonName,
    sdk::{
        Addon, RenderError, RenderInput, Target, pack,
        render::{self, Manifest},
        settled::{Settled, Waiting},
        world::{Observed, Work},
    },
};

/// What to do about the works.
#[derive(Debug)]
pub(crate) enum Works {
    /// These steps, in this order; none if all is as it should be.
    Change(Vec<Step>),
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

/// What the works should be made from.
pub(super) struct Wish<'a> {
    pub(super) version: Version,
    pub(super) target: Target<'a>,
    pub(super) settled: &'a Settled,
}

/// Decides what to do about the works of a cluster whose configuration is settled.
pub(super) fn plan(
    addon: &impl Addon,
    wish: &Wish<'_>,
    observed: &Observed,
    install_namespace: &str,
) -> Result<Works, RenderError> {
    let config = &wish.settled.config;
    let input = RenderInput {
        target: wish.target,
        install_namespace,
        config,
    };
    let manifests = render::manifests(addon.render(input)?)?;
    let live: BTreeMap<usize, &Work> = numbered(addon.name(), observed).collect();
    if let Some(steps) = wish.clear_away(&live) {
        return Ok(Works::Change(steps));
    }
    let sizes = manifests.iter();
    let sizes = sizes.map(|manifest| pack::Item {
        id: manifest.id.clone(),
        size: manifest.size,
    });
    let held = live
        .iter()
        .map(|(number, work)| (*number, work.held.keys().cloned().collect()));
    let bins =
        pack::pack(&sizes.collect::<Vec<_>>(), &held.collect()).map_err(|error| RenderError {
            message: error.to_string(),
        })?;
    let mut steps = wish.applies(addon.name(), &manifests, &bins, &live);
    let empty = live.iter().filter(|(number, _)| !bins.contains_key(number));
    steps.extend(empty.map(|(_, work)| Step::Delete {
        name: work.report.name.clone(),
    }));
    Ok(Works::Change(steps))
}

impl Wish<'_> {
    fn uid(&self) -> &str {
        self.target
            .addon
            .metadata
            .uid
            .as_deref()
            .unwrap_or_default()
    }

    /// Works of an earlier life of this add-on have to be gone before their names are used again.
    fn clear_away(&self, live: &BTreeMap<usize, &Work>) -> Option<Vec<Step>> {
        let is_old = |work: &&Work| {
            work.owner
                .as_deref()
                .is_some_and(|owner| owner != self.uid())
        };
        let outgoing: Vec<_> = live
            .values()
            .copied()
            .filter(|work| work.deleting || is_old(work))
            .collect();
        let old = outgoing.iter().filter(|work| !work.deleting);
        let steps = old
            .map(|work| Step::Delete {
                name: work.report.name.clone(),
            })
            .collect();
        (!outgoing.is_empty()).then_some(steps)
    }

    fn applies(
        &self,
        addon: &AddonName,
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
            if live.is_none_or(|live| self.differs(live, &spec)) {
                // Works that take objects come first: one that lets go of an object before
                // another has taken it would have it deleted on the cluster.
                let takes =
                    live.is_none_or(|live| ids.iter().any(|id| !live.held.contains_key(id)));
                let name = format!("{}{number}", prefix(addon));
                let body = self.work(addon, &name, &spec);
                applies.push((!takes, Step::Apply { name, body }));
            }
        }
        applies.sort_by_key(|(later, _)| *later);
        applies.into_iter().map(|(_, step)| step).collect()
    }

    fn differs(&self, live: &Work, spec: &Value) -> bool {
        live.digest != render::spec_digest(spec)
            || live.annotation != self.settled.annotation
            || live.owner.as_deref() != Some(self.uid())
    }

    fn work(&self, addon: &AddonName, name: &str, spec: &Value) -> Value {
        let hashes = self.settled.annotation.as_ref();
        let annotations = hashes.map(|hashes| (keys::CONFIG_SPEC_HASH, hashes));
        json!({
            "apiVersion": <ManifestWork as kube::Resource>::api_version(&()),
            "kind": <ManifestWork as kube::Resource>::kind(&()),
            "metadata": {
                "name": name,
                "namespace": self.target.name,
                "labels": { (keys::ADDON_NAME): addon },
                "annotations": annotations.into_iter().collect::<BTreeMap<_, _>>(),
                "ownerReferences": [{
                    "apiVersion": self.version.api_version(),
                    "kind": "ManagedClusterAddOn",
                    "name": addon,
                    "uid": self.uid(),
                    "controller": true,
                    "blockOwnerDeletion": true,
                }],
            },
            "spec": spec,
        })
    }
}

fn prefix(addon: &AddonName) -> String {
    format!("addon-{addon}-deploy-")
}

/// The works that are ours by name, with their numbers.
pub(crate) fn numbered<'a>(
    addon: &AddonName,
    observed: &'a Observed,
) -> impl Iterator<Item = (usize, &'a Work)> {
    let prefix = prefix(addon);
    observed.works.iter().filter_map(move |work| {
        let number = work.report.name.strip_prefix(&prefix)?.parse().ok()?;
        Some((number, work.as_ref()))
    })
}
