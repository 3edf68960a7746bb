//! Delivers an Application from the hub to its spoke and awaits its status.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use super::{at::At, enrol::ARGOCD, objects::Objects};

/// The finalizer with which Argo CD removes the deployed objects of an Application.
pub const CASCADE: &str = "resources-finalizer.argocd.argoproj.io";
/// Stamped by the agent on every replica: the UID of the hub object.
pub const SOURCE_UID: &str = "argocd.argoproj.io/source-uid";

/// Argo CD clones, renders, applies and checks health; on two busy cores that takes seconds.
pub const SYNC: Duration = Duration::from_secs(90);

/// An Application of a test: its source and destination.
#[derive(Clone, Debug)]
pub struct Application {
    /// Its reference on the hub.
    pub at: At,
    /// Its project.
    pub project: String,
    /// `spec.destination.name`; the hub namespace decides if it is `in-cluster`.
    pub cluster: String,
    /// The namespace of its objects on the spoke.
    pub namespace: String,
    /// The repository's URL for Argo CD on the spoke.
    pub repository: String,
    /// Folder in the repository.
    pub path: String,
    /// Branch or tag.
    pub revision: String,
    /// Whether Argo CD syncs automatically (and heals).
    pub automated: bool,
}

impl Application {
    /// The Application as an object.
    pub fn body(&self) -> Value {
        let mut spec = json!({
            "project": self.project,
            "source": {
                "repoURL": self.repository,
                "path": self.path,
                "targetRevision": self.revision,
            },
            "destination": {"name": self.cluster, "namespace": self.namespace},
        });
        if self.automated {
            spec["syncPolicy"] = json!({
                "automated": {"prune": true, "selfHeal": true},
                "syncOptions": ["CreateNamespace=true"],
            });
        }
        json!({"metadata": {"finalizers": [CASCADE]}, "spec": spec})
    }

    /// Creates or changes it on the hub.
    pub async fn apply(&self, hub: &Objects) -> Result<Value> {
        hub.apply(&self.at, self.body()).await
    }
}

/// Creates a project on the hub that permits one cluster everything, from the given hub namespaces.
pub async fn allow(hub: &Objects, project: &str, cluster: &str) -> Result<()> {
    let spec = json!({"spec": {
        "sourceRepos": ["*"],
        "sourceNamespaces": [cluster],
        "destinations": [
            {"name": cluster, "server": "*", "namespace": "*"},
            {"name": "in-cluster", "server": "*", "namespace": "*"},
        ],
        "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
    }});
    hub.apply(&At::project(ARGOCD, project), spec)
        .await
        .map(drop)
}

/// Waits until the Application is Synced and Healthy at this revision (empty: any).
pub async fn until_healthy(side: &Objects, at: &At, revision: &str) -> Result<Value> {
    let what = format!("is Synced and Healthy at {revision:?}");
    side.until(at, &what, SYNC, |app| {
        app["status"]["sync"]["status"] == "Synced"
            && app["status"]["health"]["status"] == "Healthy"
            && (revision.is_empty() || app["status"]["sync"]["revision"] == revision)
    })
    .await
}

/// Requests a sync, like the Argo CD UI and CLI: by setting `.operation`.
pub async fn ask_for_sync(hub: &Objects, at: &At, revision: &str) -> Result<()> {
    set_operation(hub, at, Value::Null, revision).await
}

/// Like [`ask_for_sync`], with retries by Argo CD (`argocd app sync --retry-limit`): an API server that has just
/// started forbids requests until it has read its roles.
pub async fn ask_for_patient_sync(hub: &Objects, at: &At, revision: &str) -> Result<()> {
    let retry =
        json!({"limit": 10, "backoff": {"duration": "1s", "factor": 2, "maxDuration": "5s"}});
    set_operation(hub, at, retry, revision).await
}

async fn set_operation(hub: &Objects, at: &At, retry: Value, revision: &str) -> Result<()> {
    let operation = json!({
        "operation": {
            "initiatedBy": {"username": "a-user"},
            "retry": retry,
            "sync": {"revision": revision, "syncStrategy": {"hook": {}}},
        },
        "status": {"operationState": null},
    });
    hub.merge(at, operation).await.map(drop)
}
