//! Writes to the spoke's API.

use std::sync::Arc;
use std::time::Duration;

use argocd::projection::{Written, patch_for_spoke};
use argocd::{Meta, Patch};
use protocol::ObjectKey;
use serde_json::{Value, json};

use super::plan::Step;
use crate::metrics::{Metrics, WriteKind};
use crate::sync::api::{self, Spoke};
use crate::sync::cache::Store;
use crate::sync::spans;

mod error;

pub(super) use error::Error;

/// Timeout of one write; a working API server answers in milliseconds.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// Timeout of the check whether the API accepts our identity; an unavailable API must not delay the session.
const IDENTITY_TIMEOUT: Duration = Duration::from_secs(5);
/// Patches per write; a difference that remains is the API server's normal form.
const PATCHES: usize = 2;

/// Carries out the steps of plans.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    pub(super) spoke: Arc<dyn Spoke>,
    pub(super) store: Arc<Store>,
    pub(super) metrics: Metrics,
    /// Whether it creates missing namespaces.
    pub(super) creates_namespaces: bool,
}

impl Writer {
    /// Carries out one step; returns the written form of `desired` if the step wrote it.
    pub(super) async fn carry_out(
        &self,
        key: &ObjectKey,
        step: Step,
        desired: Option<&Value>,
    ) -> Result<Option<Written>, Error> {
        match step {
            Step::Create(object) => {
                let object = self.with_records(key, object);
                let answer = self.create_in_its_namespace(key, &object).await?;
                let desired = desired.unwrap_or(&object);
                self.converge(key, answer, desired).await.map(Some)
            }
            Step::Converge { uid } => {
                let live = self
                    .store
                    .live(key)
                    .filter(|live| Meta::of(live).uid() == uid);
                match (live, desired) {
                    (Some(live), Some(desired)) => {
                        self.converge(key, live, desired).await.map(Some)
                    }
                    (None, _) | (_, None) => Err(Error::Write {
                        write: "patch",
                        object: key.clone(),
                        source: api::Error::Stale,
                    }),
                }
            }
            Step::Patch { uid, patch } => self.patch(key, &uid, patch).await.map(|_answer| None),
            Step::Delete { uid } => self.delete(key, &uid).await.map(|()| None),
        }
    }

    /// Creates the object, and its namespace if that is missing and the settings allow it.
    async fn create_in_its_namespace(
        &self,
        key: &ObjectKey,
        object: &Value,
    ) -> Result<Arc<Value>, Error> {
        let made = self.create(key, object).await;
        let missing = matches!(&made, Err(error) if error.misses_namespace());
        if !missing || !self.creates_namespaces {
            return made;
        }
        let namespace = &key.namespace;
        tracing::info!(
            namespace,
            "creating a namespace for an Application of the hub"
        );
        let write = "create the namespace of";
        let making = self.spoke.make_namespace(namespace);
        self.bounded(WriteKind::Create, write, key, making).await?;
        self.create(key, object).await
    }

    /// Patches until nothing differs, at most twice: a remaining difference is the API server's normal
    /// form, and not a concurrent edit.
    async fn converge(
        &self,
        key: &ObjectKey,
        live: Arc<Value>,
        desired: &Value,
    ) -> Result<Written, Error> {
        let mut live = live;
        for _ in 0..PATCHES {
            let Some(patch) = patch_for_spoke(&live, desired) else {
                break;
            };
            let meta = Meta::of(&live);
            let patch = match patch {
                // Its paths fit only this version.
                Patch::Json(_) => patch.under(meta.resource_version()),
                Patch::Merge(_) => patch,
            };
            let uid = meta.uid().to_owned();
            live = self.patch(key, &uid, patch).await?;
        }
        Ok(Written::new(desired, &live))
    }

    /// Adds the records of commands that an earlier copy has taken.
    fn with_records(&self, key: &ObjectKey, mut object: Value) -> Value {
        let source_uid = Meta::of(&object).source_uid().unwrap_or_default();
        let taken = self.store.taken(key, source_uid).into_iter();
        let has_newer = |record| Meta::of(&object).annotation(record).is_some();
        let taken: Vec<_> = taken.filter(|(record, _)| !has_newer(record)).collect();
        for (record, value) in taken {
            let annotations = json!({ record: value });
            let metadata = json!({ "metadata": { "annotations": annotations } });
            argocd::patch::merge(&mut object, &metadata);
        }
        object
    }

    async fn create(&self, key: &ObjectKey, object: &Value) -> Result<Arc<Value>, Error> {
        let making = self.store.making(key.clone());
        let create = self.spoke.create(key, object);
        let answer = self
            .bounded(WriteKind::Create, "create", key, create)
            .await?;
        let answer = Arc::new(answer);
        making.made(&answer);
        Ok(answer)
    }

    async fn patch(&self, key: &ObjectKey, uid: &str, patch: Patch) -> Result<Arc<Value>, Error> {
        let patch = self.spoke.patch(key, uid, patch);
        let answer = self.bounded(WriteKind::Patch, "patch", key, patch).await?;
        let answer = Arc::new(answer);
        self.store.written(key, &answer);
        Ok(answer)
    }

    async fn delete(&self, key: &ObjectKey, uid: &str) -> Result<(), Error> {
        let delete = self.spoke.delete(key, uid);
        let deleted = self.bounded(WriteKind::Delete, "delete", key, delete).await;
        match deleted {
            Ok(left) => {
                // The next plan must see the deletion even before the watch reports it.
                if let Some(left) = left {
                    self.store.written(key, &Arc::new(left));
                }
                Ok(())
            }
            Err(error) if error.is_stale() && self.store.live(key).is_none() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether the spoke has the object; asks the API server instead of the cache.
    pub(super) async fn finds(&self, key: &ObjectKey) -> Result<bool, Error> {
        in_time("look for", key, self.spoke.has(key)).await
    }

    /// Whether the spoke's API accepts our identity; true unless it answers 401.
    pub(super) async fn is_known(&self) -> bool {
        let asked = tokio::time::timeout(IDENTITY_TIMEOUT, self.spoke.knows_us()).await;
        asked.unwrap_or(true)
    }

    async fn bounded<T>(
        &self,
        kind: WriteKind,
        write: &'static str,
        key: &ObjectKey,
        call: impl Future<Output = Result<T, api::Error>>,
    ) -> Result<T, Error> {
        self.metrics.writes.count(kind.as_str());
        let span = spans::writing(kind.as_str(), key);
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
    let object = || key.clone();
    match tokio::time::timeout(WRITE_TIMEOUT, call).await {
        Err(_elapsed) => Err(Error::Timeout {
            write,
            object: object(),
        }),
        Ok(answer) => answer.map_err(|source| Error::Write {
            write,
            object: object(),
            source,
        }),
    }
}
