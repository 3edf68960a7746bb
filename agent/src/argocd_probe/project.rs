//! Creates the project `default` for an Argo CD that the add-on installed on an autonomous cluster.
//!
//! Argo CD's server creates this project when it starts, but an installed Argo CD has no server. Managed clusters get
//! their projects from the hub.

use kube::Client;
use protocol::{Kind, ObjectKey};
use runtime::error::Chain;
use serde_json::{Value, json};

use crate::sync::api::{Error, Spoke as _};
use crate::sync::kube::Kubernetes;

/// Creates the project if it is missing, as Argo CD's server would. True if it exists.
pub(super) async fn ensure(client: &Client, namespace: &str) -> bool {
    match make(client, namespace).await {
        Ok(()) => true,
        Err(error) => {
            tracing::debug!(error = %Chain(&error), "cannot create the AppProject default; retrying");
            false
        }
    }
}

async fn make(client: &Client, namespace: &str) -> Result<(), Error> {
    let key = ObjectKey::new(Kind::AppProject, namespace, "default");
    let spoke = Kubernetes::new(client.clone(), String::new());
    if spoke.has(&key).await? {
        return Ok(());
    }
    spoke.create(&key, &project(namespace)).await.map(drop)
}

/// The project that Argo CD's server would create.
fn project(namespace: &str) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": { "name": "default", "namespace": namespace },
        "spec": {
            "sourceRepos": ["*"],
            "destinations": [{ "server": "*", "namespace": "*" }],
            "clusterResourceWhitelist": [{ "group": "*", "kind": "*" }],
        },
    })
}
