//! The objects that the hub wants on every cluster: Applications by name and UID with their placement, and provisions.
//!
//! Pure: objects and the fleet go in, effects come out. `change` applies changes of objects, `clusters` those of clusters;
//! the queries are here. The index evaluates an Application again whenever it, its project, the fleet, or another
//! Application that claims the same name on a spoke changes. It keeps the copies of an Application that is not delivered
//! any more, unless the hub deleted or moved it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use argocd::{
    Application,
    routing::{self, Clusters, RoutingSettings},
};
use jiff::Timestamp;
use protocol::{Kind, ObjectKey};
use serde_json::Value;

use super::changes::{ChangeLog, Cursor, Page};
use crate::{
    domain::{ClusterName, Key, Place},
    report::Refused,
    store::Packed,
};

mod change;
mod clusters;
mod effect;
mod entry;
mod provisions;

pub(crate) use effect::Effect;
pub(crate) use entry::Entry;
pub(super) use entry::is_newer;
use provisions::Provisions;

/// So many refused objects are listed by name.
const NAMED: usize = 3;

/// The decision about an object that a cluster has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// The cluster should have this object, with this digest.
    Wanted { key: ObjectKey, digest: String },
    /// It is not delivered, but was not deleted either, or the hub cannot decide now.
    LeaveAlone,
    /// The hub does not know it, or has moved it away.
    Unknown,
}

/// The hub's objects as far as clusters are concerned.
#[derive(Debug)]
pub(crate) struct Index {
    settings: RoutingSettings,
    clusters: Clusters,
    applications: BTreeMap<Key, Entry>,
    by_uid: BTreeMap<String, Key>,
    by_cluster: BTreeMap<ClusterName, OfCluster>,
    /// The Applications that claim a name on a spoke, the keeper first: creation time and UID.
    claims: BTreeMap<Place, BTreeSet<(String, String)>>,
    provisions: Provisions,
    /// The changes of Applications; none until a reader asks for them.
    changes: Option<ChangeLog>,
}

/// The Applications of an enrolled cluster.
#[derive(Debug, Default)]
struct OfCluster {
    /// When it was enrolled, if that is known.
    since: Option<Timestamp>,
    /// Routed to it, delivered or blocked, or mirrors of it.
    keys: BTreeSet<Key>,
    /// Counts the changes of its reported errors.
    complaints: u64,
}

impl Index {
    pub(crate) fn new(settings: RoutingSettings) -> Self {
        Self {
            provisions: Provisions::new(&settings.argocd_namespace),
            settings,
            clusters: Clusters::default(),
            applications: BTreeMap::new(),
            by_uid: BTreeMap::new(),
            by_cluster: BTreeMap::new(),
            claims: BTreeMap::new(),
            changes: None,
        }
    }

    /// The Applications that changed after a cursor, at most `limit`. `id` numbers the log if it begins now.
    pub(super) fn changes_after(
        &mut self,
        cursor: Cursor,
        limit: usize,
        id: impl FnOnce() -> u64,
    ) -> Page {
        let begin = || ChangeLog::begin(id(), self.applications.keys());
        let log = self.changes.get_or_insert_with(begin);
        log.after(cursor, limit)
    }

    /// The Applications of this name, at most `limit`.
    pub(super) fn namesakes(&self, name: &str, limit: usize) -> Vec<Arc<Packed>> {
        let all = self.applications.iter();
        all.filter(|(key, _)| key.name == name)
            .map(|(_, entry)| Arc::clone(entry.object()))
            .take(limit)
            .collect()
    }

    /// A project with the lists of its global projects, as Argo CD judges by it.
    pub(super) fn merged_project(&self, name: &str) -> Option<&Value> {
        self.provisions.merged_project(name)
    }

    pub(crate) fn application(&self, key: &Key) -> Option<&Entry> {
        self.applications.get(key)
    }

    /// For changes that do not depend on other objects.
    pub(crate) fn application_mut(&mut self, key: &Key) -> Option<&mut Entry> {
        self.applications.get_mut(key)
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
    pub(crate) fn provision(&self, cluster: &ClusterName, key: &ObjectKey) -> Option<Value> {
        let is_provided = self.provisions.provides(cluster);
        let compiled = || self.provisions.compiled(cluster, key, &self.clusters);
        is_provided.then(compiled)?
    }

    /// The provision of this name that the cluster should have.
    pub(crate) fn provided(&self, cluster: &ClusterName, kind: Kind, name: &str) -> Lookup {
        if !self.provisions.knows(cluster, kind, name) {
            return Lookup::LeaveAlone;
        }
        let stated = self.provisions.digest(cluster, kind, name);
        stated.map_or(Lookup::Unknown, |(key, digest)| Lookup::Wanted {
            key,
            digest,
        })
    }

    /// The global projects that have no effect, with the reasons.
    pub(crate) fn ignored_globals(&self) -> Vec<String> {
        self.provisions.ignored_globals()
    }

    /// Why the cluster of an Application has no access to its repository, although the hub has.
    pub(crate) fn repository_trouble(&self, entry: &Entry) -> Option<String> {
        self.provisions
            .trouble(entry.placement.delivered_to()?, entry.application())
    }

    /// Applications that are routed to this cluster, delivered or blocked, or are mirrors of it.
    pub(crate) fn routed_to(&self, cluster: &ClusterName) -> impl Iterator<Item = (&Key, &Entry)> {
        let keys = self.by_cluster.get(cluster).into_iter();
        keys.flat_map(|of| &of.keys)
            .filter_map(|key| self.applications.get_key_value(key))
    }

    /// The bytes of the statuses of this cluster that have more than `small` bytes each, without that of one Application.
    pub(crate) fn large_statuses(&self, cluster: &ClusterName, but: &Key, small: usize) -> usize {
        self.routed_to(cluster)
            .filter(|(key, _)| *key != but)
            .map(|(_, entry)| entry.object().status_bytes())
            .filter(|bytes| *bytes > small)
            .fold(0, usize::saturating_add)
    }

    /// Everything that is delivered to this cluster.
    pub(crate) fn delivered_to(&self, cluster: &ClusterName) -> Vec<ObjectKey> {
        let provisions = self.provisions.provided_to(cluster).cloned();
        let applications = self
            .routed_to(cluster)
            .filter(|(_, entry)| entry.placement.delivered_to().is_some())
            .map(|(key, _)| key.object());
        provisions.chain(applications).collect()
    }

    /// An object on the hub, by the name that sessions use.
    pub(crate) fn object(&self, key: &ObjectKey) -> Option<&Arc<Packed>> {
        match key.kind {
            Kind::Application => Some(self.applications.get(&Key::from(key))?.object()),
            Kind::AppProject => self.provisions.kept_project(key),
            Kind::Repository | Kind::GpgKey | Kind::TlsCerts | Kind::SshKnownHosts => None,
        }
    }

    /// Everything that is marked as a mirror of this cluster.
    pub(crate) fn mirrors_of(&self, cluster: &ClusterName) -> Vec<(ObjectKey, Arc<Packed>)> {
        let cluster = cluster.as_str();
        let projects = self.provisions.kept_projects();
        let applications = self
            .applications
            .iter()
            .filter(|(key, _)| key.namespace == cluster)
            .map(|(key, entry)| (key.object(), entry.object()));
        projects
            .chain(applications)
            .filter(|(_, object)| argocd::mirror::is_of(object.head(), cluster))
            .map(|(key, object)| (key, Arc::clone(object)))
            .collect()
    }

    /// All projects that are marked as mirrors.
    pub(crate) fn mirrored_projects(&self) -> Vec<ObjectKey> {
        let projects = self.provisions.kept_projects();
        let mirrored = projects.filter(|(_, object)| argocd::mirror::is_mirror(object.head()));
        mirrored.map(|(key, _)| key).collect()
    }

    /// The cluster that may have an AppProject of this name on the hub.
    pub(crate) fn owner_of_project(&self, name: &str) -> Option<ClusterName> {
        self.enrolled(self.clusters.owner_of_project(name)?)
    }

    /// The enrolled cluster with this server.
    pub(crate) fn cluster_at(&self, server: &str) -> Option<ClusterName> {
        self.enrolled(self.clusters.by_server(server)?)
    }

    /// Whether this cluster owns its Applications itself.
    pub(crate) fn is_autonomous(&self, cluster: &ClusterName) -> bool {
        self.clusters.is_autonomous(cluster.as_str())
    }

    /// Whether a namespace is that of an enrolled cluster.
    pub(crate) fn is_cluster(&self, namespace: &str) -> bool {
        self.by_cluster.contains_key(namespace)
    }

    /// Whether an Application belongs on a cluster: by its namespace, or by its destination.
    pub(crate) fn is_for_a_cluster(&self, application: Application<'_>) -> bool {
        self.is_cluster(application.namespace())
            || routing::meant(application, &self.clusters).is_some()
    }

    /// A version that grows with each change of [`Self::refused`].
    pub(crate) fn complaints_of(&self, cluster: &ClusterName) -> u64 {
        let of = self.by_cluster.get(cluster);
        let changes = of.map_or(0, |of| of.complaints);
        changes.wrapping_add(self.provisions.refusals(cluster))
    }

    /// The objects that a cluster refuses, or failed to apply.
    pub(crate) fn refused(&self, cluster: &ClusterName) -> Option<Refused> {
        let reported = self
            .routed_to(cluster)
            .filter(|(_, entry)| entry.report.is_some())
            .map(|(key, _)| key.object().to_string());
        let provisions = self.provisions.refused_by(cluster);
        let names = reported.chain(provisions.map(ObjectKey::to_string));
        let names: Vec<String> = names.collect();
        (!names.is_empty()).then(|| Refused {
            count: names.len(),
            names: names.into_iter().take(NAMED).collect(),
        })
    }

    fn enrolled(&self, name: &str) -> Option<ClusterName> {
        let (cluster, _) = self.by_cluster.get_key_value(name)?;
        Some(cluster.clone())
    }

    fn keys_of(&self, fits: impl Fn(Application<'_>) -> bool) -> Vec<Key> {
        let entries = self.applications.iter();
        entries
            .filter(|(_, entry)| fits(entry.application()))
            .map(|(key, _)| key.clone())
            .collect()
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
