//! Writes the status of one Pod, always the newest, and retries until that succeeds.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use serde_json::json;
use tokio::sync::{oneshot, watch};

use crate::{node, tasks::Tasks};

/// The pause before a write is retried: the API of a lab is often unavailable, and back soon.
const PAUSE: Duration = Duration::from_millis(500);

/// Accepts statuses and writes the newest one, without ever blocking the Pod's work.
#[derive(Debug)]
pub(super) struct Reporter {
    newest: watch::Sender<PodStatus>,
    written: oneshot::Receiver<()>,
}

impl Reporter {
    /// Starts to report on a Pod whose status in the API is `known`.
    pub(super) fn start(client: Client, pod: &Pod, known: PodStatus, tasks: &Tasks) -> Self {
        let (newest, statuses) = watch::channel(known);
        let (done, written) = oneshot::channel();
        let target = Target::of(client, pod);
        tasks.spawn("report", async move {
            target.report(statuses).await;
            // The receiver may be gone.
            let _not_awaited = done.send(());
        });
        Self { newest, written }
    }

    /// Queues a status unless it equals the last one.
    pub(super) fn update(&self, status: PodStatus) {
        self.newest.send_if_modified(|last| {
            let updates = *last != status;
            *last = status;
            updates
        });
    }

    /// The last queued status.
    pub(super) fn last(&self) -> PodStatus {
        self.newest.borrow().clone()
    }

    /// Returns when the last status is written, the Pod is gone, or the kubelet stops.
    pub(super) async fn finish(self) {
        let Self { newest, written } = self;
        drop(newest);
        let _stopped = written.await;
    }
}

/// One Pod in the API, identified by its UID.
#[derive(Debug)]
pub(super) struct Target {
    api: Api<Pod>,
    name: String,
    uid: String,
}

/// The outcome of a write.
#[derive(Debug, PartialEq, Eq)]
enum Wrote {
    Done,
    /// The Pod is not there any more.
    Gone,
    Failed,
}

impl Target {
    pub(super) fn of(client: Client, pod: &Pod) -> Self {
        Self {
            api: Api::namespaced(client, &pod.namespace().unwrap_or_default()),
            name: pod.name_any(),
            uid: pod.uid().unwrap_or_default(),
        }
    }

    async fn report(&self, mut statuses: watch::Receiver<PodStatus>) {
        while statuses.changed().await.is_ok() {
            loop {
                let status = statuses.borrow_and_update().clone();
                match self.write(&status).await {
                    Wrote::Done => break,
                    Wrote::Gone => return,
                    Wrote::Failed => tokio::time::sleep(PAUSE).await,
                }
            }
        }
    }

    async fn write(&self, status: &PodStatus) -> Wrote {
        // The UID is a precondition: a Pod that was recreated under the name conflicts.
        let patch = json!({ "metadata": { "uid": self.uid }, "status": status });
        let params = PatchParams {
            field_manager: Some(node::MANAGER.to_owned()),
            ..PatchParams::default()
        };
        self.outcome(
            self.api
                .patch_status(&self.name, &params, &Patch::Merge(&patch))
                .await
                .map(drop),
        )
    }

    fn outcome(&self, result: kube::Result<()>) -> Wrote {
        match result {
            Ok(()) => Wrote::Done,
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Wrote::Gone,
            Err(error) => {
                tracing::debug!(pod = self.name, %error, "write will be tried again");
                Wrote::Failed
            }
        }
    }

    /// Deletes the Pod in the API, as kubelets do when nothing of it is left on their machine.
    pub(super) async fn delete(&self) {
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions {
                uid: Some(self.uid.clone()),
                ..Preconditions::default()
            }),
            ..DeleteParams::default()
        };
        while self.outcome(self.api.delete(&self.name, &params).await.map(drop)) == Wrote::Failed {
            tokio::time::sleep(PAUSE).await;
        }
    }
}
