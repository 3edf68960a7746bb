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

use crate::{
    domain::{ObjectOwner, RemoteApplication},
    fleet::ClusterName,
    live::{LiveContext, dispatch, tunnel::NotAnswered},
    store::WriteError,
    transport::listener::slots::Capacity,
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
    live: Arc<LiveContext>,
    // Held for a lookup, never over an await.
    throttle: Mutex<Throttle>,
    waiting: Capacity<ClusterName>,
    at_once: Semaphore,
    /// The hub refuses Events; this has been logged.
    is_failing: AtomicBool,
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

impl EventRefresher {
    pub(super) fn new(live: Arc<LiveContext>) -> Self {
        Self {
            live,
            throttle: Mutex::default(),
            waiting: Capacity::new(MOST, MOST_OF_CLUSTER),
            at_once: Semaphore::new(AT_ONCE),
            is_failing: AtomicBool::new(false),
        }
    }

    /// Schedules a refresh of the Events of an Application. Returns at once.
    pub(super) fn schedule(self: &Arc<Self>, there: &RemoteApplication) {
        // Only our own agents have a tunnel; Go agents are skipped.
        let Some(namespace) = self.live.tunnels.argocd_namespace(&there.cluster) else {
            return;
        };
        let Some(place) = self.waiting.take(there.cluster.clone()) else {
            return;
        };
        let throttle = self.throttle.lock();
        let mut throttle = throttle.unwrap_or_else(PoisonError::into_inner);
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
        let (this, there) = (Arc::clone(self), there.clone());
        let spawner = self.live.spawner.background();
        spawner.spawn_short("events of an application", async move {
            let _place = place;
            let stop = this.live.spawner.token().clone();
            let refreshing = async {
                sleep_until(turn).await;
                // Never closed.
                let _one = this.at_once.acquire().await;
                this.refresh(&there, &observed).await;
            };
            stop.run_until_cancelled(timeout(LONGEST, refreshing)).await;
        });
    }

    async fn refresh(&self, there: &RemoteApplication, observed: &Observed) {
        let Observed {
            namespace, name, ..
        } = observed;
        let cluster = &there.cluster;
        let asking = timeout(RESPONSE_TIMEOUT, self.ask(cluster, observed));
        let noted = match asking.await.unwrap_or(Err(FetchError::TimedOut)) {
            Ok(noted) if noted.is_empty() => return,
            Ok(noted) => noted,
            Err(why) => {
                return tracing::debug!(%cluster, namespace, name, error = %Chain(&why), "cannot read Events of an Application");
            }
        };
        // It may have been deleted or moved meanwhile.
        match self.live.applications.owner(Some(namespace), name) {
            ObjectOwner::Cluster(now) if now == *there => {}
            ObjectOwner::Cluster(_) | ObjectOwner::Hub | ObjectOwner::NoOne => return,
        }
        match self.write(observed, noted).await {
            Ok(()) => self.is_failing.store(false, Ordering::Relaxed),
            Err(why) if self.is_failing.swap(true, Ordering::Relaxed) => {
                tracing::debug!(%cluster, namespace, name, error = %Chain(&why), "the hub refuses Events of an Application");
            }
            Err(why) => {
                tracing::warn!(%cluster, namespace, name, error = %Chain(&why), "the hub refuses Events of \
                Applications; logging this once until it accepts them");
            }
        }
    }

    /// Writes new Events. A refused one does not stop the others.
    async fn write(&self, observed: &Observed, noted: Noted) -> Result<(), WriteError> {
        let store = &self.live.store;
        let known = store.events(observed).await?;
        let mut refused = Ok(());
        for write in observed.plan(noted, &known, self.live.clock.now()) {
            match store.note(observed, &write).await {
                // Another replica was faster, or the Event has expired.
                Ok(()) | Err(WriteError::Conflict | WriteError::NotFound) => {}
                Err(why @ WriteError::Unavailable(_)) => return Err(why),
                Err(why @ (WriteError::Refused(_) | WriteError::Unfit(_))) => refused = Err(why),
            }
        }
        refused
    }

    async fn ask(&self, cluster: &ClusterName, observed: &Observed) -> Result<Noted, FetchError> {
        let request = dispatch::get(&observed.question(), &Uuid::new_v4().to_string());
        let tunnels = &self.live.tunnels;
        let answer = tunnels.ask(cluster, request, RESPONSE_TIMEOUT).await?;
        if answer.status() != StatusCode::OK {
            return Err(FetchError::Status(answer.status()));
        }
        let body = Limited::new(answer.into_body(), LARGEST).collect().await;
        let body = body.map_err(|_too_long_or_gone| FetchError::Broken)?;
        Ok(Noted::read(&body.to_bytes())?)
    }
}
