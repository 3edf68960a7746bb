//! Own writes that the watches have not delivered yet.

use std::time::Duration;

use tokio::time::Instant;

use super::State;
use crate::sdk::{
    cache::{self, Cache, Progress},
    key::Key,
    permissions::Part,
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
    NoAddon(String),
    /// A work for the cluster, in the version that the hub returned.
    Work(String),
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

impl Wait {
    pub(super) fn new(state: &State, key: &Key, expected: Expected, now: Instant) -> Self {
        let (then, _) = expected.watched(state, key);
        Self {
            expected,
            then,
            last: (then, now),
            since: now,
        }
    }

    /// Whether to wait longer for this write.
    pub(super) fn lasts(&mut self, state: &State, key: &Key, now: Instant) -> bool {
        let (progress, shown) = self.expected.watched(state, key);
        if !progress.is_idle_since(&self.last.0) {
            self.last = (progress, now);
        }
        let Some(version) = self.expected.version() else {
            return !shown && now.duration_since(self.since) < REMOVAL;
        };
        let covers = |version| progress.covers(version, &self.then);
        let delivered = cache::version(version).is_none_or(covers);
        !shown && !delivered && now.duration_since(self.last.1) < SILENCE
    }
}

impl Expected {
    /// The version that the hub returned; none for a deletion.
    fn version(&self) -> Option<&str> {
        match self {
            Self::Version(version) | Self::Work(version) => Some(version),
            Self::Permission { version, .. } => version.as_deref(),
            Self::NoAddon(_) | Self::NoWork { .. } => None,
        }
    }

    /// The progress of the watch that delivers the write, and whether there is nothing to wait for at any version.
    fn watched(&self, state: &State, key: &Key) -> (Progress, bool) {
        match (self, key) {
            (Self::Version(_), Key::Cluster(_)) => (state.addons.progress(), false),
            (Self::Version(_), Key::Configs) => (state.offer.progress(), false),
            (Self::Version(_), Key::Request(name)) => {
                let mut caches = state.requests.values();
                let cache = caches.find(|cache| cache.live().contains_key(name));
                let followed = cache.or_else(|| state.requests.get(&None));
                let progress = followed.map(Cache::progress);
                (progress.unwrap_or_default(), cache.is_none())
            }
            (Self::Work(_), _) => (state.works.progress(), false),
            (Self::NoAddon(uid), Key::Cluster(cluster)) => {
                let live = state.addons.live().get(cluster);
                let gone =
                    live.is_none_or(|it| it.is_deleting() || it.metadata.uid.as_ref() != Some(uid));
                (state.addons.progress(), gone)
            }
            (Self::NoWork { namespace, name }, Key::Cluster(cluster)) => {
                let key = (cluster.clone(), namespace.clone(), name.clone());
                let work = state.works.live().get(&key);
                (
                    state.works.progress(),
                    work.is_none_or(|work| work.deleting),
                )
            }
            (Self::Permission { part, version }, Key::Cluster(cluster)) => {
                let cache = state.permissions.get(part);
                let is_there = cache.is_some_and(|it| it.live().contains_key(cluster));
                let progress = cache.map(Cache::progress).unwrap_or_default();
                (progress, version.is_none() && !is_there)
            }
            // Only clusters have add-ons, works and permissions.
            (
                Self::NoAddon(_) | Self::NoWork { .. } | Self::Permission { .. },
                Key::Request(_) | Key::Configs,
            ) => (Progress::default(), true),
        }
    }
}

#[cfg(test)]
mod tests;
