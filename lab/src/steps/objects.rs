//! The objects of one cluster, of any kind, read and written as JSON.

use std::{fmt, time::Duration};

use anyhow::{Context as _, Result};
use kube::{
    Client,
    api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PropagationPolicy},
};
use serde_json::Value;

use super::at::At;
use crate::wait;

/// The field manager of all writes by a test's user.
const USER: &str = "a-user";

/// The objects of one cluster.
#[derive(Clone)]
pub struct Objects {
    client: Client,
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").finish_non_exhaustive()
    }
}

impl Objects {
    /// Reads and writes with this client's rights.
    pub const fn new(client: Client) -> Self {
        Self { client }
    }

    /// The client's API for all objects of a kind.
    pub fn everywhere(&self, at: &At) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &at.resource)
    }

    /// The client's API for the namespace of this object.
    pub fn api(&self, at: &At) -> Api<DynamicObject> {
        match &at.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &at.resource),
            None => Api::all_with(self.client.clone(), &at.resource),
        }
    }

    /// The object, if it is there.
    pub async fn get(&self, at: &At) -> Result<Option<Value>> {
        let object = self
            .api(at)
            .get_opt(&at.name)
            .await
            .with_context(|| format!("read {at}"))?;
        object
            .map(|object| serde_json::to_value(object).context("object to JSON"))
            .transpose()
    }

    /// The object, which has to exist.
    pub async fn read(&self, at: &At) -> Result<Value> {
        self.get(at)
            .await?
            .with_context(|| format!("{at} does not exist"))
    }

    /// All objects of the kind in the namespace, with a label selector (empty: all).
    pub async fn list(&self, at: &At, labels: &str) -> Result<Vec<Value>> {
        let list = self
            .api(at)
            .list(&ListParams::default().labels(labels))
            .await;
        let list = list.with_context(|| format!("list {}s", at.resource.kind))?;
        list.items
            .into_iter()
            .map(|object| serde_json::to_value(object).context("object to JSON"))
            .collect()
    }

    /// Creates or changes the object, like `kubectl apply --server-side`.
    pub async fn apply(&self, at: &At, mut object: Value) -> Result<Value> {
        object["apiVersion"] = at.resource.api_version.clone().into();
        object["kind"] = at.resource.kind.clone().into();
        object["metadata"]["name"] = at.name.clone().into();
        if let Some(namespace) = &at.namespace {
            object["metadata"]["namespace"] = namespace.clone().into();
        }
        let params = PatchParams::apply(USER).force();
        let applied = self
            .api(at)
            .patch(&at.name, &params, &Patch::Apply(&object))
            .await;
        Ok(serde_json::to_value(
            applied.with_context(|| format!("apply {at}"))?,
        )?)
    }

    /// Merges a patch into the object, like `kubectl patch --type=merge`.
    pub async fn merge(&self, at: &At, patch: Value) -> Result<Value> {
        let params = PatchParams {
            field_manager: Some(USER.to_owned()),
            ..Default::default()
        };
        let merged = self
            .api(at)
            .patch(&at.name, &params, &Patch::Merge(&patch))
            .await;
        Ok(serde_json::to_value(
            merged.with_context(|| format!("patch {at}"))?,
        )?)
    }

    /// Merges a patch into the object's status.
    pub async fn merge_status(&self, at: &At, patch: Value) -> Result<Value> {
        let params = PatchParams {
            field_manager: Some(USER.to_owned()),
            ..Default::default()
        };
        let merged = self
            .api(at)
            .patch_status(&at.name, &params, &Patch::Merge(&patch))
            .await;
        Ok(serde_json::to_value(
            merged.with_context(|| format!("patch the status of {at}"))?,
        )?)
    }

    /// Deletes the object; it is fine if it is gone already.
    pub async fn delete(&self, at: &At) -> Result<()> {
        self.delete_with(at, &DeleteParams::default()).await
    }

    async fn delete_with(&self, at: &At, params: &DeleteParams) -> Result<()> {
        match self.api(at).delete(&at.name, params).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(error) => Err(error).with_context(|| format!("delete {at}")),
        }
    }

    /// Kills a Pod: no grace, as when its node loses power. It is fine if it is gone already.
    pub async fn kill(&self, at: &At) -> Result<()> {
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            ..DeleteParams::default()
        };
        self.delete_with(at, &params).await
    }

    /// Deletes the object without its dependents, like `kubectl delete --cascade=orphan`.
    pub async fn orphan(&self, at: &At) -> Result<()> {
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Orphan),
            ..DeleteParams::default()
        };
        self.delete_with(at, &params).await
    }

    /// Waits until the object fits; the error contains the last state.
    pub async fn until(
        &self,
        at: &At,
        what: &str,
        within: Duration,
        fits: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let what = format!("{at}: {what}");
        let look = || async { Ok(Seen(self.get(at).await?.unwrap_or(Value::Null))) };
        wait::until_within(within, &what, look, |seen: &Seen| fits(&seen.0))
            .await
            .map(|seen| seen.0)
    }

    /// Waits until the object does not exist.
    pub async fn until_gone(&self, at: &At, within: Duration) -> Result<()> {
        self.until(at, "is gone", within, Value::is_null)
            .await
            .map(drop)
    }

    /// Waits until the object exists.
    pub async fn until_there(&self, at: &At, within: Duration) -> Result<Value> {
        self.until(at, "is there", within, |object| !object.is_null())
            .await
    }
}

/// An object shortened for an error message.
struct Seen(Value);

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_null() {
            return f.write_str("it does not exist");
        }
        let mut brief = self.0.clone();
        if let Some(metadata) = brief["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        write!(f, "{brief:#}")
    }
}

/// The status of a condition: `True`, `False`, `Unknown`, or nothing if it is not there.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == kind)
}

/// Whether a condition has this status and, unless empty, this reason.
pub fn has_condition(object: &Value, kind: &str, status: &str, reason: &str) -> bool {
    condition(object, kind)
        .is_some_and(|c| c["status"] == status && (reason.is_empty() || c["reason"] == reason))
}

/// Whether a Deployment of one replica has its newest Pod, which is available, and no other.
pub fn is_rolled_out(deployment: &Value) -> bool {
    let status = &deployment["status"];
    let counts = [
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
    ];
    status["observedGeneration"] == deployment["metadata"]["generation"]
        && counts.iter().all(|count| status[*count] == 1)
}
