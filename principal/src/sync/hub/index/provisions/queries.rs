//! The provisions that a cluster should have, and those that it refuses.

use std::{ops::Deref, sync::Arc};

use argocd::{
    AppProject, Application,
    entries::{self, Shared},
    mirror,
    project::{self, Cluster},
    repository::{self, Repository, urls},
    routing::Clusters,
};
use protocol::{Kind, ObjectKey};
use serde_json::Value;

use super::{Provisions, ToCluster};
use crate::{domain::ClusterName, store::Packed};

/// Queries.
impl Provisions {
    /// A project as the hub has it.
    pub(crate) fn project(&self, name: &str) -> Option<&Value> {
        self.object(&self.key(Kind::AppProject, name))
    }

    /// A project with the lists of its global projects, as Argo CD judges by it.
    pub(crate) fn merged_project(&self, name: &str) -> Option<&Value> {
        let merged = self.merged.get(name).map(Deref::deref);
        merged.or_else(|| self.project(name))
    }

    /// A project as the hub has it, by its whole name.
    pub(crate) fn kept_project(&self, key: &ObjectKey) -> Option<&Arc<Packed>> {
        let project = self.objects.get(&(Kind::AppProject, key.name.clone()))?;
        (key.namespace == self.namespace).then_some(project)
    }

    /// All projects as the hub has them.
    pub(crate) fn kept_projects(&self) -> impl Iterator<Item = (ObjectKey, &Arc<Packed>)> {
        let all = self.objects.iter();
        all.filter(|((kind, _), _)| *kind == Kind::AppProject)
            .map(|((kind, name), project)| {
                let project: &Arc<Packed> = project;
                (self.key(*kind, name), project)
            })
    }

    /// A provision as this cluster may see it; none if it may not.
    pub(crate) fn compiled(
        &self,
        cluster: &ClusterName,
        key: &ObjectKey,
        clusters: &Clusters,
    ) -> Option<Value> {
        let shared = match key.kind {
            Kind::AppProject => {
                let project = self.merged_project(&key.name)?;
                // A project that a spoke owns stays there: no other cluster gets it.
                if AppProject::of(project).is_ignored() || mirror::is_mirror(project) {
                    return None;
                }
                let cluster = Cluster {
                    name: cluster.as_str(),
                    server: clusters.server_of(cluster.as_str()),
                };
                return project::compile(project, cluster);
            }
            Kind::Repository => {
                let repository = self.repositories.get(&key.name)?;
                return self.is_for(repository, cluster).then(|| {
                    Some(repository::wire_secret(
                        self.object(key)?,
                        &self.content_id(key)?,
                    ))
                })?;
            }
            Kind::GpgKey => Shared::GpgKeys,
            Kind::TlsCerts => Shared::TlsCerts,
            Kind::SshKnownHosts => Shared::SshKnownHosts,
            Kind::Application => return None,
        };
        entries::wire(shared, self.object(key)?, &self.hosts(cluster))
    }

    /// Everything that this cluster should have.
    pub(crate) fn provided_to(&self, cluster: &ClusterName) -> impl Iterator<Item = &ObjectKey> {
        let to = self.provided.get(cluster).into_iter();
        to.flat_map(|to| to.stated.keys())
    }

    /// Whether this cluster is provided by the hub at all.
    pub(crate) fn provides(&self, cluster: &ClusterName) -> bool {
        self.provided.contains_key(cluster)
    }

    /// Whether the hub can decide about this provision of the cluster.
    pub(crate) fn knows(&self, cluster: &ClusterName, kind: Kind, name: &str) -> bool {
        let repository = self
            .repositories
            .get(name)
            .filter(|_| kind == Kind::Repository);
        let depends = repository.is_some_and(|repository| repository.project.is_none());
        let to = self.provided.get(cluster);
        to.is_some_and(|to| !depends || to.shares.is_some())
    }

    /// The digest of the provision that this cluster should have.
    pub(crate) fn digest(
        &self,
        cluster: &ClusterName,
        kind: Kind,
        name: &str,
    ) -> Option<(ObjectKey, String)> {
        let key = self.key(kind, name);
        let digest = self.provided.get(cluster)?.stated.get(&key)?.digest.clone();
        Some((key, digest))
    }
}

/// Repositories that an Application needs and its cluster does not have.
impl Provisions {
    /// Records that a cluster refuses a provision; true if that is new.
    pub(crate) fn refuse(&mut self, cluster: &ClusterName, key: &ObjectKey, reason: &str) -> bool {
        let Some(to) = self.provided.get_mut(cluster) else {
            return false;
        };
        if !to.stated.contains_key(key) || to.refused.contains_key(key) {
            return false;
        }
        to.refused.insert(key.clone(), reason.to_owned());
        to.refusals = to.refusals.wrapping_add(1);
        true
    }

    /// Counts the changes of the refusals of a cluster.
    pub(crate) fn refusals(&self, cluster: &ClusterName) -> u64 {
        self.provided.get(cluster).map_or(0, |to| to.refusals)
    }

    /// The provisions that a cluster refuses.
    pub(crate) fn refused_by(&self, cluster: &ClusterName) -> impl Iterator<Item = &ObjectKey> {
        let to = self.provided.get(cluster).into_iter();
        to.flat_map(|to| to.refused.keys())
    }

    /// Clears the refusals of a cluster.
    pub(crate) fn clear_refusals(&mut self, cluster: &ClusterName) -> Vec<ObjectKey> {
        let Some(to) = self.provided.get_mut(cluster) else {
            return Vec::new();
        };
        to.refusals = to.refusals.wrapping_add(1);
        std::mem::take(&mut to.refused).into_keys().collect()
    }

    /// The repository in the Secret of this name, without its credentials.
    pub(crate) fn repository(&self, name: &str) -> Option<&Repository> {
        self.repositories.get(name)
    }

    /// Why the cluster has no access to a repository of this Application, although the hub has.
    pub(crate) fn trouble(
        &self,
        cluster: &ClusterName,
        application: Application<'_>,
    ) -> Option<String> {
        let to = self.provided.get(cluster)?;
        urls(application).iter().find_map(|url| {
            self.trouble_with(cluster, to, application, &repository::normal_url(url))
        })
    }

    fn trouble_with(
        &self,
        cluster: &ClusterName,
        to: &ToCluster,
        application: Application<'_>,
        url: &str,
    ) -> Option<String> {
        let project = application.project();
        let (mut kept_back, mut refusal) = (None, None);
        for (name, repository) in &self.repositories {
            // Templates have no project for Argo CD.
            let counts = repository.is_template
                || repository.project.as_deref().is_none_or(|it| it == project);
            if !counts || !repository.gives_access || !repository.is_for(url) {
                continue;
            }
            let key = self.key(Kind::Repository, name);
            let secret = key.subject();
            match to.refused.get(&key) {
                Some(reason) => {
                    refusal.get_or_insert_with(|| {
                        format!(
                            "cluster {cluster} refuses the Secret {secret} of its repository: {reason}"
                        )
                    });
                }
                None if to.stated.contains_key(&key) => return None,
                None if repository.project.is_none() => {
                    kept_back.get_or_insert(secret);
                }
                None => {}
            }
        }
        let kept_back = kept_back.map(|secret| {
            format!(
                "the repository Secret {secret} has no project, so it is not delivered to cluster {cluster}: set \
                its entry `project` to {project:?}, or set SHARE_UNSCOPED_REPOSITORIES for the cluster"
            )
        });
        refusal.or(kept_back)
    }
}
