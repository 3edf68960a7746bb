//! The label on the pod of the leader: the principal's Service selects it.
//!
//! Readiness by lease would deadlock a rolling update, whose new pod must be ready before the old one releases the
//! lease. So every healthy pod is ready, and the label routes agents to the leader.

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

/// The pause before a failed write is retried: agents wait for it.
const RETRY: Duration = Duration::from_secs(1);

/// The clients that write the label.
#[derive(Clone, derive_more::Debug)]
#[debug("Clients")]
pub struct Clients {
    /// Sets the label on this pod, and removes it from others, as the leader may.
    pub leader: Client,
    /// Removes the label from this pod, as every replica may.
    pub any: Client,
}

/// Keeps the label on the pod while it leads. Removes the label when the token is cancelled.
pub async fn run(
    clients: Clients,
    namespace: String,
    pod: String,
    mut leading: watch::Receiver<bool>,
    token: CancellationToken,
) {
    let leaders = Api::namespaced(clients.leader, &namespace);
    let pods = Api::namespaced(clients.any, &namespace);
    // A restarted container still has its Pod's labels, and a failed write may have taken effect.
    let (mut marked, mut healthy) = (true, true);
    loop {
        let leads = *leading.borrow_and_update();
        let done = match leads {
            true => mark(&leaders, &pod).await,
            false if marked => unmark(&pods, &pod).await,
            false => Ok(()),
        };
        let failed = done.is_err();
        if let Err(error) = done
            && healthy
        {
            tracing::warn!(error = %Chain(&error), "cannot move the active label to this pod; retrying");
        }
        (marked, healthy) = (leads || failed, !failed);
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
        tracing::info!(error = %Chain(&error), "could not remove the active label before shutdown");
    }
    token.cancelled().await;
}

/// Removes the label from other pods first, so that the Service never selects two.
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use kube::client::Body;

    use super::*;

    /// The requests that an API receives that fails the first ones.
    async fn requests(
        leading: watch::Receiver<bool>,
        failing: usize,
        wanted: usize,
    ) -> Vec<String> {
        let (notify, mut received) = watch::channel(Vec::new());
        let left = Arc::new(Mutex::new(failing));
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let fails = {
                let mut left = left.lock().unwrap();
                let fails = *left > 0;
                *left = left.saturating_sub(1);
                fails
            };
            let line = format!("{} {}", request.method(), request.uri().path());
            notify.send_modify(|lines: &mut Vec<String>| lines.push(line));
            async move {
                let (status, body) = if fails {
                    (500, json!({ "kind": "Status", "code": 500 }))
                } else if request.method() == http::Method::GET {
                    (200, json!({ "metadata": {}, "items": [] }))
                } else {
                    (200, json!({ "metadata": { "name": "own" } }))
                };
                http::Response::builder()
                    .status(status)
                    .body(Body::from(body.to_string().into_bytes()))
            }
        });
        let (any, token) = (Client::new(service, "ours"), CancellationToken::new());
        let leader = any.clone();
        let clients = Clients { leader, any };
        let running = run(clients, "ours".to_owned(), "own".to_owned(), leading, token);
        let lines = async {
            let lines = received.wait_for(|lines| lines.len() >= wanted).await;
            lines.unwrap().clone()
        };
        tokio::select! {
            () = running => panic!("it ends with its token"),
            lines = lines => lines,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn restarted_follower_removes_its_stale_active_label() {
        let (_lead, leading) = watch::channel(false);
        let lines = requests(leading, 1, 2).await;
        assert_eq!(lines, ["PATCH /api/v1/namespaces/ours/pods/own"; 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_leader_looks_for_other_labelled_pods_first() {
        let (_lead, leading) = watch::channel(true);
        let lines = requests(leading, 0, 2).await;
        let expected = [
            "GET /api/v1/namespaces/ours/pods",
            "PATCH /api/v1/namespaces/ours/pods/own",
        ];
        assert_eq!(lines, expected);
    }
}
