//! Reverts edits of mirrors on the hub, and deletes mirrors whose objects are gone.
//!
//! The first edit is reverted at once. Repeated edits are reverted with a growing back-off, so that two controllers
//! that disagree do not keep the API server busy.

use std::{collections::HashMap, sync::Arc, time::Duration};

use protocol::ObjectKey;
use runtime::{backoff::Backoff, error::Chain};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::super::{Hub, store::WriteError};
use super::{
    Need, Stage,
    write::{Step, Written},
};

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// After this long without an edit the back-off starts again.
const PEACE: Duration = Duration::from_mins(1);

/// Mirrors that another field manager writes, too.
#[derive(Debug, Default)]
struct Contests(HashMap<ObjectKey, Contest>);

#[derive(Debug)]
struct Contest {
    backoff: Backoff,
    /// No write before this time.
    next: Instant,
    /// An edit waits for the next write.
    waits: bool,
}

impl Contests {
    /// Whether a mirror may be written now; otherwise marks it as waiting.
    fn admits(&mut self, key: &ObjectKey, now: Instant) -> bool {
        match self.0.get_mut(key) {
            Some(contest) if contest.next > now => {
                contest.waits = true;
                false
            }
            Some(contest) => {
                // Its turn has come, whether the write succeeds or not.
                contest.waits = false;
                true
            }
            None => true,
        }
    }

    /// Records a write, or a failed one.
    fn wrote(&mut self, key: ObjectKey, failed: bool, now: Instant) {
        self.0
            .retain(|_, contest| contest.waits || now < contest.next + PEACE);
        let contest = self.0.entry(key).or_insert_with(|| Contest {
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, PEACE),
            next: now,
            waits: false,
        });
        contest.next = now + contest.backoff.failed(now);
        contest.waits = failed;
    }

    /// The next waiting mirror, and its time.
    fn next(&self) -> Option<(Instant, ObjectKey)> {
        let waiting = self.0.iter().filter(|(_, contest)| contest.waits);
        waiting
            .map(|(key, contest)| (contest.next, key.clone()))
            .min()
    }
}

/// Keeps the mirrors in sync with their clusters while this replica serves, until the token is cancelled.
pub(crate) async fn keep(
    hub: Arc<Hub>,
    mut active: watch::Receiver<bool>,
    mut ready: watch::Receiver<bool>,
    token: CancellationToken,
) {
    let mut contests = Contests::default();
    loop {
        let waiting = contests.next();
        let next = async {
            // An error means that the program stops, and then the token is cancelled too.
            let serving = ready.wait_for(|ready| *ready).await.is_ok()
                && active.wait_for(|active| *active).await.is_ok();
            if !serving {
                return std::future::pending().await;
            }
            match waiting {
                None => hub.mirrors_to_reconcile.next().await,
                Some((when, key)) => tokio::select! {
                    biased;
                    key = hub.mirrors_to_reconcile.next() => key,
                    () = sleep_until(when) => key,
                },
            }
        };
        let Some(key) = token.run_until_cancelled(next).await else {
            return;
        };
        if !contests.admits(&key, Instant::now()) {
            continue;
        }
        match hub.settle_mirror(&key).await {
            Ok(false) => {}
            Ok(true) => {
                tracing::info!(object = %key, "reverted an edit of a mirror");
                contests.wrote(key, false, Instant::now());
            }
            Err(error) => {
                tracing::debug!(object = %key, error = %Chain(&error), "cannot revert an edit of a mirror; retrying");
                contests.wrote(key, true, Instant::now());
            }
        }
    }
}

impl Hub {
    /// Does the next write that a mirror needs; true if something was written.
    pub(super) async fn settle_mirror(&self, key: &ObjectKey) -> Result<bool, WriteError> {
        let written = self
            .write_mirror(key, |live| {
                let object = live.map(|live| &live.object);
                let need = self.lock().mirrors.need(key, object);
                match need {
                    Need::Nothing => Step::Nothing,
                    Need::Create(object) => Step::Create(object),
                    Need::Patch(patch) => Step::Patch(patch),
                    Need::Delete => Step::Delete,
                }
            })
            .await;
        let Written { changed, object } = match written {
            Err(WriteError::NotFound) => Written {
                changed: false,
                object: None,
            },
            other => other?,
        };
        let mut state = self.lock();
        match (
            state.mirrors.known.get_mut(key).map(|it| &mut it.stage),
            object,
        ) {
            // The result of our write is the wanted object: the API server drops unknown fields.
            (
                Some(Stage::Kept {
                    object: retained, ..
                }),
                Some(object),
            ) if changed => *retained = object,
            (Some(Stage::Leaving), None) => state.mirrors.left(key),
            _ => {}
        }
        Ok(changed)
    }
}
