//! The queue and the reconciles that run.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use tokio::{
    sync::{Notify, watch},
    task::{Id, JoinSet},
    time::{Instant, timeout},
};
use tracing::{Instrument as _, debug, error, info, info_span, warn};

use super::{Hub, Key};
use crate::sdk::{
    Addon, Error, configs,
    failures::{Transition, Troubles},
    queue::{Outcome, Queue},
    reconcile, request,
};

/// How long reconciles may go on after the token of [`run`](super::run) is cancelled. Short, so that who lost the lease
/// has ended before somebody else leads.
pub const DRAIN: Duration = Duration::from_secs(2);

/// How long one reconcile may take. A client should bound each request by itself; this is for one that does not, and for
/// whatever else an author waits for: a key that is worked on is not looked at, and its place in the crew is taken.
const DEADLINE: Duration = Duration::from_mins(5);

/// The queue, shared with the watches. The lock guards it and is never held over an await.
#[derive(Debug)]
pub(super) struct PendingWork {
    queue: Mutex<Queue<Key>>,
    /// Something was added.
    pub(super) changed: Notify,
}

impl Default for PendingWork {
    fn default() -> Self {
        Self {
            queue: Mutex::new(Queue::new()),
            changed: Notify::new(),
        }
    }
}

impl PendingWork {
    pub(super) fn add(&self, key: Key) {
        self.with(|queue| queue.add(key, Instant::now()));
        self.changed.notify_one();
    }

    fn with<T>(&self, act: impl FnOnce(&mut Queue<Key>) -> T) -> T {
        act(&mut self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The reconciles that run.
pub(super) struct Workers<A> {
    hub: Arc<Hub<A>>,
    pub(super) agenda: Arc<PendingWork>,
    /// Marked as seen before each look, so that a change during the look is noticed.
    pub(super) revision: watch::Receiver<u64>,
    tasks: JoinSet<Outcome>,
    keys: HashMap<Id, Key>,
    /// What fails, so that it is told once. The lock guards it and is never held over an await.
    troubles: Arc<Mutex<Troubles<Key>>>,
}

impl<A: Addon> Workers<A> {
    /// Nobody works yet.
    pub(super) fn new(hub: Arc<Hub<A>>, agenda: Arc<PendingWork>) -> Self {
        let revision = hub.world.revision();
        Self {
            hub,
            agenda,
            revision,
            tasks: JoinSet::new(),
            keys: HashMap::new(),
            troubles: Arc::default(),
        }
    }

    /// Whether not everything has been listed yet.
    pub(super) fn is_listing(&self) -> bool {
        !self.hub.world.look().is_synced()
    }

    /// Starts what is due, and says when to look again.
    pub(super) fn dispatch(&mut self, concurrency: usize) -> Option<Instant> {
        self.revision.mark_unchanged();
        if !self.hub.world.look().is_synced() {
            // Before everything is listed an absent object means nothing.
            return None;
        }
        let now = Instant::now();
        self.hub
            .metrics
            .waiting(self.agenda.with(|queue| queue.waiting(now)));
        while self.tasks.len() < concurrency {
            let Some(key) = self.agenda.with(|queue| queue.take(now)) else {
                return self.agenda.with(|queue| queue.next_due());
            };
            let (hub, troubles) = (Arc::clone(&self.hub), Arc::clone(&self.troubles));
            let task = self.tasks.spawn(look_at(hub, key.clone(), troubles));
            self.keys.insert(task.id(), key);
        }
        None
    }

    /// The next reconcile that ends; one that panicked has failed.
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
        let jitter = rand::random();
        self.agenda
            .with(|queue| queue.finish(key, outcome, Instant::now(), jitter));
    }

    pub(super) async fn drain(&mut self) {
        let rest = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(DRAIN, rest).await.is_err() {
            warn!("reconciles aborted at shutdown");
        }
    }
}

async fn look_at<A: Addon>(
    hub: Arc<Hub<A>>,
    key: Key,
    troubles: Arc<Mutex<Troubles<Key>>>,
) -> Outcome {
    let controller = key.controller();
    let span = info_span!("reconcile", ?controller, object = key.object());
    let begin = Instant::now();
    let outcome = async {
        let troubles = || troubles.lock().unwrap_or_else(PoisonError::into_inner);
        match in_time(reconcile_key(&hub, &key)).await {
            Ok(outcome) => {
                if matches!(outcome, Outcome::Settled(_)) {
                    tell_end(troubles().succeeded(&key));
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

/// Drops what takes too long; the next look begins with what is there then.
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

fn tell_end(updates: Option<Transition>) {
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
    match key {
        Key::Cluster(cluster) => reconcile::reconcile(hub, cluster, now).await,
        Key::Request(name) => request::reconcile(hub, name, now).await,
        Key::Configs => configs::reconcile(hub).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reconcile_that_hangs_is_given_up_and_tried_again() {
        let hangs = timeout(DEADLINE * 2, in_time::<Outcome>(std::future::pending())).await;
        let error = hangs.expect("it is given up").unwrap_err();
        assert!(error.is_transient() && !error.is_conflict());
        assert_eq!(error.to_string(), "timed out after 5 minutes");
        let settles = in_time(std::future::ready(Ok(Outcome::Settled(None)))).await;
        assert!(matches!(settles, Ok(Outcome::Settled(None))));
    }
}
