//! What the hub shows of a cluster, as its sessions ask for it.

use argocd::{Meta, mirror};
use protocol::{Kind, ObjectKey, payload::RequestUpdate};

use super::super::Hub;
use super::{TOLD, is_made_of};
use crate::{fleet::ClusterName, report::Unmirrored};

/// What a resync says of one object.
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
    /// What the hub shows of a cluster, as a resync tells it, and what it will show, because somebody here deleted it.
    /// Towards a Go agent nothing is known to be right.
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
        let awaited = state.mirrors.held_of(cluster.as_str());
        let awaited = awaited
            .filter(|(key, _)| state.index.object(key).is_none())
            .map(|(key, uid)| claim(key.clone(), uid.to_owned(), None));
        shown.chain(awaited).collect()
    }

    /// Whether the hub shows this object of a cluster, made of the one with this UID, or will again.
    pub(crate) fn shows(&self, cluster: &ClusterName, key: &ObjectKey, source_uid: &str) -> bool {
        let state = self.lock();
        match state.index.object(key) {
            Some(live) => mirror::is_of(live, cluster.as_str()) && is_made_of(live, source_uid),
            None => state.mirrors.holds(key, cluster.as_str(), source_uid),
        }
    }

    /// Lets a mirror go whose object a cluster does not have; done soon, and again until it is done.
    pub(crate) fn end_mirror(&self, cluster: &ClusterName, key: &ObjectKey, source_uid: &str) {
        self.lock().mirrors.leave(key, cluster.as_str(), source_uid);
        self.mirrors_to_reconcile.mark(key.clone());
    }

    /// What the hub calls an object of a cluster; none if nothing there can have that name.
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

    /// What of a cluster cannot be shown, if anything.
    pub(crate) fn unmirrored(&self, cluster: &ClusterName) -> Option<Unmirrored> {
        let state = self.lock();
        let refused = state.mirrors.refused.get(cluster.as_str())?;
        let reply = refused.iter().take(TOLD);
        (!refused.is_empty()).then(|| Unmirrored {
            count: refused.len(),
            names: reply
                .map(|(key, why)| format!("{} {}: {why}", key.kind, key.name))
                .collect(),
        })
    }

    /// A new session says anew what cannot be shown.
    pub(crate) fn forget_unmirrored(&self, cluster: &ClusterName) {
        self.lock().mirrors.refused.remove(cluster.as_str());
    }
}
