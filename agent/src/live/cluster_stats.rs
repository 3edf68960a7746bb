//! What Argo CD has counted on this cluster, for the hub's page of clusters.
//!
//! Its application controller writes it into redis every ten seconds. It is read as often, and said when it is news: the
//! number of objects changes with every Pod, which is worth no message of its own.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt as _;
use live::cluster_info::{self, Census, Unreadable};
use live::ui_access::UiAccess;
use runtime::error::Chain;
use runtime::parts::Spawner;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::live::redis::{self, Redis};

#[cfg(test)]
mod tests;

/// What changes all the time is said as often.
const RESPONSE_TIMEOUT: Duration = Duration::from_mins(1);
/// The value lists the kinds that the API serves; more bytes than this are none of Argo CD's.
const LARGEST: u64 = 1 << 20;

/// Why nothing is known.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Redis(#[from] redis::Error),
    #[error("read the value")]
    Broken(#[from] std::io::Error),
    #[error("the value of {0} bytes exceeds the limit")]
    TooLarge(u64),
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

/// Follows what is counted, looking again after each pause of `every`; none as long as nothing is known, and for ever
/// where people at the hub may see nothing of this cluster.
pub fn watch(
    redis: Arc<Redis>,
    access: UiAccess,
    every: Duration,
    spawner: &Spawner,
) -> watch::Receiver<Option<Census>> {
    let (stated, census) = watch::channel(None);
    let token = spawner.token().clone();
    spawner.spawn("census", async move {
        let following = follow(&redis, every, &stated);
        if access == UiAccess::None {
            token.cancelled().await;
        } else {
            token.run_until_cancelled(following).await;
        }
    });
    census
}

async fn follow(redis: &Redis, every: Duration, stated: &watch::Sender<Option<Census>>) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut at = Instant::now();
    loop {
        ticks.tick().await;
        let census = match read(redis).await {
            Ok(Some(census)) => census,
            // What was known last stays said: an Argo CD that is being replaced counts again soon.
            Ok(None) => continue,
            Err(error) => {
                tracing::debug!(error = %Chain(&error), "cannot read Argo CD's cluster statistics");
                continue;
            }
        };
        let is_change = is_change(stated.borrow().as_ref(), &census, at.elapsed());
        if is_change {
            at = Instant::now();
            stated.send_replace(Some(census));
        }
    }
}

/// Whether somebody wants to know now.
fn is_change(stated: Option<&Census>, now: &Census, since: Duration) -> bool {
    let Some(stated) = stated else { return true };
    let quiet = Census {
        resources: stated.resources,
        ..now.clone()
    };
    quiet != *stated || (now != stated && since >= RESPONSE_TIMEOUT)
}

async fn read(redis: &Redis) -> Result<Option<Census>, Error> {
    for (key, form) in cluster_info::of_this_cluster() {
        let Some(found) = redis.get(&key).await? else {
            continue;
        };
        if found.length > LARGEST {
            return Err(Error::TooLarge(found.length));
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
