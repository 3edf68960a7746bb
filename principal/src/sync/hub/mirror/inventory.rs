//! Queries of the sessions about the mirrors of a cluster.

use argocd::{Meta, mirror};
use protocol::{Kind, ObjectKey, payload::RequestUpdate};

use super::super::Hub;
use super::{LISTED, is_made_of};
use crate::{fleet::ClusterName, report::Unmirrored};

/// The resync request for one object.
fn claim(key: ObjectKey, uid: String, digest: Option<String>) -> RequestUpdate {
    RequestUpdate {
        digest,
        uid,
        kind: key.kind.to_string(),
        name: key.name,
        namespace: key.namespace,
        checksum: None,
    }
}

impl Hub {
    /// The mirrors of a cluster for a resync, with those that a user deleted on the hub and that will be created again.
    /// For a Go agent, no digest is known to be right.
    pub(crate) fn claims(&self, cluster: &ClusterName) -> Vec<RequestUpdate> {
        let state = self.lock();
        let shown = state.index.mirrors_of(cluster.as_str());
        let shown = shown.into_iter().map(|(key, object)| {
            let digest = state.mirrors.digest(&key, &object).map(str::to_owned);
            let uid = Meta::of(&object)
                .source_uid()
                .unwrap_or_default()
                .to_owned();
            claim(key, uid, digest)
        });
        let awaited = state.mirrors.kept_of(cluster.as_str());
        let awaited = awaited
            .filter(|(key, _)| state.index.object(key).is_none())
            .map(|(key, uid)| claim(key.clone(), uid.to_owned(), None));
        shown.chain(awaited).collect()
    }

    /// Whether the hub has, or will have again, a mirror of the object with this UID.
    pub(crate) fn shows(&self, cluster: &ClusterName, key: &ObjectKey, source_uid: &str) -> bool {
        let state = self.lock();
        match state.index.object(key) {
            Some(live) => mirror::is_of(live, cluster.as_str()) && is_made_of(live, source_uid),
            None => state.mirrors.keeps(key, cluster.as_str(), source_uid),
        }
    }

    /// Deletes the mirror of an object that the cluster does not have; retried until it is done.
    pub(crate) fn end_mirror(&self, cluster: &ClusterName, key: &ObjectKey, source_uid: &str) {
        self.lock().mirrors.leave(key, cluster.as_str(), source_uid);
        self.mirrors_to_reconcile.mark(key.clone());
    }

    /// The name on the hub of an object of a cluster; none if no mirror can have it.
    pub(crate) fn mirror_key(
        &self,
        cluster: &ClusterName,
        kind: Kind,
        name: &str,
    ) -> Option<ObjectKey> {
        let cluster = cluster.as_str();
        match kind {
            Kind::Application => Some(ObjectKey::new(kind, cluster, name)),
            Kind::AppProject => {
                let name = mirror::project_name(cluster, name).ok()?;
                Some(ObjectKey::new(kind, &self.argocd_namespace, name))
            }
            Kind::Repository | Kind::GpgKey | Kind::TlsCerts | Kind::SshKnownHosts => None,
        }
    }

    /// The objects of a cluster that cannot be mirrored, if there are any.
    pub(crate) fn unmirrored(&self, cluster: &ClusterName) -> Option<Unmirrored> {
        let state = self.lock();
        let refused = state.mirrors.refused.get(cluster.as_str())?;
        let listed = refused.iter().take(LISTED);
        (!refused.is_empty()).then(|| Unmirrored {
            count: refused.len(),
            names: listed
                .map(|(key, why)| format!("{} {}: {why}", key.kind, key.name))
                .collect(),
        })
    }

    /// A new session reports again which objects cannot be mirrored.
    pub(crate) fn forget_unmirrored(&self, cluster: &ClusterName) {
        self.lock().mirrors.refused.remove(cluster.as_str());
    }
}
