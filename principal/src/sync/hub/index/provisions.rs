//! The objects that clusters get besides Applications: projects, repositories, keys and known hosts. Pure.
//!
//! Each is compiled for one cluster at a time. The identity and digest of the last sent object are remembered: a change
//! of any input is sent once, and an object that a cluster may not have any more is deleted there.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use argocd::{
    Meta, digest, entries::Shared, global_projects::GlobalProjects, host_keys, masked::Sealed,
    repository::Repository, routing::Clusters,
};
use protocol::{Kind, Mode, ObjectKey};
use serde_json::{Value, json};

use super::{effect::Effect, entry::Uses};
use crate::{domain::ClusterName, fleet::Enrolment, store::Packed};

/// The kinds that are compiled from the hosts that a cluster uses.
const OF_HOSTS: [(Kind, Shared); 2] = [
    (Kind::TlsCerts, Shared::TlsCerts),
    (Kind::SshKnownHosts, Shared::SshKnownHosts),
];

mod globals;
mod queries;

/// The last sent state of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LastSent {
    uid: String,
    digest: String,
}

/// The objects to provide, and the state that each cluster received.
#[derive(Debug, Default)]
pub(super) struct Provisions {
    /// Of the hub's Argo CD.
    namespace: String,
    /// Makes the identifier of a Secret's content meaningless to others, and after a restart.
    salt: Sealed<String>,
    objects: BTreeMap<(Kind, String), Sealed<Arc<Packed>>>,
    repositories: BTreeMap<String, Repository>,
    globals: GlobalProjects,
    /// The projects that have global projects, with the lists of these.
    merged: BTreeMap<String, Sealed<Value>>,
    /// How many Applications of a cluster need a host.
    uses: BTreeMap<ClusterName, BTreeMap<String, usize>>,
    /// The provided clusters: those whose specs the hub owns.
    provided: BTreeMap<ClusterName, ToCluster>,
}

/// The provisions of one cluster.
#[derive(Debug, Default)]
struct ToCluster {
    /// Whether it gets the repositories without a project, too; none while that is unknown.
    shares: Option<bool>,
    stated: BTreeMap<ObjectKey, LastSent>,
    /// The provisions that it refuses, with the reason.
    refused: BTreeMap<ObjectKey, String>,
    /// Counts the changes of `refused`.
    refusals: u64,
}

impl Provisions {
    pub(super) fn new(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            ..Self::default()
        }
    }

    pub(super) fn salt(&mut self, salt: String) {
        self.salt = Sealed::new(salt);
    }

    /// Updates the provided clusters.
    ///
    /// Only a change of the sharing deletes copies; changes of the fleet or of server URLs do not.
    pub(super) fn set_fleet(
        &mut self,
        fleet: &BTreeMap<ClusterName, &Enrolment>,
        clusters: &Clusters,
    ) -> Vec<Effect> {
        let is_managed = |cluster: &ClusterName| {
            let enrolment = fleet.get(cluster);
            enrolment.is_some_and(|enrolment| enrolment.mode == Mode::Managed)
        };
        self.provided.retain(|cluster, _| is_managed(cluster));
        let keys = self.keys();
        let mut effects = Vec::new();
        for (cluster, enrolment) in fleet.iter().filter(|(cluster, _)| is_managed(cluster)) {
            let to = self.provided.entry(cluster.clone()).or_default();
            let before = std::mem::replace(&mut to.shares, enrolment.shares_unscoped);
            let changed = before != enrolment.shares_unscoped;
            let stated = keys
                .iter()
                .filter_map(|key| self.emit(cluster, key, clusters));
            effects.extend(stated.filter(|effect| match effect {
                Effect::Gone { key, .. } => changed && key.kind == Kind::Repository,
                Effect::State { .. } | Effect::Command { .. } | Effect::Conditions(_) => true,
            }));
        }
        effects
    }

    /// Whether the same clusters are provided, and share repositories as before.
    pub(super) fn shares_as(&self, fleet: &BTreeMap<ClusterName, &Enrolment>) -> bool {
        fleet.iter().all(|(cluster, enrolment)| {
            let provided = self.provided.get(cluster).map(|to| to.shares);
            let managed = enrolment.mode == Mode::Managed;
            provided == managed.then_some(enrolment.shares_unscoped)
        })
    }

    /// Sets an object of the Argo CD namespace that is no project, or removes it.
    pub(super) fn set(
        &mut self,
        kind: Kind,
        name: &str,
        object: Option<Arc<Packed>>,
        clusters: &Clusters,
    ) -> Vec<Effect> {
        let repository = object.as_deref().map(Packed::head).and_then(Repository::of);
        let place = (kind, name.to_owned());
        match object {
            Some(object) => self.objects.insert(place, Sealed::new(object)),
            None => self.objects.remove(&place),
        };
        if kind == Kind::Repository {
            match repository {
                Some(repository) => self.repositories.insert(name.to_owned(), repository),
                None => self.repositories.remove(name),
            };
        }
        let mut keys = vec![self.key(kind, name)];
        if kind == Kind::Repository {
            keys.extend(self.keys_of_hosts());
        }
        let provided: Vec<ClusterName> = self.provided.keys().cloned().collect();
        self.emit_all(&provided, &keys, clusters)
    }

    /// Emits these projects, then the repositories that belong to them, and the hosts.
    pub(super) fn emit_projects(
        &mut self,
        names: &BTreeSet<String>,
        clusters: &Clusters,
    ) -> Vec<Effect> {
        let projects = names.iter().map(|name| self.key(Kind::AppProject, name));
        let belongs = |project: &String| names.contains(project);
        let members = self
            .repositories
            .iter()
            .filter(|(_, repository)| repository.project.as_ref().is_some_and(belongs))
            .map(|(member, _)| self.key(Kind::Repository, member));
        let keys = projects.chain(members).chain(self.keys_of_hosts());
        let keys: Vec<ObjectKey> = keys.collect();
        let provided: Vec<ClusterName> = self.provided.keys().cloned().collect();
        self.emit_all(&provided, &keys, clusters)
    }

    /// Replaces the hosts that an Application needs on its cluster.
    pub(super) fn exchange_hosts(
        &mut self,
        before: Option<Uses>,
        after: Option<Uses>,
        clusters: &Clusters,
    ) -> Vec<Effect> {
        if before == after {
            return Vec::new();
        }
        if let Some(Uses { cluster, hosts }) = &after {
            let uses = self.uses.entry(cluster.clone()).or_default();
            for host in hosts {
                *uses.entry(host.clone()).or_default() += 1;
            }
        }
        if let Some(Uses { cluster, hosts }) = &before {
            let uses = self.uses.entry(cluster.clone()).or_default();
            for host in hosts {
                if let Some(count) = uses.get_mut(host) {
                    *count = count.saturating_sub(1);
                }
            }
            uses.retain(|_, count| *count > 0);
            if uses.is_empty() {
                self.uses.remove(cluster);
            }
        }
        let uses = after.into_iter().chain(before);
        let mut concerned: Vec<ClusterName> = uses.map(|uses| uses.cluster).collect();
        concerned.dedup();
        let keys = self.keys_of_hosts();
        self.emit_all(&concerned, &keys, clusters)
    }

    /// Remembers the objects that these clusters should have now; returns the effects of changes.
    fn emit_all(
        &mut self,
        to: &[ClusterName],
        keys: &[ObjectKey],
        clusters: &Clusters,
    ) -> Vec<Effect> {
        to.iter()
            .flat_map(|cluster| keys.iter().map(move |key| (cluster, key)))
            .filter_map(|(cluster, key)| self.emit(cluster, key, clusters))
            .collect()
    }

    /// Remembers the object that this cluster should have now; returns the effect of a change.
    fn emit(
        &mut self,
        cluster: &ClusterName,
        key: &ObjectKey,
        clusters: &Clusters,
    ) -> Option<Effect> {
        let now = self.identify(cluster, key, clusters);
        let to = self.provided.get_mut(cluster)?;
        if to.stated.get(key) == now.as_ref() {
            return None;
        }
        if to.refused.remove(key).is_some() {
            to.refusals = to.refusals.wrapping_add(1);
        }
        let (cluster, key) = (cluster.clone(), key.clone());
        Some(if let Some(now) = now {
            to.stated.insert(key.clone(), now);
            Effect::State { cluster, key }
        } else {
            let uid = to.stated.remove(&key)?.uid;
            Effect::Gone { cluster, key, uid }
        })
    }

    fn identify(
        &self,
        cluster: &ClusterName,
        key: &ObjectKey,
        clusters: &Clusters,
    ) -> Option<LastSent> {
        if !self.provides(cluster) {
            return None;
        }
        let digest = match key.kind {
            Kind::Repository => {
                let repository = self.repositories.get(&key.name)?;
                self.is_for(repository, cluster)
                    .then(|| self.content_id(key))??
            }
            Kind::AppProject => digest::agreed(&self.compiled(cluster, key, clusters)?),
            Kind::GpgKey | Kind::TlsCerts | Kind::SshKnownHosts => {
                digest::agreed_entries(&self.compiled(cluster, key, clusters)?)
            }
            Kind::Application => return None,
        };
        Some(LastSent {
            uid: Meta::of(self.object(key)?).uid().to_owned(),
            digest,
        })
    }

    fn is_for(&self, repository: &Repository, cluster: &ClusterName) -> bool {
        let to = self.provided.get(cluster);
        to.is_some_and(|to| match &repository.project {
            // A project is sent before the repositories that belong to it.
            Some(project) => to.stated.contains_key(&self.key(Kind::AppProject, project)),
            None => to.shares == Some(true),
        })
    }

    /// Identifies the content of a Secret, without deriving from it: a digest would confirm a guess.
    fn content_id(&self, key: &ObjectKey) -> Option<String> {
        let meta = Meta::of(self.object(key)?);
        let version = json!([*self.salt, meta.uid(), meta.resource_version()]);
        Some(digest::short(&version))
    }

    fn hosts(&self, cluster: &ClusterName) -> BTreeSet<String> {
        let used = self.uses.get(cluster).into_iter().flat_map(BTreeMap::keys);
        let repositories = self
            .provided_to(cluster)
            .filter(|key| key.kind == Kind::Repository)
            .filter_map(|key| host_keys::host(&self.repositories.get(&key.name)?.url));
        used.cloned().chain(repositories).collect()
    }

    fn object(&self, key: &ObjectKey) -> Option<&Value> {
        let object = self.objects.get(&(key.kind, key.name.clone()))?;
        Some(object.head())
    }

    fn key(&self, kind: Kind, name: &str) -> ObjectKey {
        ObjectKey::new(kind, &self.namespace, name)
    }

    fn keys_of_hosts(&self) -> [ObjectKey; 2] {
        OF_HOSTS.map(|(kind, shared)| self.key(kind, shared.name()))
    }

    /// In the order in which they are compiled: repositories follow their projects, and hosts both.
    fn keys(&self) -> Vec<ObjectKey> {
        self.objects
            .keys()
            .map(|(kind, name)| self.key(*kind, name))
            .collect()
    }
}

#[cfg(test)]
mod tests;
