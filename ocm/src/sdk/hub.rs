//! The context of the watches and the reconciles.

use std::sync::Arc;

use kube::Client;
use tokio::sync::Mutex;

use super::{
    event::Events,
    key::Key,
    metrics::{Metrics, Written},
    object_cache::{Expected, ObjectCache},
    queue::PendingWork,
};
use crate::api::addon::Version;

/// The context of every watch and every reconcile.
pub(crate) struct Hub<A> {
    pub(crate) addon: Arc<A>,
    pub(crate) client: Client,
    pub(crate) version: Version,
    pub(crate) world: Arc<ObjectCache>,
    pub(crate) events: Events,
    pub(crate) metrics: Metrics,
    pub(crate) pending: PendingWork<Key>,
    /// Locked by the watch that lists.
    pub(crate) lists: Mutex<()>,
}

impl<A> Hub<A> {
    /// Counts a write for a key, which then waits until the cache shows the write.
    pub(crate) fn wrote(&self, key: Key, what: Written, expected: Expected) {
        self.metrics.wrote(what);
        self.world.expect(key, expected);
    }
}
