//! Copies the Events of an Application from its cluster to the hub when a user views it.
//!
//! On demand, because each Event is a write to the hub's API: Applications without viewers cost nothing. No client waits
//! for this, and a dropped refresh loses nothing, since the next one reads all Events again ([`live::events`] finds the
//! new ones).

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::StatusCode;
use http_body_util::{BodyExt as _, Limited};
use live::events::{Noted, Observed, Unreadable};
use runtime::error::Chain;
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep_until, timeout},
};
use uuid::Uuid;

use super::Shared;
use crate::{
    domain::{ObjectOwner, RemoteApplication},
    fleet::ClusterName,
    live::{dispatch, tunnel::NotAnswered},
    store::WriteError,
    transport::listener::slots::Slots,
};

mod throttle;

use throttle::Throttle;

/// Waiting and running refreshes: of all clusters, and of one. Others are dropped.
const MOST: usize = 128;
const MOST_OF_CLUSTER: usize = 8;
/// Running refreshes: more than those of one cluster, so an unresponsive one does not block others.
const AT_ONCE: usize = 16;
/// How long a cluster may take to answer, and a whole refresh.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_mins(1);
/// Bytes of a response.
const LARGEST: usize = 2 << 20;

/// Bounds and state of all refreshes.
#[derive(Debug)]
pub(super) struct EventRefresher {
    // Held for a lookup, never over an await.
    throttle: Mutex<Throttle>,
    waiting: Arc<Semaphore>,
    of_cluster: Slots<ClusterName>,
    at_once: Semaphore,
    /// The hub refuses Events; this has been logged.
    is_failing: AtomicBool,
}

impl Default for EventRefresher {
    fn default() -> Self {
        Self {
            throttle: Mutex::default(),
            waiting: Arc::new(Semaphore::new(MOST)),
            of_cluster: Slots::new(MOST_OF_CLUSTER),
            at_once: Semaphore::new(AT_ONCE),
            is_failing: AtomicBool::new(false),
        }
    }
}

/// Why Events cannot be read from a cluster.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error(transparent)]
    NotAnswered(#[from] NotAnswered),
    #[error("the cluster returned {0}")]
    Status(StatusCode),
    #[error("the answer is too long or was truncated")]
    Broken,
    #[error("no answer within {RESPONSE_TIMEOUT:?}")]
    TimedOut,
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

/// Schedules a refresh of the Events of an Application. Returns at once.
pub(super) fn schedule(shared: &Arc<Shared>, there: &RemoteApplication) {
    let event_refresher = &shared.event_refresher;
    // Only our own agents have a tunnel; Go agents are skipped.
    let Some(namespace) = shared.live.tunnels.argocd_namespace(&there.cluster) else {
        return;
    };
    let waiting = Arc::clone(&event_refresher.waiting).try_acquire_owned();
    let of_cluster = event_refresher.of_cluster.take(there.cluster.clone());
    let (Ok(waiting), Some(of_cluster)) = (waiting, of_cluster) else {
        return;
    };
    let mut throttle = event_refresher
        .throttle
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let Some(turn) = throttle.turn(&there.uid, Instant::now()) else {
        return;
    };
    drop(throttle);
    let observed = Observed {
        namespace: there.namespace_here.clone(),
        name: there.name.clone(),
        uid: there.uid.clone(),
        cluster: there.cluster.to_string(),
        namespace_there: there.namespace.clone().unwrap_or(namespace),
        uid_there: there.source_uid.clone(),
    };
    let (shared, there) = (Arc::clone(shared), there.clone());
    let spawner = shared.live.spawner.background();
    spawner.spawn_short("events of an application", async move {
        let _permits = (waiting, of_cluster);
        let stop = shared.live.spawner.token().clone();
        let refreshing = async {
            sleep_until(turn).await;
            // Never closed.
            let _one = shared.event_refresher.at_once.acquire().await;
            refresh(&shared, &there, &observed).await;
        };
        stop.run_until_cancelled(timeout(LONGEST, refreshing)).await;
    });
}

async fn refresh(shared: &Shared, there: &RemoteApplication, observed: &Observed) {
    let Observed {
        namespace, name, ..
    } = observed;
    let cluster = &there.cluster;
    let asking = timeout(RESPONSE_TIMEOUT, ask(shared, cluster, observed));
    let noted = match asking.await.unwrap_or(Err(FetchError::TimedOut)) {
        Ok(noted) if noted.is_empty() => return,
        Ok(noted) => noted,
        Err(why) => {
            return tracing::debug!(%cluster, namespace, name, error = %Chain(&why), "cannot read Events of an Application");
        }
    };
    // It may have been deleted or moved meanwhile.
    match shared.live.applications.owner(Some(namespace), name) {
        ObjectOwner::Cluster(now) if now == *there => {}
        ObjectOwner::Cluster(_) | ObjectOwner::Hub | ObjectOwner::NoOne => return,
    }
    match write(shared, observed, noted).await {
        Ok(()) => shared
            .event_refresher
            .is_failing
            .store(false, Ordering::Relaxed),
        Err(why)
            if shared
                .event_refresher
                .is_failing
                .swap(true, Ordering::Relaxed) =>
        {
            tracing::debug!(%cluster, namespace, name, error = %Chain(&why), "the hub refuses Events of an Application");
        }
        Err(why) => {
            tracing::warn!(%cluster, namespace, name, error = %Chain(&why), "the hub refuses Events of \
            Applications; logging this once until it accepts them");
        }
    }
}

/// Writes new Events. A refused one does not stop the others.
async fn write(shared: &Shared, observed: &Observed, noted: Noted) -> Result<(), WriteError> {
    let live = &shared.live;
    let store = &live.store;
    let known = store.events(observed).await?;
    let mut refused = Ok(());
    for write in observed.plan(noted, &known, live.clock.now()) {
        match store.note(observed, &write).await {
            // Another replica was faster, or the Event has expired.
            Ok(()) | Err(WriteError::Conflict | WriteError::NotFound) => {}
            Err(why @ WriteError::Unavailable(_)) => return Err(why),
            Err(why @ (WriteError::Refused(_) | WriteError::Unfit(_))) => refused = Err(why),
        }
    }
    refused
}

async fn ask(
    shared: &Shared,
    cluster: &ClusterName,
    observed: &Observed,
) -> Result<Noted, FetchError> {
    let request = dispatch::get(&observed.question(), &Uuid::new_v4().to_string());
    let answer = shared
        .live
        .tunnels
        .ask(cluster, request, RESPONSE_TIMEOUT)
        .await?;
    if answer.status() != StatusCode::OK {
        return Err(FetchError::Status(answer.status()));
    }
    let body = Limited::new(answer.into_body(), LARGEST).collect().await;
    let body = body.map_err(|_too_long_or_gone| FetchError::Broken)?;
    Ok(Noted::read(&body.to_bytes())?)
}
