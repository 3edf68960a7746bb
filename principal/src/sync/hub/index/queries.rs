//! Queries of the index.

use std::sync::Arc;

use argocd::{Application, repository::urls, routing};
use protocol::{Kind, ObjectKey};
use serde_json::Value;

use super::{Entry, Index, Key, Place, Provided};

impl Index {
    pub(crate) fn application(&self, key: &Key) -> Option<&Entry> {
        self.applications.get(key)
    }

    pub(crate) fn by_uid(&self, uid: &str) -> Option<(&Key, &Entry)> {
        let key = self.by_uid.get(uid)?;
        Some((key, self.applications.get(key)?))
    }

    /// The Application that keeps a name on a spoke.
    pub(crate) fn keeper(&self, place: &Place) -> Option<(&Key, &Entry)> {
        let (_, uid) = self.claims.get(place)?.first()?;
        self.by_uid(uid)
    }

    /// A project, a repository or keys as this cluster may see them.
    pub(crate) fn provision(&self, cluster: &str, key: &ObjectKey) -> Option<Value> {
        let is_provided = self.provisions.provides(cluster);
        let compiled = || self.provisions.compiled(cluster, key, &self.clusters);
        is_provided.then(compiled)?
    }

    /// The provision of this name that the cluster should have.
    pub(crate) fn provided(&self, cluster: &str, kind: Kind, name: &str) -> Provided {
        if !self.provisions.knows(cluster, kind, name) {
            return Provided::Unclear;
        }
        let stated = self.provisions.digest(cluster, kind, name);
        stated.map_or(Provided::Nothing, |(key, digest)| {
            Provided::This(key, digest)
        })
    }

    /// Why the cluster of an Application has no access to its repository, although the hub has.
    pub(crate) fn repository_trouble(&self, entry: &Entry) -> Option<String> {
        let (cluster, application) = (entry.delivered_to()?, entry.application());
        self.provisions
            .trouble(cluster, application.project(), &urls(application))
    }

    /// Everything that is delivered to this cluster.
    pub(crate) fn delivered_to(&self, cluster: &str) -> Vec<ObjectKey> {
        let provisions = self.provisions.provided_to(cluster).cloned();
        let applications = self
            .applications
            .iter()
            .filter(|(_, entry)| entry.delivered_to() == Some(cluster))
            .map(|(key, _)| key.object());
        provisions.chain(applications).collect()
    }

    /// Applications that are routed to this cluster, delivered or blocked, or are mirrors of it.
    pub(crate) fn routed_to(&self, cluster: &str) -> impl Iterator<Item = (&Key, &Entry)> {
        self.applications
            .iter()
            .filter(move |(_, entry)| entry.cluster() == Some(cluster))
    }

    /// An object on the hub, by the name that sessions use.
    pub(crate) fn object(&self, key: &ObjectKey) -> Option<&Arc<Value>> {
        match key.kind {
            Kind::Application => Some(self.applications.get(&Key::from_object(key)?)?.object()),
            Kind::AppProject => self.provisions.kept_project(key),
            Kind::Repository | Kind::GpgKey | Kind::TlsCerts | Kind::SshKnownHosts => None,
        }
    }

    /// Everything that is marked as a mirror of this cluster.
    pub(crate) fn mirrors_of(&self, cluster: &str) -> Vec<(ObjectKey, Arc<Value>)> {
        let projects = self.provisions.kept_projects();
        let applications = self
            .applications
            .iter()
            .filter(|(key, _)| key.namespace == cluster)
            .map(|(key, entry)| (key.object(), entry.object()));
        projects
            .chain(applications)
            .filter(|(_, object)| argocd::mirror::is_of(object, cluster))
            .map(|(key, object)| (key, Arc::clone(object)))
            .collect()
    }

    /// All projects that are marked as mirrors.
    pub(crate) fn mirrored_projects(&self) -> Vec<ObjectKey> {
        let projects = self.provisions.kept_projects();
        let mirrored = projects.filter(|(_, object)| argocd::mirror::is_mirror(object));
        mirrored.map(|(key, _)| key).collect()
    }

    /// The cluster that may have an AppProject of this name on the hub.
    pub(crate) fn owner_of_project(&self, name: &str) -> Option<&str> {
        self.clusters.owner_of_project(name)
    }

    /// Whether this cluster owns its Applications itself.
    pub(crate) fn is_autonomous(&self, cluster: &str) -> bool {
        self.clusters.is_autonomous(cluster)
    }

    /// Whether a namespace is that of an enrolled cluster.
    pub(crate) fn is_cluster(&self, namespace: &str) -> bool {
        self.clusters.contains(namespace)
    }

    /// Whether an Application belongs on a cluster: by its namespace, or by its destination.
    pub(crate) fn is_for_a_cluster(&self, application: Application<'_>) -> bool {
        self.is_cluster(application.namespace())
            || routing::meant(application, &self.clusters).is_some()
    }

    /// Names the current operation by its version, after a report has shown that no cluster knows it.
    pub(crate) fn name_operation(&mut self, key: &Key) {
        if let Some(entry) = self.applications.get_mut(key) {
            entry.name_operation();
        }
    }

    /// Records that the cluster took the current operation.
    pub(crate) fn take_operation(&mut self, key: &Key) {
        if let Some(entry) = self.applications.get_mut(key) {
            entry.take_operation();
        }
    }
}
