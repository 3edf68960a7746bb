//! Events about Pods, for users who ask why something does not run.

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::{
    Client, Resource,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use tokio::sync::mpsc;

use crate::{node, tasks::Tasks};

/// Accepts events; a task of its own writes them one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    queue: mpsc::Sender<(Event, ObjectReference)>,
}

/// Events that may wait to be written. When the API is unavailable and there are more, the newest
/// are lost: they inform people, nothing depends on them.
const WAITING: usize = 64;

impl Events {
    pub(crate) fn start(client: Client, node: &str, tasks: &Tasks) -> Self {
        let (queue, mut waiting) = mpsc::channel::<(Event, ObjectReference)>(WAITING);
        let reporter = Reporter {
            controller: node::MANAGER.to_owned(),
            instance: Some(node.to_owned()),
        };
        let recorder = Recorder::new(client, reporter);
        tasks.spawn("events", async move {
            while let Some((event, regarding)) = waiting.recv().await {
                if let Err(error) = recorder.publish(&event, &regarding).await {
                    tracing::debug!(%error, reason = event.reason, "event lost");
                }
            }
        });
        Self { queue }
    }

    /// Records that something is wrong with a Pod.
    pub(crate) fn warn(&self, pod: &Pod, reason: &str, note: impl Into<String>) {
        self.publish(pod, EventType::Warning, reason, note.into());
    }

    /// Records an action on a Pod.
    pub(crate) fn notify(&self, pod: &Pod, reason: &str, note: impl Into<String>) {
        self.publish(pod, EventType::Normal, reason, note.into());
    }

    fn publish(&self, pod: &Pod, type_: EventType, reason: &str, note: String) {
        tracing::debug!(pod = pod.metadata.name, reason, note);
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note),
            action: reason.to_owned(),
            secondary: None,
        };
        // Without the version, so that a repeated event about a newer version of the Pod is the same event.
        let regarding = ObjectReference {
            resource_version: None,
            ..pod.object_ref(&())
        };
        let _full = self.queue.try_send((event, regarding));
    }
}
