//! One write to a mirror, against the version that it was decided on.

use std::sync::Arc;

use argocd::{Meta, Patch};
use protocol::{Kind, ObjectKey};
use serde_json::Value;
use tokio::time::error::Elapsed;

use super::super::{
    Hub, Key, State,
    index::{Effect, Entry},
    spans,
    store::{Watched, WriteError},
};

/// A write with this many conflicts waits for its next turn.
const ATTEMPTS: usize = 4;

/// The next write for the hub's current object.
#[derive(Debug)]
pub(super) enum Step {
    /// None: it is up to date.
    Nothing,
    Create(Value),
    Patch(Patch),
    Delete,
}

impl Step {
    const fn word(&self) -> &'static str {
        match self {
            Self::Nothing => "keep",
            Self::Create(_) => "create",
            Self::Patch(_) => "patch",
            Self::Delete => "delete",
        }
    }
}

/// The hub's current object.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) object: Arc<Value>,
    /// Its entry in the index, if it is an Application.
    pub(super) entry: Option<Entry>,
}

pub(super) fn watched(kind: Kind) -> Option<Watched> {
    match kind {
        Kind::Application => Some(Watched::Application),
        Kind::AppProject => Some(Watched::AppProject),
        Kind::Repository | Kind::GpgKey | Kind::TlsCerts | Kind::SshKnownHosts => None,
    }
}

/// The outcome of a write.
#[derive(Debug)]
pub(super) struct Written {
    /// Whether anything was written.
    pub(super) changed: bool,
    /// The hub's object after the write, as far as it is known.
    pub(super) object: Option<Arc<Value>>,
}

impl Hub {
    /// Writes the step of `plan`; plans again after a conflict.
    pub(super) async fn write_mirror(
        &self,
        key: &ObjectKey,
        plan: impl Fn(Option<&Live>) -> Step,
    ) -> Result<Written, WriteError> {
        let unchanged = |live: Option<Live>| Written {
            changed: false,
            object: live.map(|live| live.object),
        };
        let Some(kind) = watched(key.kind) else {
            return Ok(unchanged(None));
        };
        for _ in 0..ATTEMPTS {
            let live = live(&self.lock(), key);
            let step = plan(live.as_ref());
            if matches!(step, Step::Nothing) {
                return Ok(unchanged(live));
            }
            let written = self.carry_out(kind, key, live.as_ref(), step).await;
            self.metrics
                .hub_write(written.as_ref().map_or_else(WriteError::reason, |_| "ok"));
            match written {
                Ok(object) => {
                    return Ok(Written {
                        changed: true,
                        object,
                    });
                }
                Err(WriteError::Conflict) => self
                    .wait_for_mirror_update(key, live.as_ref())
                    .await
                    .map_err(|_late| WriteError::Conflict)?,
                // The step may fit the object of the next watch event; without one it never will.
                Err(WriteError::Unfit(reason)) => self
                    .wait_for_mirror_update(key, live.as_ref())
                    .await
                    .map_err(|_late| WriteError::Refused(reason))?,
                Err(error) => return Err(error),
            }
        }
        Err(WriteError::Conflict)
    }

    /// Sends one request; its result counts at once.
    async fn carry_out(
        &self,
        kind: Watched,
        key: &ObjectKey,
        live: Option<&Live>,
        step: Step,
    ) -> Result<Option<Arc<Value>>, WriteError> {
        let place = Key {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        };
        let known = live.map(|live| Meta::of(&live.object));
        let version = known.map(Meta::resource_version).unwrap_or_default();
        let uid = known.map(Meta::uid).unwrap_or_default();
        let _counted = self.metrics.hub_write_now();
        // Fair: the longest waiting writer is next, for any cluster.
        let _permit = self.writes.acquire().await;
        // Dropped at the end of this function.
        let _span = spans::writing(step.word(), key);
        let making = matches!(step, Step::Create(_)).then(|| Making::begin(self, key));
        let answer = match step {
            Step::Nothing => return Ok(None),
            Step::Create(object) => {
                self.lock().mirrors.note_pending(key, true);
                let made = self.store.create(kind, &object).await;
                // Otherwise the object may exist without a report of it, also after a conflict of names.
                if matches!(made, Err(WriteError::Refused(_) | WriteError::NotFound)) {
                    self.lock().mirrors.note_pending(key, false);
                }
                made?
            }
            Step::Patch(patch) => self.store.patch(kind, &place, version, patch).await?,
            Step::Delete => {
                self.store.delete(kind, &place, uid, version).await?;
                let mut state = self.lock();
                state.mirrors.went(key, uid);
                let effects = match kind {
                    Watched::Application => state.index.remove_application(&place, uid),
                    Watched::AppProject => state.index.remove_project(&place.name, uid),
                    Watched::Repository
                    | Watched::GpgKey
                    | Watched::TlsCerts
                    | Watched::SshKnownHosts => Vec::new(),
                };
                self.post(&state, effects);
                return Ok(None);
            }
        };
        self.observe_mirror(kind, key, answer.clone(), making.is_some());
        drop(making);
        let state = self.lock();
        let shared = state
            .index
            .object(key)
            .filter(|object| version_of(object) == version_of(&answer));
        Ok(Some(shared.map_or_else(|| Arc::new(answer), Arc::clone)))
    }

    /// Updates the index with our own write. A command in the cluster's own report is no new command to that cluster,
    /// and an object that was deleted before the response arrived stays deleted.
    fn observe_mirror(&self, kind: Watched, key: &ObjectKey, object: Value, is_made: bool) {
        let meta = Meta::of(&object);
        let mut state = self.lock();
        // From here on the index has it.
        state.mirrors.note_pending(key, false);
        let uid = meta.uid();
        let known = state.index.object(key);
        let is_known = known.is_some_and(|known| Meta::of(known).uid() == uid);
        let is_there = is_known || (is_made && !state.mirrors.making.has_gone(key, uid));
        if !is_there || (meta.is_deleting() && meta.finalizers().is_empty()) {
            return;
        }
        if !is_known {
            state.mirrors.answered(key, uid);
        }
        let mut effects = match kind {
            Watched::Application => state.index.set_application(object, false),
            Watched::AppProject => state.index.set_written_project(object),
            Watched::Repository | Watched::GpgKey | Watched::TlsCerts | Watched::SshKnownHosts => {
                Vec::new()
            }
        };
        effects.retain(|effect| !matches!(effect, Effect::Command { .. }));
        self.post(&state, effects);
    }

    /// Waits until the watch has reported the conflicting write.
    async fn wait_for_mirror_update(
        &self,
        key: &ObjectKey,
        before: Option<&Live>,
    ) -> Result<(), Elapsed> {
        let before = before.map(|live| version_of(&live.object));
        self.wait_while(|state| state.index.object(key).map(|it| version_of(it)) == before)
            .await
    }
}

/// A create in flight; deletions before its response are remembered.
struct Making<'a> {
    hub: &'a Hub,
    key: &'a ObjectKey,
}

impl<'a> Making<'a> {
    fn begin(hub: &'a Hub, key: &'a ObjectKey) -> Self {
        hub.lock().mirrors.making.begin(key.clone());
        Self { hub, key }
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.hub.lock().mirrors.making.end(self.key);
    }
}

fn version_of(object: &Value) -> (String, String) {
    let meta = Meta::of(object);
    (meta.uid().to_owned(), meta.resource_version().to_owned())
}

fn live(state: &State, key: &ObjectKey) -> Option<Live> {
    let object = Arc::clone(state.index.object(key)?);
    let entry = Key::from_object(key).and_then(|key| state.index.application(&key).cloned());
    Some(Live { object, entry })
}
