//! How an agent calls the keys of its cluster's redis.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use live::cache_key::CacheKey;
use tokio::time::Instant;

use crate::fleet::ClusterName;

/// How long an agent that left a key unanswered is not asked so again: it may have had much to do.
const UNANSWERED: Duration = Duration::from_secs(15);

/// How an agent wants the keys of Applications in its Argo CD's own namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyFormat {
    /// It takes away what is before the underscore, which is its name at the hub (namespace mapping).
    Prefixed,
    /// As its Argo CD has them (destination mapping). What an agent of the other kind is asked like this, it leaves
    /// unanswered.
    Bare,
}

/// Agents do not announce their key format, but one that answers to a bare key can only be of the second kind, and
/// one that has a value under a prefixed key is of the first. Silence proves nothing.
#[derive(Debug, Default)]
pub(super) struct LearnedKeyFormat(Mutex<KeyKnowledge>);

#[derive(Clone, Copy, Debug, Default)]
struct KeyKnowledge {
    keys: Option<KeyFormat>,
    /// No probe before this time.
    retry_at: Option<Instant>,
}

impl LearnedKeyFormat {
    pub(super) fn get(&self) -> Option<KeyFormat> {
        self.lock().keys
    }

    pub(super) fn set(&self, keys: KeyFormat) {
        self.lock().keys = Some(keys);
    }

    /// Whether the bare key may be probed now.
    pub(super) fn may_try(&self) -> bool {
        self.lock().retry_at.is_none_or(|at| at <= Instant::now())
    }

    pub(super) fn unanswered(&self) {
        self.lock().retry_at = Some(Instant::now() + UNANSWERED);
    }

    fn lock(&self) -> MutexGuard<'_, KeyKnowledge> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The key in this format; none if the format cannot express it.
pub(super) fn wire_key(cluster: &ClusterName, key: &CacheKey, keys: KeyFormat) -> Option<String> {
    match (keys, &key.namespace) {
        // It reads keys of four fields only.
        (KeyFormat::Prefixed, _) if key.shard.is_some() => None,
        (KeyFormat::Bare, _) | (KeyFormat::Prefixed, Some(_)) => Some(key.to_string()),
        (KeyFormat::Prefixed, None) => {
            let prefixed = key.of(Some(cluster.to_string()), key.name.clone());
            Some(prefixed.to_string())
        }
    }
}
