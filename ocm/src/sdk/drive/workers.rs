//! The work queue and the running reconciles.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use tokio::{
    sync::watch,
    task::{Id, JoinSet},
    time::{Instant, timeout},
};
use tracing::{Instrument as _, debug, error, info, info_span, warn};

use crate::sdk::{
    Addon, Error, configs,
    failures::{Transition, Troubles},
    hub::Hub,
    key::Key,
    queue::Outcome,
    reconcile, request,
};

/// How long reconciles may continue after the token of [`run`](super::run) is cancelled. Short, so that a replica that
/// lost the lease has stopped before the next one leads.
pub const DRAIN: Duration = Duration::from_secs(2);

/// The timeout of one reconcile. Clients should bound each request; this also bounds other waits of an author, since a
/// hanging reconcile occupies a worker and blocks its key.
const DEADLINE: Duration = Duration::from_mins(5);

/// The running reconciles.
pub(super) struct Workers<A> {
    hub: Arc<Hub<A>>,
    /// Marked as seen before each dispatch, so that a change during the dispatch is noticed.
    pub(super) revision: watch::Receiver<u64>,
    tasks: JoinSet<Outcome>,
    keys: HashMap<Id, Key>,
    /// The current failures, so that each is logged once. The lock is released before every await.
    troubles: Arc<Mutex<Troubles<Key>>>,
}

impl<A: Addon> Workers<A> {
    pub(super) fn new(hub: Arc<Hub<A>>) -> Self {
        Self {
            revision: hub.world.revision(),
            hub,
            tasks: JoinSet::new(),
            keys: HashMap::new(),
            troubles: Arc::default(),
        }
    }

    /// Whether a first list is still incomplete.
    pub(super) fn is_listing(&self) -> bool {
        !self.hub.world.lock().is_synced()
    }

    /// Starts the due reconciles and returns when the next key is due.
    pub(super) fn dispatch(&mut self, concurrency: usize) -> Option<Instant> {
        self.revision.mark_unchanged();
        if !self.hub.world.lock().is_synced() {
            // Until all lists are complete, a missing object may exist.
            return None;
        }
        let now = Instant::now();
        let pending = &self.hub.pending;
        let waiting = pending.with(|queue| queue.waiting(now));
        self.hub.metrics.waiting(waiting);
        while self.tasks.len() < concurrency {
            let Some(key) = pending.with(|queue| queue.take(now)) else {
                return pending.with(|queue| queue.next_due());
            };
            let (hub, troubles) = (Arc::clone(&self.hub), Arc::clone(&self.troubles));
            let task = self.tasks.spawn(run_key(hub, key.clone(), troubles));
            self.keys.insert(task.id(), key);
        }
        None
    }

    /// Waits for the next reconcile to end; a panic counts as a failure.
    pub(super) async fn join_next(&mut self) -> Option<(Key, Outcome)> {
        let (id, outcome) = match self.tasks.join_next_with_id().await? {
            Ok((id, outcome)) => (id, outcome),
            Err(panic) => {
                error!(%panic, "reconcile panicked");
                (panic.id(), Outcome::Failed)
            }
        };
        Some((self.keys.remove(&id)?, outcome))
    }

    pub(super) fn finish(&self, key: Key, outcome: Outcome) {
        let (now, jitter) = (Instant::now(), rand::random());
        let pending = &self.hub.pending;
        pending.with(|queue| queue.finish(key, outcome, now, jitter));
    }

    pub(super) async fn drain(&mut self) {
        let rest = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(DRAIN, rest).await.is_err() {
            warn!("reconciles aborted at shutdown");
        }
    }
}

async fn run_key<A: Addon>(
    hub: Arc<Hub<A>>,
    key: Key,
    troubles: Arc<Mutex<Troubles<Key>>>,
) -> Outcome {
    let (controller, object) = key.title();
    let span = info_span!("reconcile", ?controller, object);
    let begin = Instant::now();
    let outcome = async {
        let troubles = || troubles.lock().unwrap_or_else(PoisonError::into_inner);
        match in_time(reconcile_key(&hub, &key)).await {
            Ok(outcome) => {
                if matches!(outcome, Outcome::Settled(_)) {
                    log_recovery(troubles().succeeded(&key));
                }
                outcome
            }
            Err(error) if error.is_conflict() => {
                debug!(error = %error.chain(), "conflict: another writer was first");
                Outcome::Soon
            }
            Err(error) => {
                let updates = troubles().failed(&key, error.reason(), error.is_transient());
                log_transition(&error, updates);
                Outcome::Failed
            }
        }
    };
    let outcome = outcome.instrument(span).await;
    hub.metrics
        .reconciled(controller, outcome, begin.elapsed().as_secs_f64());
    outcome
}

/// Applies the [`DEADLINE`]; the retry starts from the state at that time.
async fn in_time<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    timeout(DEADLINE, work)
        .await
        .unwrap_or(Err(Error::Overdue(DEADLINE)))
}

fn log_transition(error: &Error, updates: Option<Transition>) {
    let (reason, chain) = (error.reason(), error.chain());
    match updates {
        Some(Transition::Hub) => {
            warn!(reason, error = %chain, "the hub API does not answer; reconciles wait");
        }
        Some(Transition::Own) => warn!(reason, error = %chain, "reconcile failed"),
        None => debug!(reason, error = %chain, "reconcile still failing; retrying"),
    }
}

fn log_recovery(updates: Option<Transition>) {
    match updates {
        Some(Transition::Hub) => info!("the hub API answers again"),
        Some(Transition::Own) => info!("reconcile succeeds again"),
        None => {}
    }
}

async fn reconcile_key<A: Addon>(hub: &Hub<A>, key: &Key) -> Result<Outcome, Error> {
    if hub.world.is_behind(key, Instant::now()) {
        return Ok(Outcome::Behind);
    }
    let now = Timestamp::now();
    let recheck = match key {
        Key::Cluster(cluster) => reconcile::reconcile(hub, cluster, now).await?,
        Key::Request(name) => request::reconcile(hub, name, now).await?,
        Key::Configs => configs::reconcile(hub).await.map(|()| None)?,
    };
    Ok(Outcome::Settled(recheck))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_hanging_reconcile_times_out_and_is_retried() {
        let hangs = timeout(DEADLINE * 2, in_time::<Outcome>(std::future::pending())).await;
        let error = hangs.expect("a timeout").unwrap_err();
        assert!(error.is_transient() && !error.is_conflict());
        assert_eq!(error.to_string(), "timed out after 5 minutes");
        let settles = in_time(std::future::ready(Ok(Outcome::Settled(None)))).await;
        assert!(matches!(settles, Ok(Outcome::Settled(None))));
    }
}
