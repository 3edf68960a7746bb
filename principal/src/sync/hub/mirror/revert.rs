//! Takes back what somebody did to mirrors on the hub, and lets those go that have to go.
//!
//! The first time at once; where somebody keeps at it, the pauses grow, so that two who disagree do not keep the API
//! server busy.

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
    Need, Stand,
    write::{Step, Written},
};

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// After this long without a contest an edit is the first one again.
const PEACE: Duration = Duration::from_mins(1);

/// Objects that somebody else writes, too.
#[derive(Debug, Default)]
struct Contests(HashMap<ObjectKey, Contest>);

#[derive(Debug)]
struct Contest {
    backoff: Backoff,
    /// Not before this.
    next: Instant,
    /// It was touched meanwhile.
    waits: bool,
}

impl Contests {
    /// Whether this one may be written now; if not, it waits for its time.
    fn admits(&mut self, key: &ObjectKey, now: Instant) -> bool {
        match self.0.get_mut(key) {
            Some(contest) if contest.next > now => {
                contest.waits = true;
                false
            }
            Some(contest) => {
                // Its turn has come, whatever comes of it.
                contest.waits = false;
                true
            }
            None => true,
        }
    }

    /// It was written, or could not be.
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

    /// The next one that waits, and when its time is.
    fn next(&self) -> Option<(Instant, ObjectKey)> {
        let waiting = self.0.iter().filter(|(_, contest)| contest.waits);
        waiting
            .map(|(key, contest)| (contest.next, key.clone()))
            .min()
    }
}

/// Keeps the mirrors as their clusters want them while this replica serves, until the token is cancelled.
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
    /// Does what a mirror needs, one step; true if something was written.
    pub(super) async fn settle_mirror(&self, key: &ObjectKey) -> Result<bool, WriteError> {
        let written = self
            .write_mirror(key, |live| {
                let object = live.map(|live| &live.object);
                let need = self.lock().mirrors.need(key, object);
                match need {
                    Need::Nothing => Step::Nothing,
                    Need::Make(object) => Step::Create(object),
                    Need::Mend(patch) => Step::Patch(patch),
                    Need::End => Step::Delete,
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
            state.mirrors.known.get_mut(key).map(|it| &mut it.stand),
            object,
        ) {
            // What remains of our write is what is wanted: the API server leaves out what it does not know.
            (
                Some(Stand::Blocked {
                    object: retained, ..
                }),
                Some(object),
            ) if changed => *retained = object,
            (Some(Stand::Leaving), None) => state.mirrors.left(key),
            _ => {}
        }
        Ok(changed)
    }
}
