//! The programs in Argo CD's namespace, and the owner of the Argo CD that they form. Pure.

use std::collections::{BTreeMap, BTreeSet};

use argocd::keys::OF_ARGOCD;
use argocd::keys::addon::INSTALLED;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::{Metadata, Resource};
use protocol::payload::Runs;
use runtime::kube::Event;

/// Names that the add-on's programs would have.
const NAMES: [&str; 3] = [
    "argocd-application-controller",
    "argocd-redis",
    "argocd-repo-server",
];

/// The relevant fields of a Deployment or `StatefulSet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    /// Whose Argo CD it is a part of.
    owner: Runs,
    /// The desired number of Pods.
    pub(super) wanted: i32,
    /// Whether all of them are ready and of the newest template.
    pub(super) is_well: bool,
    /// Selects its Pods.
    pub(super) selector: String,
    /// Why the cluster creates no Pods, from the condition `ReplicaFailure`.
    pub(super) failure: Option<String>,
}

/// The programs of the namespace, as far as listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Programs {
    known: BTreeMap<String, Program>,
    listed: BTreeSet<&'static str>,
}

impl Programs {
    /// Applies an event of a watch; true if it changes anything.
    pub(super) fn take<K>(&mut self, event: Event<K>) -> bool
    where
        K: Resource + Metadata<Ty = ObjectMeta>,
        Program: for<'a> From<&'a K>,
    {
        let full = |name: &str| format!("{} {name}", K::KIND);
        match event {
            Event::Applied { object, .. } => {
                let program = Program::from(&*object);
                let name = full(object.metadata().name.as_deref().unwrap_or_default());
                self.known.insert(name, program.clone()) != Some(program)
            }
            Event::Deleted(gone) => self.known.remove(&full(&gone.name)).is_some(),
            Event::Synced => self.listed.insert(K::KIND),
            Event::Rewound => false,
        }
    }

    /// The owner of the Argo CD, once both kinds are listed. Ours has our mark. Any program of a foreign Argo CD counts,
    /// even if it is scaled to zero: the add-on must not install over it.
    pub(super) fn runs(&self) -> Option<Runs> {
        let is_known = [Deployment::KIND, StatefulSet::KIND].map(|kind| self.listed.contains(kind));
        let has = |owner: &Runs| self.known.values().any(|program| program.owner == *owner);
        let found = [Runs::Ours, Runs::Foreign].into_iter().find(has);
        (is_known == [true, true]).then(|| found.unwrap_or(Runs::Nothing))
    }

    /// Our programs that are not healthy.
    pub(super) fn unwell(&self) -> impl Iterator<Item = (&str, &Program)> {
        let ours = self.known.iter().filter(|(_, program)| {
            program.owner == Runs::Ours && (!program.is_well || program.wanted < 1)
        });
        ours.map(|(name, program)| (name.as_str(), program))
    }
}

impl From<&Deployment> for Program {
    fn from(deployment: &Deployment) -> Self {
        let spec = &deployment.spec;
        let status = deployment.status.clone().unwrap_or_default();
        let wanted = spec.replicas.unwrap_or(1);
        let count = |it: Option<i32>| it.unwrap_or_default();
        let all = count(status.replicas);
        let conditions = status.conditions.iter().flatten();
        let failure = conditions
            .filter(|it| {
                it.type_.as_deref() == Some("ReplicaFailure")
                    && it.status.as_deref() == Some("True")
            })
            .find_map(|it| it.message.clone());
        Self {
            owner: owner(&deployment.metadata),
            wanted,
            is_well: is_seen(&deployment.metadata, status.observed_generation)
                && count(status.updated_replicas) >= wanted
                && count(status.updated_replicas) >= all
                && count(status.available_replicas) >= wanted,
            selector: selector(&spec.selector),
            failure,
        }
    }
}

impl From<&StatefulSet> for Program {
    fn from(set: &StatefulSet) -> Self {
        let spec = &set.spec;
        let status = set.status.clone().unwrap_or_default();
        let wanted = spec.replicas.unwrap_or(1);
        let is_newest = status.update_revision == status.current_revision
            || status.updated_replicas.unwrap_or_default() >= wanted;
        Self {
            owner: owner(&set.metadata),
            wanted,
            is_well: is_seen(&set.metadata, status.observed_generation)
                && is_newest
                && status.ready_replicas.unwrap_or_default() >= wanted,
            selector: selector(&spec.selector),
            failure: None,
        }
    }
}

/// Whether a status is about the newest spec.
fn is_seen(metadata: &ObjectMeta, observed: Option<i64>) -> bool {
    observed.unwrap_or_default() >= metadata.generation.unwrap_or_default()
}

fn owner(metadata: &ObjectMeta) -> Runs {
    let label = |key: &str| metadata.labels.as_ref()?.get(key).map(String::as_str);
    let name = metadata.name.as_deref().unwrap_or_default();
    if label(INSTALLED).is_some() {
        Runs::Ours
    } else if label(OF_ARGOCD.0) == Some(OF_ARGOCD.1) || NAMES.contains(&name) {
        Runs::Foreign
    } else {
        Runs::Nothing
    }
}

/// The selector as text; our programs select by labels alone.
fn selector(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten();
    let labels: Vec<String> = labels
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    labels.join(",")
}

#[cfg(test)]
mod tests;
