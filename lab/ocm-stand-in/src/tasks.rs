//! Tasks with one owner: they end when it is stopped or dropped.

use std::{future::Future, time::Duration};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long a stopped task may take to finish its work.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// A set of endless tasks. Dropped, all of them are aborted.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    token: CancellationToken,
    running: JoinSet<()>,
}

impl Tasks {
    /// Starts a task that ends when the set is stopped, at its next await.
    pub(crate) fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        let token = self.token.clone();
        self.running.spawn(async move {
            token.run_until_cancelled_owned(task).await;
        });
    }

    /// Ends every task and waits until they are gone.
    pub(crate) async fn stop(mut self) {
        self.token.cancel();
        let ended = async { while self.running.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_WITHIN, ended).await.is_err() {
            self.running.shutdown().await;
        }
    }
}
