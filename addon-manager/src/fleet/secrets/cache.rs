//! A cache of the cluster Secrets, from watch events and the responses to our own writes.

use std::{collections::BTreeMap, sync::Mutex};

use k8s_openapi::api::core::v1::Secret;
use runtime::kube::UnderWay;

use crate::lock::lock;

/// The Secrets by cluster.
#[derive(Default)]
pub(super) struct SecretCache {
    secrets: BTreeMap<String, Secret>,
    writes: UnderWay<String>,
    /// UIDs of Secrets that we know from the response to our write only. If such a Secret is deleted before the watch
    /// reports it, a new list of the watch does not report the deletion.
    unreported: BTreeMap<String, String>,
}

impl SecretCache {
    pub(super) fn get(&self, cluster: &str) -> Option<&Secret> {
        self.secrets.get(cluster)
    }

    /// Takes in a Secret from the watch.
    pub(super) fn observed(&mut self, cluster: &str, secret: Secret) {
        self.unreported.remove(cluster);
        keep(&mut self.secrets, cluster, secret);
    }

    /// Removes the Secret with this UID, but not another that replaced it.
    pub(super) fn gone(&mut self, cluster: &str, uid: &str) {
        self.writes.went(&cluster.to_owned(), uid);
        if self.unreported.get(cluster).is_some_and(|it| it == uid) {
            self.unreported.remove(cluster);
        }
        let known = self.secrets.get(cluster);
        if known.is_some_and(|known| uid_of(known) == uid) {
            self.secrets.remove(cluster);
        }
    }

    /// Completes a list: removes the Secrets that neither the list nor an earlier watch event contained, and returns their
    /// clusters. The watch reports a Secret that was created during the list.
    pub(super) fn listed(&mut self) -> Vec<String> {
        let unreported = std::mem::take(&mut self.unreported);
        for (cluster, uid) in &unreported {
            self.gone(cluster, uid);
        }
        unreported.into_keys().collect()
    }

    /// Takes in a Secret from the response to our write.
    fn answered(&mut self, cluster: &str, secret: Secret) {
        let uid = uid_of(&secret);
        let is_known = self.get(cluster).is_some_and(|it| uid_of(it) == uid);
        if !is_known {
            self.unreported.insert(cluster.to_owned(), uid.to_owned());
        }
        keep(&mut self.secrets, cluster, secret);
    }

    /// Forgets resource versions after an etcd restore: the next list counts.
    pub(super) fn rewound(&mut self) {
        for secret in self.secrets.values_mut() {
            secret.metadata.resource_version = None;
        }
    }
}

/// A write in progress. Its response does not restore a Secret that is deleted meanwhile.
pub(super) struct Writing<'a> {
    cache: &'a Mutex<SecretCache>,
    cluster: &'a str,
}

impl<'a> Writing<'a> {
    pub(super) fn begin(cache: &'a Mutex<SecretCache>, cluster: &'a str) -> Self {
        let mut known = lock(cache);
        known.writes.begin(cluster.to_owned());
        Self { cache, cluster }
    }

    /// Takes in the response, unless the Secret was deleted meanwhile.
    pub(super) fn answered(self, secret: Secret) {
        let mut known = lock(self.cache);
        let cluster = self.cluster.to_owned();
        if !known.writes.has_gone(&cluster, uid_of(&secret)) {
            known.answered(self.cluster, secret);
        }
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let mut known = lock(self.cache);
        known.writes.end(&self.cluster.to_owned());
    }
}

fn uid_of(secret: &Secret) -> &str {
    secret.metadata.uid.as_deref().unwrap_or_default()
}

/// Keeps the newer of two: the watch may report a version from before our last write, and a decision from that would
/// write again, with another key.
fn keep(secrets: &mut BTreeMap<String, Secret>, cluster: &str, secret: Secret) {
    let version = |secret: &Secret| {
        let version = secret.metadata.resource_version.as_ref()?;
        version.parse::<u64>().ok()
    };
    let known = secrets.get(cluster);
    let known = known.filter(|known| known.metadata.uid == secret.metadata.uid);
    let older = known
        .and_then(version)
        .zip(version(&secret))
        .is_some_and(|(known, new)| new < known);
    if !older {
        secrets.insert(cluster.to_owned(), secret);
    }
}
