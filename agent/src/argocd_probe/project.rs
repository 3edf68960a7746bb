//! The project `default` beside an Argo CD that the add-on has brought to a cluster that owns its Applications.
//!
//! Elsewhere Argo CD's server makes it whenever it starts, and a brought one has no server. Where the hub owns the
//! Applications, projects come from there.

use kube::Client;
use protocol::{Kind, ObjectKey};
use runtime::error::Chain;
use serde_json::{Value, json};

use crate::sync::api::{Error, Kubernetes, Spoke as _};

/// Makes it where it is missing, as Argo CD's server would. True when it is there.
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

/// As Argo CD's own.
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
