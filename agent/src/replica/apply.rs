//! Writes to the spoke's API.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use argocd::projection::{Written, patch_for_spoke};
use argocd::{Meta, Patch};
use kube::api::{
    DeleteParams, DynamicObject, Patch as Body, PatchParams, PostParams, Preconditions,
};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use protocol::{Kind, ObjectKey};
use serde_json::{Value, json};

use super::plan::Step;
use crate::metrics::{Metrics, WriteKind, WriteLabels};
use crate::store::Store;

mod error;

pub(super) use error::Error;
use error::is_stale;

/// One write; the API server answers in milliseconds or not at all.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// A value that is not reached by this many patches is what the API server makes of it.
const PATCHES: usize = 2;
const FIELD_MANAGER: &str = "argocd-agent";

/// Carries out steps.
#[derive(Clone)]
pub(super) struct Writer {
    pub(super) client: Client,
    pub(super) store: Arc<Store>,
    pub(super) metrics: Metrics,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

impl Writer {
    /// One step; returns what remained of `desired` if the step wrote it.
    pub(super) async fn carry_out(
        &self,
        key: &ObjectKey,
        step: Step,
        desired: Option<&Value>,
    ) -> Result<Option<Written>, Error> {
        match step {
            Step::Create(object) => {
                let answer = self.create(key, &object).await?;
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
                    (None, _) | (_, None) => Err(Error::Stale {
                        write: "patch",
                        object: key.clone(),
                    }),
                }
            }
            Step::Patch { uid, patch } => self.patch(key, &uid, patch).await.map(|_answer| None),
            Step::Delete { uid } => self.delete(key, &uid).await.map(|()| None),
        }
    }

    /// Patches until nothing is to be patched, at most twice: what remains then is the normal form,
    /// and not somebody's edit of the same moment.
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
                // Its paths are those of this very version.
                Patch::Json(_) => patch.under(meta.resource_version()),
                Patch::Merge(_) => patch,
            };
            let uid = meta.uid().to_owned();
            live = self.patch(key, &uid, patch).await?;
        }
        Ok(Written::new(desired, &live))
    }

    async fn create(&self, key: &ObjectKey, object: &Value) -> Result<Arc<Value>, Error> {
        let write = "create";
        let malformed = |source| Error::Malformed {
            write,
            object: key.clone(),
            source,
        };
        let object: DynamicObject = serde_json::from_value(object.clone()).map_err(malformed)?;
        let api = self.api(key);
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let making = self.store.making(key.clone());
        let answer = self
            .bounded(WriteKind::Create, write, key, api.create(&params, &object))
            .await?;
        let answer = Arc::new(serde_json::to_value(trimmed(answer)).map_err(malformed)?);
        making.made(&answer);
        Ok(answer)
    }

    async fn patch(&self, key: &ObjectKey, uid: &str, patch: Patch) -> Result<Arc<Value>, Error> {
        let write = "patch";
        let malformed = |source| Error::Malformed {
            write,
            object: key.clone(),
            source,
        };
        let is_json = matches!(patch, Patch::Json(_));
        let body = only_for(uid, patch).map_err(malformed)?;
        let api = self.api(key);
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let answer = self
            .bounded(
                WriteKind::Patch,
                write,
                key,
                api.patch(&key.name, &params, &body),
            )
            .await
            .map_err(|error| {
                if is_json {
                    error.of_json_patch()
                } else {
                    error
                }
            })?;
        let answer = Arc::new(serde_json::to_value(trimmed(answer)).map_err(malformed)?);
        self.store.written(key, &answer);
        Ok(answer)
    }

    async fn delete(&self, key: &ObjectKey, uid: &str) -> Result<(), Error> {
        let api = self.api(key);
        let params = DeleteParams::background().preconditions(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        });
        let deleted = self
            .bounded(
                WriteKind::Delete,
                "delete",
                key,
                api.delete(&key.name, &params),
            )
            .await;
        match deleted {
            Ok(_) => Ok(()),
            Err(Error::Stale { .. }) if self.store.live(key).is_none() => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn bounded<T>(
        &self,
        kind: WriteKind,
        write: &'static str,
        key: &ObjectKey,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Error> {
        self.metrics
            .writes
            .get_or_create(&WriteLabels { write: kind })
            .inc();
        let object = || key.clone();
        let outcome = match tokio::time::timeout(WRITE_TIMEOUT, call).await {
            Err(_elapsed) => Err(Error::Timeout {
                write,
                object: object(),
            }),
            Ok(Ok(answer)) => Ok(answer),
            // Gone, changed or there already: the cache did not know.
            Ok(Err(kube::Error::Api(status))) if is_stale(kind, &status) => Err(Error::Stale {
                write,
                object: object(),
            }),
            Ok(Err(source)) => Err(Error::Write {
                write,
                object: object(),
                source: Box::new(source),
            }),
        };
        if outcome.is_err() {
            self.metrics.write_failures.inc();
        }
        outcome
    }

    fn api(&self, key: &ObjectKey) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &key.namespace, &resource(key.kind))
    }
}

/// How the spoke's API calls a kind.
pub(super) fn resource(kind: Kind) -> ApiResource {
    let (name, plural) = match kind {
        Kind::AppProject => ("AppProject", "appprojects"),
        Kind::Application | Kind::Repository | Kind::GpgKey => ("Application", "applications"),
    };
    ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("argoproj.io", "v1alpha1", name),
        plural,
    )
}

/// The patch, with the condition that it meets the object that it was made for.
fn only_for(uid: &str, patch: Patch) -> Result<Body<Value>, serde_json::Error> {
    match patch {
        Patch::Merge(mut patch) => {
            argocd::patch::merge(&mut patch, &json!({ "metadata": { "uid": uid } }));
            Ok(Body::Merge(patch))
        }
        Patch::Json(operations) => {
            let test = json!({ "op": "test", "path": "/metadata/uid", "value": uid });
            let mut all = vec![test];
            all.extend(operations.as_array().cloned().unwrap_or_default());
            serde_json::from_value(Value::Array(all)).map(Body::Json)
        }
    }
}

fn trimmed(mut object: DynamicObject) -> DynamicObject {
    object.metadata.managed_fields = None;
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_meets_only_the_object_that_it_was_made_for() {
        let merge = only_for("u1", Patch::Merge(json!({ "spec": {} }))).unwrap();
        assert!(matches!(merge, Body::Merge(patch)
            if patch == json!({ "spec": {}, "metadata": { "uid": "u1" } })));
        let operations = json!([{ "op": "remove", "path": "/spec/a" }]);
        let patch = only_for("u1", Patch::Json(operations)).unwrap();
        let Body::Json(patch) = patch else {
            panic!("another kind of patch")
        };
        let first = serde_json::to_value(patch.0.first()).unwrap();
        assert_eq!(
            first,
            json!({ "op": "test", "path": "/metadata/uid", "value": "u1" })
        );
    }
}
