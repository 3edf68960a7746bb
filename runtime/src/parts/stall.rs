//! Stalls of a whole process, for simulations: its tasks stand still, while time goes on.

use std::pin::pin;

use tokio::sync::watch;

/// Stops the tasks of a process and lets them go on. Clones share it.
#[derive(Debug, Clone)]
pub struct Stall(watch::Sender<bool>);

impl Stall {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    /// Stops the tasks, or lets them go on.
    pub fn set(&self, stands: bool) {
        self.0.send_replace(stands);
    }

    /// Waits until the process runs. For the ends of its connections, whose tasks its libraries start.
    pub async fn over(&self) {
        // No error: we have the sender.
        drop(self.0.subscribe().wait_for(|stands| !*stands).await);
    }

    /// Runs a task that makes no step while the process stands still.
    pub(super) async fn within<T>(self, task: impl Future<Output = T>) -> T {
        let (mut begins, mut task) = (self.0.subscribe(), pin!(task));
        loop {
            tokio::select! {
                biased;
                _ = begins.wait_for(|stands| *stands) => {}
                done = &mut task => return done,
            }
            self.over().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_stands_still_while_time_goes_on() {
        let (stall, begun) = (Stall::new(), Instant::now());
        let second = Duration::from_secs(1);
        let task = stall.clone().within(async move {
            sleep(second).await;
            begun.elapsed()
        });
        let stalls = async {
            stall.set(true);
            sleep(second * 5).await;
            stall.set(false);
        };
        let (woke, ()) = tokio::join!(task, stalls);
        assert_eq!(woke, second * 5);
    }
}
