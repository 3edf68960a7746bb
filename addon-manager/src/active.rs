//! The label on the pod of the replica that leads: the principal's Service selects it.
//!
//! Readiness by lease would deadlock a rolling update, whose new pod must be ready before the old one
//! gives the lease back; so every healthy pod is ready, and the label decides where agents go.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
};
use runtime::error::Chain;
use serde_json::json;
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::keys;

/// The pause before what failed is tried again: agents wait for this.
const RETRY: Duration = Duration::from_secs(1);

/// Keeps the label where the lease is, until the token is cancelled; then takes it off.
pub async fn run(
    client: Client,
    namespace: String,
    pod: String,
    mut leading: watch::Receiver<bool>,
    token: CancellationToken,
) {
    let pods = Api::namespaced(client, &namespace);
    let (mut marked, mut healthy) = (false, true);
    loop {
        let leads = *leading.borrow_and_update();
        let done = match leads {
            true => mark(&pods, &pod).await,
            false if marked => unmark(&pods, &pod).await,
            false => Ok(()),
        };
        let failed = match done {
            Ok(()) => {
                marked = leads;
                false
            }
            Err(error) => {
                if healthy {
                    tracing::warn!(error = %Chain(&error), "cannot move the label of the active pod");
                }
                true
            }
        };
        healthy = !failed;
        let next = async {
            tokio::select! {
                changed = leading.changed() => changed.is_ok(),
                () = sleep(RETRY), if failed => true,
            }
        };
        if token.run_until_cancelled(next).await != Some(true) {
            break;
        }
    }
    if marked && let Err(error) = unmark(&pods, &pod).await {
        tracing::info!(error = %Chain(&error), "could not take the label off before the end");
    }
    token.cancelled().await;
}

/// Takes the label off others first, so that no agent is sent to two.
async fn mark(pods: &Api<Pod>, own: &str) -> Result<(), kube::Error> {
    let marked = pods
        .list(&ListParams::default().labels(&format!("{}=true", keys::ACTIVE)))
        .await?;
    let mut already = false;
    for pod in marked.items {
        if pod.name_any() == own {
            already = true;
        } else {
            unmark(pods, &pod.name_any()).await?;
        }
    }
    if already {
        Ok(())
    } else {
        set(pods, own, Some("true")).await
    }
}

async fn unmark(pods: &Api<Pod>, name: &str) -> Result<(), kube::Error> {
    match set(pods, name, None).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => other,
    }
}

async fn set(pods: &Api<Pod>, name: &str, value: Option<&str>) -> Result<(), kube::Error> {
    let patch = json!({ "metadata": { "labels": { keys::ACTIVE: value } } });
    pods.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .map(drop)
}
