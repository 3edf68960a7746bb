//! One write to the hub: only if something differs, only against the version it was computed from.

use std::sync::Arc;

use argocd::Meta;

use protocol::ObjectKey;
use tokio::sync::Semaphore;

use super::{
    index::{Effect, Entry},
    objects::{Objects, State},
    spans,
};
use crate::{
    domain::{Key, Placement},
    metrics::Metrics,
    settings::Settings,
    store::{Packed, Step, Store, Watched, WriteError},
};

/// So many conflicts mean a client that writes all the time; the write waits for its next turn.
const ATTEMPTS: usize = 4;

/// Writes to the hub.
#[derive(Debug)]
pub(super) struct Writer {
    objects: Arc<Objects>,
    pub(super) store: Arc<dyn Store>,
    permits: Semaphore,
    limit: usize,
    metrics: Metrics,
}

/// The hub's current object.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) object: Arc<Packed>,
    /// Its entry in the index, if it is an Application.
    pub(super) entry: Option<Entry>,
}

/// The outcome of a write.
#[derive(Debug)]
pub(super) struct Written {
    /// Whether anything was written.
    pub(super) changed: bool,
    /// The hub's object after the write, as far as it is known.
    pub(super) object: Option<Arc<Packed>>,
}

impl Writer {
    pub(super) fn new(
        objects: Arc<Objects>,
        store: Arc<dyn Store>,
        settings: &Settings,
        metrics: Metrics,
    ) -> Self {
        metrics.hub_write_limit(settings.limits.writes);
        Self {
            objects,
            store,
            permits: Semaphore::new(settings.limits.writes),
            limit: settings.limits.writes,
            metrics,
        }
    }

    /// The requests that run now.
    pub(super) fn running(&self) -> usize {
        self.limit.saturating_sub(self.permits.available_permits())
    }

    /// Patches an Application as `plan` wants it; true if that changed it. One that is gone needs no patch.
    pub(super) async fn patch(
        &self,
        key: &Key,
        mut plan: impl FnMut(&Entry) -> Option<argocd::Patch>,
    ) -> Result<bool, WriteError> {
        let patch = |live: Option<&Live>| {
            let entry = live.and_then(|live| live.entry.as_ref());
            entry.and_then(&mut plan).map_or(Step::Nothing, Step::Patch)
        };
        match self.write(&key.object(), patch).await {
            Ok(written) => Ok(written.changed),
            Err(WriteError::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes the step of `plan`, which gets the hub's object; plans again after a conflict.
    pub(super) async fn write(
        &self,
        key: &ObjectKey,
        mut plan: impl FnMut(Option<&Live>) -> Step,
    ) -> Result<Written, WriteError> {
        for _ in 0..ATTEMPTS {
            // A clone is two reference counts and small strings; the plan runs outside the lock.
            let live = live(&self.objects.lock(), key);
            let step = plan(live.as_ref());
            let before = live.as_ref().map(|live| version_of(&live.object));
            if step == Step::Nothing {
                let (changed, object) = (false, live.map(|live| live.object));
                return Ok(Written { changed, object });
            }
            let written = self.carry_out(key, live.as_ref(), step).await;
            self.metrics
                .hub_write(written.as_ref().map_or_else(WriteError::reason, |_| "ok"));
            let changed = true;
            let late = match written {
                Ok(object) => return Ok(Written { changed, object }),
                Err(WriteError::Conflict) => WriteError::Conflict,
                // The step may fit the object of the next watch event; without one it never will.
                Err(WriteError::Unfit(reason)) => WriteError::Refused(reason),
                Err(error) => return Err(error),
            };
            // Until the watch has reported the conflicting write. A read of our own would need another permission.
            let is_old = |state: &State| state.index.object(key).map(|it| version_of(it)) == before;
            let updated = self.objects.wait_while(is_old).await;
            updated.map_err(|_elapsed| late)?;
        }
        Err(WriteError::Conflict)
    }

    /// Sends one request; its result counts at once, without waiting for the watch.
    async fn carry_out(
        &self,
        key: &ObjectKey,
        live: Option<&Live>,
        step: Step,
    ) -> Result<Option<Arc<Packed>>, WriteError> {
        let (kind, place) = (key.kind, Key::from(key));
        let known = live.map(|live| live.object.meta());
        let version = known.map(Meta::resource_version).unwrap_or_default();
        let uid = known.map(Meta::uid).unwrap_or_default();
        let _counted = self.metrics.hub_write_now();
        // Fair: the longest waiting writer is next, for any cluster.
        let _permit = self.permits.acquire().await;
        // Ends with this function.
        let mut span = spans::writing(word(&step), key);
        let making = matches!(step, Step::Create(_)).then(|| Making::begin(&self.objects, key));
        let answer = match step {
            Step::Nothing => return Ok(None),
            Step::Create(object) => {
                self.objects.lock().mirrors.note_pending(key, true);
                let made = self.store.create(kind, &object).await;
                // Otherwise the object may exist without a report of it, also after a conflict of names.
                if matches!(made, Err(WriteError::Refused(_) | WriteError::NotFound)) {
                    self.objects.lock().mirrors.note_pending(key, false);
                }
                made.map(Some)
            }
            Step::Patch(patch) => (self.store.patch(kind, &place, version, patch).await).map(Some),
            Step::Delete => (self.store.delete(kind, &place, uid, version).await).map(|()| None),
        };
        if let Some(span) = &mut span {
            span.ended(&answer);
        }
        let Some(object) = answer? else {
            let mut state = self.objects.lock();
            state.mirrors.went(key, uid);
            let effects = state.index.remove(key, uid);
            self.begin_delivery(&state, key, &effects);
            self.objects.post(&state, effects);
            return Ok(None);
        };
        let object = Arc::new(object);
        self.observe(key, &object, making.is_some());
        drop(making);
        // The watch may have reported it first.
        let state = self.objects.lock();
        let shared = state.index.object(key);
        let shared = shared.filter(|shared| version_of(shared) == version_of(&object));
        Ok(Some(Arc::clone(shared.unwrap_or(&object))))
    }

    /// Updates the index with our own write. An object that was deleted before the response arrived, or by this write,
    /// stays deleted: no watch event would correct that.
    fn observe(&self, key: &ObjectKey, object: &Arc<Packed>, is_made: bool) {
        let (meta, uid) = (object.meta(), object.meta().uid());
        let mut state = self.objects.lock();
        // From here on the index has it.
        state.mirrors.note_pending(key, false);
        let known = state.index.object(key);
        let is_known = known.is_some_and(|known| known.meta().uid() == uid);
        let is_there = is_known || (is_made && !state.mirrors.making.has_gone(key, uid));
        if !is_there || (meta.is_deleting() && meta.finalizers().is_empty()) {
            return;
        }
        if !is_known {
            state.mirrors.answered(key, uid);
        }
        let mut effects = state.index.set_written(key.kind, Arc::clone(object));
        // A command in the own report of an autonomous cluster is no new command to that cluster.
        let entry = Key::from_object(key).and_then(|key| state.index.application(&key));
        if entry.is_some_and(|entry| matches!(entry.placement, Placement::Mirror(_))) {
            effects.retain(|effect| !matches!(effect, Effect::Command { .. }));
        }
        self.begin_delivery(&state, key, &effects);
        self.objects.post(&state, effects);
    }

    fn begin_delivery(&self, state: &State, key: &ObjectKey, effects: &[Effect]) {
        let listed = state.has_listed(Watched::Application);
        let deliveries = &self.objects.deliveries;
        deliveries.begin(&state.index, key, effects, listed);
    }
}

/// A create in flight; deletions before its response are remembered.
struct Making<'a> {
    objects: &'a Objects,
    key: &'a ObjectKey,
}

impl<'a> Making<'a> {
    fn begin(objects: &'a Objects, key: &'a ObjectKey) -> Self {
        objects.lock().mirrors.making.begin(key.clone());
        Self { objects, key }
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.objects.lock().mirrors.making.end(self.key);
    }
}

/// The operation of a span.
const fn word(step: &Step) -> &'static str {
    match step {
        Step::Nothing => "keep",
        Step::Create(_) => "create",
        Step::Patch(_) => "patch",
        Step::Delete => "delete",
    }
}

fn version_of(object: &Packed) -> (String, String) {
    let meta = object.meta();
    (meta.uid().to_owned(), meta.resource_version().to_owned())
}

fn live(state: &State, key: &ObjectKey) -> Option<Live> {
    let object = Arc::clone(state.index.object(key)?);
    let entry = Key::from_object(key).and_then(|key| state.index.application(&key).cloned());
    Some(Live { object, entry })
}
