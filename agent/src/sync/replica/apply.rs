//! Carries out plans: writes to the spoke's API, remembers the results and reports them.

use std::sync::Arc;
use std::time::Duration;

use argocd::projection::Written;
use argocd::{Meta, Patch};
use protocol::{Mode, ObjectKey, Verdict};
use runtime::error::ErrorClass;
use serde_json::{Value, json};

use super::plan::{self, Memory, Plan, Step};
use super::state::Replica;
use crate::sync::api;
use crate::sync::cache::Wanted;
use crate::sync::spans;

mod verdict;

/// Timeout of one write; a working API server answers in milliseconds.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// The pause while the API server is unavailable or busy.
const TRANSIENT_PAUSE: Duration = Duration::from_secs(2);
/// The pause of a command that waits for another one to end.
pub(super) const BUSY_PAUSE: Duration = Duration::from_secs(1);
/// Timeout of the check whether the API accepts our identity; an unavailable API must not delay the session.
const IDENTITY_TIMEOUT: Duration = Duration::from_secs(5);
/// Patches per create or change; a difference that remains is the API server's normal form.
const PATCHES: usize = 2;

/// A write that failed.
#[derive(Debug, thiserror::Error)]
#[error("{write} {object}")]
pub(super) struct Error {
    write: &'static str,
    object: ObjectKey,
    source: api::Error,
}

impl Error {
    /// Whether the cache was stale; a retry with a newer version may succeed.
    const fn is_stale(&self) -> bool {
        matches!(self.source, api::Error::Stale | api::Error::Misfit(_))
    }
}

impl Replica {
    /// Carries out a plan, and remembers its result only if all steps succeed.
    pub(super) async fn apply(
        &self,
        key: &ObjectKey,
        plan: Plan,
        mut wanted: Option<Wanted>,
    ) -> Verdict {
        let (steps, memory) = (plan.steps, plan.memory);
        let is_new = steps.iter().any(|step| matches!(step, Step::Create(_)));
        if !steps.is_empty() {
            if !self.sync_status.borrow().serves(key.kind) {
                tracing::debug!(object = %key, "waits for Argo CD");
                let after = TRANSIENT_PAUSE;
                return Verdict::Retry { after };
            }
            tracing::debug!(object = %key, steps = steps.len(), ?memory, "applying");
            // The watch may report the change before the API answers.
            self.reports.changing(key);
        }
        if memory == Memory::Leaving {
            self.mark_leaving(key, wanted.as_ref());
        }
        if let Err(error) = self.write_all(key, steps, &mut wanted).await {
            return self.verdict(key, &error);
        }
        self.memorise(key, memory, wanted);
        if let Some(source_uid) = plan.gone {
            self.reports.gone(key, &source_uid, None);
        }
        if is_new {
            self.report_unwatched_namespace(key).await;
        }
        Verdict::Done
    }

    /// Carries out steps in order; the first failure ends them. Notes the written form of the desired state.
    pub(super) async fn write_all(
        &self,
        key: &ObjectKey,
        steps: Vec<Step>,
        wanted: &mut Option<Wanted>,
    ) -> Result<(), Error> {
        for step in steps {
            let desired = wanted.as_ref().map(|wanted| &wanted.desired);
            let written = self.write(key, step, desired).await?;
            if let (Some(wanted), Some(written)) = (wanted.as_mut(), written) {
                wanted.written = Some(written);
            }
            // The status in the answer may be newer than the next report of the watch.
            match self.scope.mode {
                Mode::Managed => self.reports.status(key.clone()),
                Mode::Autonomous => self.reports.owned(key.clone()),
            }
        }
        self.backoff.end(key);
        Ok(())
    }

    /// Marks the object as leaving, so that the drift loop does not recreate it.
    ///
    /// Without a digest: until we requested the deletion, the hub must resend it after a lost
    /// connection.
    fn mark_leaving(&self, key: &ObjectKey, wanted: Option<&Wanted>) {
        let known = self.store.get(key).wanted;
        if let Some(wanted) = wanted.or(known.as_deref()) {
            let leaving = Wanted {
                leaving: true,
                digest: String::new(),
                ..wanted.clone()
            };
            self.store.remember(key.clone(), leaving);
        }
    }

    fn memorise(&self, key: &ObjectKey, memory: Memory, wanted: Option<Wanted>) {
        match (memory, wanted) {
            (Memory::Forget, _) => self.store.forget(key),
            (Memory::Want, Some(wanted)) => {
                self.store.remember(key.clone(), wanted);
                // The object may have changed while we wrote.
                self.drift.mark(key.clone());
            }
            (Memory::Leaving, Some(wanted)) => {
                let leaving = Wanted {
                    leaving: true,
                    ..wanted
                };
                self.store.remember(key.clone(), leaving);
                if self.store.live(key).is_none() {
                    // The object is gone already, and the observer reported that.
                    self.store.forget(key);
                }
            }
            (Memory::Keep, _) | (Memory::Want | Memory::Leaving, None) => {}
        }
    }

    /// Carries out one step; returns the written form of `desired` if the step wrote it.
    pub(super) async fn write(
        &self,
        key: &ObjectKey,
        step: Step,
        desired: Option<&Value>,
    ) -> Result<Option<Written>, Error> {
        let (mut live, patched) = match step {
            Step::Create(object) => (self.create_in_its_namespace(key, object).await?, 0),
            Step::Converge { uid, patch } => (self.patch(key, &uid, patch).await?, 1),
            Step::Patch { uid, patch } => return self.patch(key, &uid, patch).await.map(|_| None),
            Step::Delete { uid } => return self.delete(key, &uid).await.map(|()| None),
        };
        let Some(desired) = desired else {
            return Ok(None);
        };
        // The answer may still differ, after a concurrent edit or in the API server's normal form.
        for _ in patched..PATCHES {
            let Some(patch) = plan::difference(&live, desired) else {
                break;
            };
            let uid = Meta::of(&live).uid().to_owned();
            live = self.patch(key, &uid, patch).await?;
        }
        Ok(Some(Written::new(desired, &live)))
    }

    /// Creates the object, and its namespace if that is missing and the settings allow it.
    async fn create_in_its_namespace(
        &self,
        key: &ObjectKey,
        object: Value,
    ) -> Result<Arc<Value>, Error> {
        let object = self.with_records(key, object);
        let made = self.create(key, &object).await;
        let missing =
            matches!(&made, Err(error) if matches!(error.source, api::Error::NoNamespace(_)));
        if !missing || !self.scope.create_namespaces {
            return made;
        }
        let namespace = &key.namespace;
        tracing::info!(
            namespace,
            "creating a namespace for an Application of the hub"
        );
        let write = "create the namespace of";
        let making = self.spoke.make_namespace(namespace);
        self.bounded("create", write, key, making).await?;
        self.create(key, &object).await
    }

    /// Adds the records of commands that an earlier copy has taken.
    fn with_records(&self, key: &ObjectKey, mut object: Value) -> Value {
        let source_uid = Meta::of(&object).source_uid().unwrap_or_default();
        for (record, value) in self.store.taken(key, source_uid) {
            if Meta::of(&object).annotation(record).is_none() {
                let annotations = json!({ record: value });
                let metadata = json!({ "metadata": { "annotations": annotations } });
                argocd::patch::merge(&mut object, &metadata);
            }
        }
        object
    }

    async fn create(&self, key: &ObjectKey, object: &Value) -> Result<Arc<Value>, Error> {
        let making = self.store.making(key.clone());
        let create = self.spoke.create(key, object);
        let answer = Arc::new(self.bounded("create", "create", key, create).await?);
        making.made(&answer);
        Ok(answer)
    }

    async fn patch(&self, key: &ObjectKey, uid: &str, patch: Patch) -> Result<Arc<Value>, Error> {
        let patch = self.spoke.patch(key, uid, patch);
        let answer = Arc::new(self.bounded("patch", "patch", key, patch).await?);
        self.store.written(key, &answer);
        Ok(answer)
    }

    async fn delete(&self, key: &ObjectKey, uid: &str) -> Result<(), Error> {
        let delete = self.spoke.delete(key, uid);
        match self.bounded("delete", "delete", key, delete).await {
            // The next plan must see the deletion even before the watch reports it.
            Ok(Some(left)) => self.store.written(key, &Arc::new(left)),
            Ok(None) => {}
            Err(error) if error.is_stale() && self.store.live(key).is_none() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Whether the spoke has the object; asks the API server instead of the cache.
    pub(super) async fn finds(&self, key: &ObjectKey) -> Result<bool, Error> {
        in_time("look for", key, self.spoke.has(key)).await
    }

    /// Whether the spoke's API accepts our identity; true unless it answers 401.
    pub async fn is_known(&self) -> bool {
        let asked = tokio::time::timeout(IDENTITY_TIMEOUT, self.spoke.knows_us()).await;
        asked.unwrap_or(true)
    }

    async fn bounded<T>(
        &self,
        kind: &'static str,
        write: &'static str,
        key: &ObjectKey,
        call: impl Future<Output = Result<T, api::Error>>,
    ) -> Result<T, Error> {
        self.metrics.writes.count(kind);
        let span = spans::writing(kind, key);
        let outcome = in_time(write, key, call).await;
        if let Some(mut span) = span {
            span.ended(&outcome);
        }
        if outcome.is_err() {
            self.metrics.write_failures.inc();
        }
        outcome
    }
}

async fn in_time<T>(
    write: &'static str,
    key: &ObjectKey,
    call: impl Future<Output = Result<T, api::Error>>,
) -> Result<T, Error> {
    let answer = tokio::time::timeout(WRITE_TIMEOUT, call).await;
    let answer = answer.unwrap_or_else(|_elapsed| {
        Err(api::Error::Failed {
            error_class: ErrorClass::Transient,
            source: format!("timed out after {WRITE_TIMEOUT:?}").into(),
        })
    });
    answer.map_err(|source| Error {
        write,
        object: key.clone(),
        source,
    })
}
