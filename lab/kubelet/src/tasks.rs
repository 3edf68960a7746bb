//! Starts all tasks of a kubelet: each has a name, an owner and an end.

use std::{future::Future, panic::AssertUnwindSafe};

use futures::FutureExt;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument;

/// Starts tasks that end when the kubelet stops, and waits for them.
#[derive(Clone, Debug)]
pub(crate) struct Tasks {
    stop: CancellationToken,
    tracker: TaskTracker,
}

impl Tasks {
    pub(crate) fn new() -> Self {
        Self {
            stop: CancellationToken::new(),
            tracker: TaskTracker::new(),
        }
    }

    /// Asks to stop; tasks that were started by [`spawn`](Self::spawn) are dropped where they wait.
    pub(crate) const fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Starts a task that may be dropped wherever it waits.
    pub(crate) fn spawn(
        &self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let (stop, task) = (self.stop.clone(), Box::pin(task));
        self.spawn_orderly(name, async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = task => {}
            }
        });
    }

    /// Starts a task that watches [`stop`](Self::stop) itself, because it has to clean up.
    pub(crate) fn spawn_orderly(
        &self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        // In a box at once: unoptimized, every layer around a future copies it over the stack.
        let task = Box::pin(task);
        let guarded = async move {
            if AssertUnwindSafe(task).catch_unwind().await.is_err() {
                // The panic hook has logged the place; this logs which part of the lab no longer works.
                tracing::error!(task = name, "a task of the lab's kubelet panicked");
            }
        };
        self.tracker
            .spawn(guarded.instrument(tracing::debug_span!("task", name)));
    }

    /// Asks to stop and waits until all tasks have ended.
    pub(crate) async fn finish(&self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}
