//! One write to the hub: only if something differs, only against the version it was computed from.

use std::time::Duration;

use argocd::Patch;
use serde_json::Value;
use tokio::time::error::Elapsed;

use super::{
    Hub, Key, State,
    index::Entry,
    spans,
    store::{Watched, WriteError},
};

/// So many conflicts mean a client that writes all the time; the write waits for its next turn.
const ATTEMPTS: usize = 4;

/// A live watch is far quicker; others wait for a dead one.
const UPDATE_TIMEOUT: Duration = Duration::from_secs(1);

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// The hub has accepted the patch.
    Changed,
    /// Nothing differs.
    Unchanged,
    /// The object is gone, or `plan` returned none.
    Gone,
}

impl Hub {
    /// Patches an Application as `plan` wants it; plans again after a conflict.
    ///
    /// `plan` gets the hub's object, and returns none when this writer must not write to it any more.
    pub(super) async fn write(
        &self,
        key: &Key,
        plan: impl Fn(&Entry) -> Option<Option<Patch>>,
    ) -> Result<Written, WriteError> {
        for _ in 0..ATTEMPTS {
            let Some((version, planned)) = self.plan(key, &plan) else {
                return Ok(Written::Gone);
            };
            let Some(patch) = planned else {
                return Ok(Written::Unchanged);
            };
            let written = {
                let _counted = self.metrics.hub_write_now();
                // Fair: the longest waiting writer is next, for any cluster.
                let _permit = self.writes.acquire().await;
                let span = spans::writing("patch", &key.object());
                let patched = self
                    .store
                    .patch(Watched::Application, key, &version, patch)
                    .await;
                if let Some(mut span) = span {
                    span.ended(&patched);
                }
                patched
            };
            self.metrics
                .hub_write(written.as_ref().map_or_else(WriteError::reason, |_| "ok"));
            match written {
                Ok(object) => {
                    self.observe(object);
                    return Ok(Written::Changed);
                }
                Err(WriteError::Conflict) => self
                    .wait_for_update(key, &version)
                    .await
                    .map_err(|_late| WriteError::Conflict)?,
                // The patch may fit the object of the next watch event; without one it never will.
                Err(WriteError::Unfit(reason)) => self
                    .wait_for_update(key, &version)
                    .await
                    .map_err(|_late| WriteError::Refused(reason))?,
                Err(WriteError::NotFound) => return Ok(Written::Gone),
                Err(error) => return Err(error),
            }
        }
        Err(WriteError::Conflict)
    }

    fn plan(
        &self,
        key: &Key,
        plan: &impl Fn(&Entry) -> Option<Option<Patch>>,
    ) -> Option<(String, Option<Patch>)> {
        // A clone is two reference counts and small strings; the plan runs outside the lock.
        let entry = self.lock().index.application(key)?.clone();
        Some((entry.version().to_owned(), plan(&entry)?))
    }

    /// Waits until the watch has reported the conflicting write. A read of our own would need another permission.
    async fn wait_for_update(&self, key: &Key, version: &str) -> Result<(), Elapsed> {
        self.wait_while(|state| {
            state
                .index
                .application(key)
                .is_some_and(|entry| entry.version() == version)
        })
        .await
    }

    /// Waits for the watch while the known object is old, up to a timeout.
    pub(super) async fn wait_while(&self, is_old: impl Fn(&State) -> bool) -> Result<(), Elapsed> {
        let waiting = async {
            loop {
                let seen = self.updates.count();
                if !is_old(&self.lock()) {
                    return;
                }
                self.updates.since(seen).await;
            }
        };
        tokio::time::timeout(UPDATE_TIMEOUT, waiting).await
    }

    /// Updates the index with our own write, without waiting for the watch.
    fn observe(&self, object: Value) {
        // An object that this write deleted must not come back: only its deletion is left to be reported.
        let meta = argocd::Meta::of(&object);
        if meta.is_deleting() && meta.finalizers().is_empty() {
            return;
        }
        let mut state = self.lock();
        let effects = state.index.set_written_application(object);
        self.post(&state, effects);
    }
}
