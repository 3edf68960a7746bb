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

use crate::live::redis::Redis;

#[cfg(test)]
mod tests;

/// How often a changed number of objects is reported.
const REPORT_INTERVAL: Duration = Duration::from_mins(1);
/// The largest value; it lists the kinds that the API serves.
const LARGEST: u64 = 1 << 20;

/// Why the statistics cannot be read, for the log.
type Error = Box<dyn std::error::Error + Send + Sync>;

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
    loop {
        ticks.tick().await;
        let census = match read(redis).await {
            Ok(Some(census)) => census,
            // The last value stays: an Argo CD that is being replaced writes a new one soon.
            Ok(None) => continue,
            Err(error) => {
                tracing::debug!(error = %Chain(&*error), "cannot read Argo CD's cluster statistics");
                continue;
            }
        };
        let is_change = is_change(reported.borrow().as_ref(), &census, at.elapsed());
        if is_change {
            at = Instant::now();
            reported.send_replace(Some(census));
        }
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

async fn read(redis: &Redis) -> Result<Option<Census>, Error> {
    for (key, form) in cluster_info::of_this_cluster() {
        let Some(found) = redis.get(&key).await? else {
            continue;
        };
        if found.length > LARGEST {
            return Err(format!("the value of {} bytes exceeds the limit", found.length).into());
        }
        let value = found.into_bytes().try_fold(Vec::new(), |mut value, piece| {
            value.extend_from_slice(&piece);
            ready(Ok(value))
        });
        let value = value.await?;
        return Ok(Some(cluster_info::read(&value, form)?));
    }
    Ok(None)
}
