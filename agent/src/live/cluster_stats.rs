//! Reads Argo CD's statistics of this cluster, for the hub's page of clusters.
//!
//! The application controller writes them into redis every ten seconds. The agent reads them as often and reports changes;
//! it reports the number of objects less often, since it changes with every Pod.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt as _;
use live::cluster_info::{self, Census};
use live::ui_access::UiAccess;
use runtime::error::Chain;
use runtime::parts::Spawner;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::live::redis::{Error, Redis};

#[cfg(test)]
mod tests;

/// How often a changed number of objects is reported.
const REPORT_INTERVAL: Duration = Duration::from_mins(1);
/// The largest value; it lists the kinds that the API serves.
const LARGEST: u64 = 1 << 20;

/// Reads the statistics after each pause of `every`; none until the first value, and never any if the hub's users have no
/// access to this cluster.
pub fn watch(
    redis: Arc<Redis>,
    access: UiAccess,
    every: Duration,
    spawner: &Spawner,
) -> watch::Receiver<Option<Census>> {
    let (reported, census) = watch::channel(None);
    let token = spawner.token().clone();
    spawner.spawn("census", async move {
        let following = follow(&redis, every, &reported);
        if access == UiAccess::None {
            token.cancelled().await;
        } else {
            token.run_until_cancelled(following).await;
        }
    });
    census
}

async fn follow(redis: &Redis, every: Duration, reported: &watch::Sender<Option<Census>>) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut at = Instant::now();
    let mut read_log = ReadLog::default();
    loop {
        ticks.tick().await;
        let read = read(redis).await;
        read_log.take(&read);
        // The last value stays: an Argo CD that is being replaced writes a new one soon.
        let Ok(Some(census)) = read else { continue };
        let is_change = is_change(reported.borrow().as_ref(), &census, at.elapsed());
        if is_change {
            at = Instant::now();
            reported.send_replace(Some(census));
        }
    }
}

/// The log of reads, which show whether the settings of redis are right.
#[derive(Debug, Default)]
struct ReadLog {
    failures: u32,
}

impl ReadLog {
    fn take(&mut self, read: &Result<Option<Census>, Error>) {
        let is_turn = self.is_turn(read.is_ok());
        match read {
            Ok(_) if is_turn => tracing::info!("reading Argo CD's redis again"),
            Ok(_) => {}
            Err(error) if is_turn => {
                let effect = "users of the hub see no resource trees of this cluster";
                tracing::warn!(error = %Chain(error), effect, "cannot read Argo CD's redis");
            }
            Err(error) => tracing::debug!(error = %Chain(error), "cannot read Argo CD's redis"),
        }
    }

    /// Whether failures that last begin or end with this read. At the start the password is not known yet.
    const fn is_turn(&mut self, is_read: bool) -> bool {
        let before = self.failures;
        self.failures = if is_read { 0 } else { before.saturating_add(1) };
        if is_read { before > 1 } else { before == 1 }
    }
}

/// Whether to report the statistics now.
fn is_change(sent: Option<&Census>, now: &Census, since: Duration) -> bool {
    let Some(sent) = sent else { return true };
    let quiet = Census {
        resources: sent.resources,
        ..now.clone()
    };
    quiet != *sent || (now != sent && since >= REPORT_INTERVAL)
}

/// None also for a value that cannot be used: redis answers, and the last statistics stay.
async fn read(redis: &Redis) -> Result<Option<Census>, Error> {
    for (key, form) in cluster_info::of_this_cluster() {
        let Some(found) = redis.get(&key).await? else {
            continue;
        };
        let length = found.length;
        if length > LARGEST {
            tracing::debug!(
                length,
                limit = LARGEST,
                "cannot read Argo CD's cluster statistics"
            );
            return Ok(None);
        }
        let value = found.into_bytes().try_fold(Vec::new(), |mut value, piece| {
            value.extend_from_slice(&piece);
            ready(Ok(value))
        });
        let value = value.await?;
        let census = cluster_info::read(&value, form).inspect_err(|error| {
            tracing::debug!(error = %Chain(error), "cannot read Argo CD's cluster statistics");
        });
        return Ok(census.ok());
    }
    Ok(None)
}
