//! Own writes that the watches have not delivered yet.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use super::State;
use crate::{
    name::ClusterName,
    sdk::{
        cache::{self, Cache, Progress},
        drive::Key,
        permissions::Part,
    },
};

/// How long to wait for an own write while its watch delivers nothing. A busy watch may lag for longer, and a decision
/// must not use the state before the write.
const SILENCE: Duration = Duration::from_mins(1);
/// How long to wait for an own deletion: another client may have created the object again.
const REMOVAL: Duration = Duration::from_secs(30);

/// An own write that the cache must show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// The object of the key itself, in the version that the hub returned.
    Version(String),
    /// The cluster's add-on of this UID is deleting, or gone.
    NoAddon {
        /// Its UID.
        uid: String,
    },
    /// A work for the cluster.
    Work {
        /// The version that the hub returned.
        version: String,
    },
    /// A work for the cluster that is deleting, or gone.
    NoWork {
        /// Where it is.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A permission of the cluster's agent on the hub.
    Permission {
        /// Which of the two objects.
        part: Part,
        /// The version that the hub returned; none if it was deleted.
        version: Option<String>,
    },
}

/// The pending own writes of each key.
#[derive(Debug, Default)]
pub(super) struct Awaited(BTreeMap<Key, Vec<Wait>>);

/// One own write that the cache does not show yet.
#[derive(Debug)]
pub(super) struct Wait {
    expected: Expected,
    /// The progress of the watch when the hub answered the write.
    then: Progress,
    /// Its last progress, and when it was noticed.
    last: (Progress, Instant),
    since: Instant,
}

impl Awaited {
    pub(super) fn note(&mut self, key: &Key, expected: Expected, at: Progress, now: Instant) {
        self.0.entry(key.clone()).or_default().push(Wait {
            expected,
            then: at,
            last: (at, now),
            since: now,
        });
    }

    /// Takes the pending writes of a key, to be put back.
    pub(super) fn take(&mut self, key: &Key) -> Vec<Wait> {
        self.0.remove(key).unwrap_or_default()
    }

    pub(super) fn put(&mut self, key: &Key, waits: Vec<Wait>) {
        if !waits.is_empty() {
            self.0.insert(key.clone(), waits);
        }
    }
}

impl Wait {
    /// Whether to wait longer for this write.
    pub(super) fn lasts(&mut self, state: &State, key: &Key, now: Instant) -> bool {
        let progress = progress(state, key, &self.expected);
        if !progress.is_idle_since(&self.last.0) {
            self.last = (progress, now);
        }
        let patient = if is_removal(&self.expected) {
            now.duration_since(self.since) < REMOVAL
        } else {
            now.duration_since(self.last.1) < SILENCE
        };
        patient && !self.expected.is_seen(state, key, &self.then)
    }
}

/// Whether this is a deletion: the object may be recreated under its name before the cache showed its absence.
const fn is_removal(expected: &Expected) -> bool {
    matches!(
        expected,
        Expected::NoAddon { .. }
            | Expected::NoWork { .. }
            | Expected::Permission { version: None, .. }
    )
}

/// The progress of the watch that will deliver this write.
pub(super) fn progress(state: &State, key: &Key, expected: &Expected) -> Progress {
    match (expected, key) {
        (Expected::Version(_), Key::Request(name)) => {
            let mut caches = state.requests.values();
            let cache = caches.find(|cache| cache.live().contains_key(name));
            let cache = cache.or_else(|| state.requests.get(&None));
            cache.map(Cache::progress).unwrap_or_default()
        }
        (Expected::Version(_), Key::Configs) => state.offer.progress(),
        (Expected::Version(_) | Expected::NoAddon { .. }, _) => state.addons.progress(),
        (Expected::Work { .. } | Expected::NoWork { .. }, _) => state.works.progress(),
        (Expected::Permission { part, .. }, _) => {
            let cache = state.permissions.get(part);
            cache.map(Cache::progress).unwrap_or_default()
        }
    }
}

impl Expected {
    fn is_seen(&self, state: &State, key: &Key, then: &Progress) -> bool {
        let is_delivered = |version: &str| {
            let progress = progress(state, key, self);
            // A version that is not a number cannot be compared.
            cache::version(version).is_none_or(|version| progress.covers(version, then))
        };
        match (self, key) {
            // It existed when it was written: now it is gone.
            (Self::Version(version), Key::Request(name)) => {
                state.request(name).is_none() || is_delivered(version)
            }
            (
                Self::Version(version)
                | Self::Work { version }
                | Self::Permission {
                    version: Some(version),
                    ..
                },
                Key::Cluster(_) | Key::Configs,
            ) => is_delivered(version),
            (Self::NoAddon { uid }, Key::Cluster(cluster)) => {
                let live = state.addons.live().get(cluster);
                live.is_none_or(|it| it.is_deleting() || it.metadata.uid.as_ref() != Some(uid))
            }
            (Self::NoWork { namespace, name }, Key::Cluster(cluster)) => {
                work(state, cluster, namespace, name).is_none_or(|work| work.deleting)
            }
            (
                Self::Permission {
                    part,
                    version: None,
                },
                Key::Cluster(cluster),
            ) => {
                let cache = state.permissions.get(part);
                cache.is_none_or(|cache| !cache.live().contains_key(cluster))
            }
            (
                Self::NoAddon { .. }
                | Self::Work { .. }
                | Self::NoWork { .. }
                | Self::Permission { .. },
                Key::Request(_) | Key::Configs,
            ) => true,
        }
    }
}

fn work<'a>(
    state: &'a State,
    cluster: &ClusterName,
    namespace: &str,
    name: &str,
) -> Option<&'a super::Work> {
    let key = (cluster.clone(), namespace.to_owned(), name.to_owned());
    state.works.live().get(&key).map(AsRef::as_ref)
}

#[cfg(test)]
mod tests;
