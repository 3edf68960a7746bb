//! What has to be looked at, each thing once, in the order in which it came.

use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use indexmap::IndexSet;
use tokio::sync::Notify;

/// Things to look at. Bounded by how many there are.
#[derive(Debug)]
pub(super) struct Dirty<K> {
    // Held for a lookup, never over an await.
    keys: Mutex<IndexSet<K>>,
    changed: Notify,
}

impl<K> Default for Dirty<K> {
    fn default() -> Self {
        Self {
            keys: Mutex::new(IndexSet::new()),
            changed: Notify::new(),
        }
    }
}

impl<K: Hash + Eq> Dirty<K> {
    pub(super) fn mark(&self, key: K) {
        self.keys
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key);
        self.changed.notify_one();
    }

    /// Waits for the next one and takes it. Cancel-safe.
    pub(super) async fn next(&self) -> K {
        loop {
            let first = {
                let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
                keys.shift_remove_index(0)
            };
            match first {
                Some(key) => return key,
                None => self.changed.notified().await,
            }
        }
    }
}
