//! The cluster Secrets as they are told of: by the watch, and by the answers to our own writes.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use k8s_openapi::api::core::v1::Secret;
use runtime::kube::UnderWay;

/// What is known, by cluster.
#[derive(Default)]
pub(super) struct Held {
    secrets: BTreeMap<String, Secret>,
    writes: UnderWay<String>,
}

impl Held {
    pub(super) fn get(&self, cluster: &str) -> Option<&Secret> {
        self.secrets.get(cluster)
    }

    /// The watch tells that it is so.
    pub(super) fn told(&mut self, cluster: &str, secret: Secret) {
        keep(&mut self.secrets, cluster, secret);
    }

    /// The Secret with this UID is gone; another that we have made in its place is not.
    pub(super) fn gone(&mut self, cluster: &str, uid: &str) {
        self.writes.went(&cluster.to_owned(), uid);
        let known = self.secrets.get(cluster);
        if known.is_some_and(|known| uid_of(known) == uid) {
            self.secrets.remove(cluster);
        }
    }

    /// Their numbers mean nothing any more: whatever the list says counts.
    pub(super) fn rewound(&mut self) {
        for held in self.secrets.values_mut() {
            held.metadata.resource_version = None;
        }
    }
}

/// A write under way; what goes until its answer is there is not brought back by the answer.
pub(super) struct Writing<'a> {
    held: &'a Mutex<Held>,
    cluster: &'a str,
}

impl<'a> Writing<'a> {
    pub(super) fn begin(held: &'a Mutex<Held>, cluster: &'a str) -> Self {
        let mut known = held.lock().unwrap_or_else(PoisonError::into_inner);
        known.writes.begin(cluster.to_owned());
        Self { held, cluster }
    }

    /// The answer says that it is so.
    pub(super) fn answered(self, secret: Secret) {
        let mut known = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let cluster = self.cluster.to_owned();
        if !known.writes.has_gone(&cluster, uid_of(&secret)) {
            known.told(self.cluster, secret);
        }
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let mut known = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        known.writes.end(&self.cluster.to_owned());
    }
}

fn uid_of(secret: &Secret) -> &str {
    secret.metadata.uid.as_deref().unwrap_or_default()
}

/// Keeps the newer of two: the watch tells of what was before our last write when that is long done, and to act on
/// that would write again, with another key.
fn keep(held: &mut BTreeMap<String, Secret>, cluster: &str, secret: Secret) {
    let version = |secret: &Secret| {
        let version = secret.metadata.resource_version.as_ref()?;
        version.parse::<u64>().ok()
    };
    let known = held.get(cluster);
    let known = known.filter(|known| known.metadata.uid == secret.metadata.uid);
    let older = known
        .and_then(version)
        .zip(version(&secret))
        .is_some_and(|(known, told)| told < known);
    if !older {
        held.insert(cluster.to_owned(), secret);
    }
}
