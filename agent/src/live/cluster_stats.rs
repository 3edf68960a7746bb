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
    /// The last logged error, so that it is logged once.
    complaint: Option<String>,
}

impl ReadLog {
    /// Logs an error that lasts, and its end. At the start the password is not known yet.
    fn take(&mut self, read: &Result<Option<Census>, Error>) {
        let Err(error) = read else {
            self.failures = 0;
            if self.complaint.take().is_some() {
                tracing::info!("reading Argo CD's redis again");
            }
            return;
        };
        self.failures = self.failures.saturating_add(1);
        let error = Chain(&**error).to_string();
        if self.failures > 1 && self.complaint.as_ref() != Some(&error) {
            let effect = "users of the hub see no resource trees of this cluster";
            tracing::warn!(error, effect, "cannot read Argo CD's redis");
            self.complaint = Some(error);
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
