//! Compares the objects that a cluster claims to have with those that it should have.

use std::sync::Arc;

use argocd::routing::SpokeNamespace;
use protocol::{Kind, ObjectKey, payload::RequestUpdate};

use super::{
    index::{Entry, Index, Lookup},
    objects::Objects,
};
use crate::{
    domain::{ClusterName, Key, ObjectOwner, Place, Placement, RemoteApplication},
    live::ApplicationDirectory,
    store::Packed,
};

/// One object that a cluster should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) key: ObjectKey,
    /// The digest of the expected state.
    pub(crate) digest: String,
    /// The sum of what an Application shows.
    pub(crate) shown: Option<u64>,
}

impl ApplicationDirectory for Objects {
    fn owner(&self, namespace: Option<&str>, name: &str) -> ObjectOwner {
        let key = Key {
            namespace: namespace.unwrap_or(&self.argocd_namespace).to_owned(),
            name: name.to_owned(),
        };
        let state = self.lock();
        let Some(entry) = state.index.application(&key) else {
            return ObjectOwner::Hub;
        };
        let (cluster, namespace, is_mirror) = match &entry.placement {
            Placement::Routed(..) | Placement::Mirror(_) if !state.index.is_shown(entry) => {
                return ObjectOwner::NoOne;
            }
            Placement::Routed(place, _) => match &place.spoke_namespace {
                SpokeNamespace::ArgoCd => (&place.cluster, None, false),
                SpokeNamespace::Same(namespace) => (&place.cluster, Some(namespace.clone()), false),
            },
            Placement::Mirror(cluster) => (cluster, None, true),
            Placement::Local | Placement::Ignored | Placement::Conflict(_) => {
                return ObjectOwner::Hub;
            }
        };
        let source_uid = entry.application().source_uid().filter(|_| is_mirror);
        ObjectOwner::Cluster(RemoteApplication {
            cluster: cluster.clone(),
            namespace,
            name: key.name,
            uid: entry.uid().to_owned(),
            namespace_here: key.namespace,
            source_uid: source_uid.map(str::to_owned),
        })
    }

    fn cluster_at(&self, server: &str) -> Option<ClusterName> {
        self.lock().index.cluster_at(server)
    }
}

impl Objects {
    /// Everything that a cluster should have.
    pub(crate) fn expected(&self, cluster: &ClusterName) -> Vec<Expected> {
        let keys = self.lock().index.delivered_to(cluster);
        let expected = |key: ObjectKey| {
            if let Some(application) = Key::from_object(&key) {
                // A clone is two reference counts and small strings; the digests are made outside the lock.
                let entry = self.lock().index.application(&application)?.clone();
                return Some(Expected {
                    digest: entry.digest(),
                    shown: Some(entry.object().shown_sum()),
                    key,
                });
            }
            let provided = self.lock().index.provided(cluster, key.kind, &key.name);
            let Lookup::Wanted { key, digest } = provided else {
                return None;
            };
            let shown = None;
            Some(Expected { key, digest, shown })
        };
        keys.into_iter().filter_map(expected).collect()
    }

    /// The Applications that a cluster should have and whose sums are not known yet.
    pub(crate) fn without_sums(&self, cluster: &ClusterName) -> Vec<Arc<Packed>> {
        let state = self.lock();
        let delivered = state.index.delivered_to(cluster).into_iter();
        let objects = delivered.filter_map(|key| {
            let entry = state.index.application(&Key::from_object(&key)?)?;
            (!entry.object().has_shown_sum()).then(|| Arc::clone(entry.object()))
        });
        objects.collect()
    }

    /// The number of objects that a cluster should have.
    pub(crate) fn delivered_count(&self, cluster: &ClusterName) -> usize {
        self.lock().index.delivered_to(cluster).len()
    }

    /// Whether an Application is being deleted and waits for its cluster.
    pub(crate) fn is_deleting(&self, key: &ObjectKey) -> bool {
        let state = self.lock();
        let entry = Key::from_object(key).and_then(|key| state.index.application(&key));
        entry.is_some_and(|entry| entry.application().is_deleting())
    }

    /// Looks up the object of a claim. The answer reveals nothing about objects that the cluster may not have.
    ///
    /// `agent_namespace` is the name of the Argo CD namespace on the spoke.
    pub(crate) fn lookup(
        &self,
        cluster: &ClusterName,
        agent_namespace: &str,
        claim: &RequestUpdate,
    ) -> Lookup {
        let state = self.lock();
        if !state.index.is_cluster(cluster.as_str()) {
            // A cluster that is not enrolled receives nothing; its copies stay.
            return Lookup::LeaveAlone;
        }
        match claim.kind.parse() {
            Ok(Kind::Application) => {
                let spoke_namespace =
                    self.spoke_namespace(cluster, agent_namespace, &claim.namespace);
                application(&state.index, cluster, spoke_namespace, claim)
            }
            Ok(kind) => state.index.provided(cluster, kind, &claim.name),
            // A kind of another version: we do not delete objects that it delivered.
            Err(_) => Lookup::LeaveAlone,
        }
    }

    /// Like [`Self::lookup`], for an object that the cluster has: one that the hub does not deliver now is deleted there with
    /// its Application, although this principal never delivered it.
    pub(crate) fn claim(
        &self,
        cluster: &ClusterName,
        agent_namespace: &str,
        claim: &RequestUpdate,
    ) -> Lookup {
        let found = self.lookup(cluster, agent_namespace, claim);
        if found == Lookup::LeaveAlone && claim.kind.parse() == Ok(Kind::Application) {
            self.lock().index.note_copy(cluster, &claim.uid);
        }
        found
    }

    /// Whether an object that the hub does not know counts as unwanted on this cluster.
    pub(crate) fn is_authority_for(&self, cluster: &ClusterName) -> bool {
        let state = self.lock();
        state.is_synced() && self.is_identified() && state.index.is_cluster(cluster.as_str())
    }

    /// A Go agent reports its own namespace, or the hub's for moved objects; ours reports the hub's.
    fn spoke_namespace(
        &self,
        cluster: &ClusterName,
        agent_namespace: &str,
        reported: &str,
    ) -> SpokeNamespace {
        let ours = self.argocd_namespace.as_str();
        if ["", agent_namespace, ours, cluster.as_str()].contains(&reported) {
            SpokeNamespace::ArgoCd
        } else {
            SpokeNamespace::Same(reported.to_owned())
        }
    }
}

fn application(
    index: &Index,
    cluster: &ClusterName,
    spoke_namespace: SpokeNamespace,
    claim: &RequestUpdate,
) -> Lookup {
    let known = index.by_uid(&claim.uid);
    let place = Place {
        cluster: cluster.clone(),
        spoke_namespace,
        name: claim.name.clone(),
    };
    let known = known.filter(|_| !claim.uid.is_empty());
    // The copy of another object is adopted in place, not deleted; a deletion adopts nothing.
    let adopting = || {
        let keeper = index.keeper(&place);
        keeper.filter(|(_, it)| claim.uid.is_empty() || !it.application().is_deleting())
    };
    match known.or_else(adopting) {
        Some((key, entry)) => judge(cluster, key, entry),
        // The cluster asks for an object that it does not have: there is nothing to delete.
        None if claim.uid.is_empty() => Lookup::LeaveAlone,
        None => Lookup::Unknown,
    }
}

fn judge(cluster: &ClusterName, key: &Key, entry: &Entry) -> Lookup {
    match &entry.placement {
        Placement::Routed(place, None) if place.cluster == *cluster => Lookup::Wanted {
            key: key.object(),
            digest: entry.digest(),
        },
        Placement::Routed(place, Some(_)) if place.cluster == *cluster => Lookup::LeaveAlone,
        Placement::Routed(..) => Lookup::Unknown,
        Placement::Local if entry.is_moved_away() => Lookup::Unknown,
        Placement::Local | Placement::Ignored | Placement::Conflict(_) | Placement::Mirror(_) => {
            Lookup::LeaveAlone
        }
    }
}
