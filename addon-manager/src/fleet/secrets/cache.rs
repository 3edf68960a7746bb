//! The cluster Secrets as the watch and the responses to our own writes report them.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use k8s_openapi::api::core::v1::Secret;
use runtime::kube::UnderWay;

/// What is known, by cluster.
#[derive(Default)]
pub(super) struct SecretCache {
    secrets: BTreeMap<String, Secret>,
    writes: UnderWay<String>,
    /// Those of which only the answer to our write has told: UIDs. A watch that breaks before it tells misses nothing when it
    /// lists anew, so that it would never say that this one is gone.
    unreported: BTreeMap<String, String>,
}

impl SecretCache {
    pub(super) fn get(&self, cluster: &str) -> Option<&Secret> {
        self.secrets.get(cluster)
    }

    /// The watch tells that it is so.
    pub(super) fn reply(&mut self, cluster: &str, secret: Secret) {
        self.unreported.remove(cluster);
        keep(&mut self.secrets, cluster, secret);
    }

    /// The Secret with this UID is gone; another that we have made in its place is not.
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

    /// The list is complete: what it has not told of either is not there, as far as anybody knows. One that was made while the
    /// list was on its way comes with the watch. Says whose they were.
    pub(super) fn listed(&mut self) -> Vec<String> {
        let unreported = std::mem::take(&mut self.unreported);
        for (cluster, uid) in &unreported {
            self.gone(cluster, uid);
        }
        unreported.into_keys().collect()
    }

    /// The answer to our write says that it is so.
    fn answered(&mut self, cluster: &str, secret: Secret) {
        let uid = uid_of(&secret);
        let is_known = self.get(cluster).is_some_and(|it| uid_of(it) == uid);
        if !is_known {
            self.unreported.insert(cluster.to_owned(), uid.to_owned());
        }
        keep(&mut self.secrets, cluster, secret);
    }

    /// Their numbers mean nothing any more: whatever the list says counts.
    pub(super) fn rewound(&mut self) {
        for stored in self.secrets.values_mut() {
            stored.metadata.resource_version = None;
        }
    }
}

/// A write under way; what goes until its answer is there is not brought back by the answer.
pub(super) struct Writing<'a> {
    stored: &'a Mutex<SecretCache>,
    cluster: &'a str,
}

impl<'a> Writing<'a> {
    pub(super) fn begin(stored: &'a Mutex<SecretCache>, cluster: &'a str) -> Self {
        let mut known = stored.lock().unwrap_or_else(PoisonError::into_inner);
        known.writes.begin(cluster.to_owned());
        Self { stored, cluster }
    }

    /// The answer says that it is so.
    pub(super) fn answered(self, secret: Secret) {
        let mut known = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        let cluster = self.cluster.to_owned();
        if !known.writes.has_gone(&cluster, uid_of(&secret)) {
            known.answered(self.cluster, secret);
        }
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let mut known = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        known.writes.end(&self.cluster.to_owned());
    }
}

fn uid_of(secret: &Secret) -> &str {
    secret.metadata.uid.as_deref().unwrap_or_default()
}

/// Keeps the newer of two: the watch tells of what was before our last write when that is long done, and to act on
/// that would write again, with another key.
fn keep(stored: &mut BTreeMap<String, Secret>, cluster: &str, secret: Secret) {
    let version = |secret: &Secret| {
        let version = secret.metadata.resource_version.as_ref()?;
        version.parse::<u64>().ok()
    };
    let known = stored.get(cluster);
    let known = known.filter(|known| known.metadata.uid == secret.metadata.uid);
    let older = known
        .and_then(version)
        .zip(version(&secret))
        .is_some_and(|(known, reply)| reply < known);
    if !older {
        stored.insert(cluster.to_owned(), secret);
    }
}
