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

/// A write that loses this often loses to somebody who writes all the time; it waits for its next turn.
const ATTEMPTS: usize = 4;

/// A watch that is alive is far quicker; one that is not is waited for elsewhere.
const NEWS: Duration = Duration::from_secs(1);

/// What a write came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// The hub has taken it.
    Changed,
    /// The hub has it already.
    Unchanged,
    /// There is nothing to write to, or not for this purpose any more.
    Gone,
}

impl Hub {
    /// Patches an Application as `plan` wants it, which is asked anew whenever somebody else was quicker.
    ///
    /// `plan` gets what the hub has, and says none when this writer has no business there any more.
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
                // Fair: whoever waits longest is next, whichever cluster it writes for.
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
                    .wait_for_news(key, &version)
                    .await
                    .map_err(|_late| WriteError::Conflict)?,
                // Against what the watch has told since, it may fit; if there is no news, it never will.
                Err(WriteError::Unfit(reason)) => self
                    .wait_for_news(key, &version)
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
        // A clone is two reference counts and small strings; the plan itself is made outside the lock.
        let entry = self.lock().index.application(key)?.clone();
        Some((entry.version().to_owned(), plan(&entry)?))
    }

    /// Waits until the watch has told what somebody else wrote. Reading it ourselves would take a right more.
    async fn wait_for_news(&self, key: &Key, version: &str) -> Result<(), Elapsed> {
        self.wait_while(|state| {
            state
                .index
                .application(key)
                .is_some_and(|entry| entry.version() == version)
        })
        .await
    }

    /// Waits for the watch while what is known is old, but not for long.
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
        tokio::time::timeout(NEWS, waiting).await
    }

    /// What we wrote counts at once, without waiting for the watch to tell it.
    fn observe(&self, object: Value) {
        // An object that went with this write must not come back: only its deletion is left to be reported.
        let meta = argocd::Meta::of(&object);
        if meta.is_deleting() && meta.finalizers().is_empty() {
            return;
        }
        let mut state = self.lock();
        let effects = state.index.set_written_application(object);
        self.post(&state, effects);
    }
}
