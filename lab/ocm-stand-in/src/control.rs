//! The loop of every controller of the stand-in: read all objects, act, wait for a change.
//!
//! The lab has few clusters, so a controller reconciles everything at each change,
//! instead of keeping a queue of keys. It is level-triggered.

use std::{future::Future, sync::Arc, time::Duration};

use anyhow::Result;
use tokio::time::Instant;

use crate::{cache::Cache, client};

/// Changes come in bursts; one pass handles a burst of this length.
const SETTLE: Duration = Duration::from_millis(10);
/// The first pause after a failed pass, doubled each time up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(10);

/// When a pass has to run again although nothing changed.
pub(crate) type Again = Option<Duration>;

/// The earlier of two times to run again.
pub(crate) fn sooner(a: Again, b: Again) -> Again {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}

/// Runs passes for ever: at once, at every change, and when a pass requests it.
pub(crate) async fn keep<F>(name: &'static str, cache: Arc<Cache>, mut pass: impl FnMut() -> F)
where
    F: Future<Output = Result<Again>>,
{
    let mut changes = cache.subscribe();
    let mut failures = 0_u32;
    loop {
        changes.mark_unchanged();
        let again = match pass().await {
            Ok(again) => {
                failures = 0;
                again
            }
            Err(error) => {
                tracing::warn!(
                    controller = name,
                    error = client::message_of(&error),
                    "will try again"
                );
                failures = failures.saturating_add(1);
                Some(
                    FIRST_PAUSE
                        .saturating_mul(1 << failures.min(7))
                        .min(LAST_PAUSE),
                )
            }
        };
        wait(&mut changes, again).await;
        tokio::time::sleep(SETTLE).await;
    }
}

/// Returns at the next change or at the given time.
async fn wait(changes: &mut tokio::sync::watch::Receiver<u64>, again: Again) {
    // A day far away instead of never: the sender lives as long as the cache, so this arm only bounds a pass.
    let at = Instant::now() + again.unwrap_or(Duration::from_hours(1));
    tokio::select! {
        biased;
        updates = changes.changed() => {
            if updates.is_err() {
                // The cache is gone, and so is the owner of this task, which is about to end it.
                std::future::pending::<()>().await;
            }
        }
        () = tokio::time::sleep_until(at) => {}
    }
}
