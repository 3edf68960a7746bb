//! The state of the replica, which its parts share.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use protocol::ObjectKey;
use tokio::sync::{Mutex, MutexGuard, watch};

use super::cache_status::CacheStatus;
use super::drift::Drift;
use super::stale_cache_backoff::StaleCacheBackoff;
use crate::config::{Policy, Scope};
use crate::metrics::Metrics;
use crate::sync::api::Spoke;
use crate::sync::cache::Store;
use crate::sync::report::Reports;

/// Number of locks; two objects rarely share one.
const LOCKS: usize = 64;

/// Applies the hub's desired state to the spoke.
#[derive(Debug)]
pub struct Replica {
    pub(super) spoke: Arc<dyn Spoke>,
    pub(super) scope: Scope,
    pub(super) policy: Policy,
    pub(super) metrics: Metrics,
    pub(super) store: Arc<Store>,
    pub(super) reports: Arc<Reports>,
    /// How complete the caches are.
    pub(super) sync_status: watch::Sender<CacheStatus>,
    pub(super) drift: Drift,
    pub(super) backoff: StaleCacheBackoff,
    /// One task at a time writes an object.
    pub(super) locks: Locks,
}

/// One object always has the same lock; others may share it.
#[derive(Debug)]
pub(super) struct Locks([Mutex<()>; LOCKS]);

impl Default for Locks {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }
}

impl Locks {
    /// The right to write this object, for one task at a time.
    pub(super) async fn lock(&self, key: &ObjectKey) -> Option<MutexGuard<'_, ()>> {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
        let slot = usize::try_from(hash % LOCKS as u64).unwrap_or_default();
        Some(self.0.get(slot)?.lock().await)
    }
}
