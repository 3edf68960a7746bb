//! Reverts edits of mirrors on the hub, and deletes mirrors whose objects are gone.
//!
//! The first edit is reverted at once. Repeated edits are reverted with a growing back-off, so that two controllers
//! that disagree do not keep the API server busy.

use std::{collections::HashMap, time::Duration};

use protocol::ObjectKey;
use runtime::{backoff::Backoff, error::Chain};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{super::serving::Serving, Mirrors};
use crate::store::WriteError;

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

impl Mirrors {
    /// Keeps the mirrors in sync with their clusters while this replica serves, until the token is cancelled.
    pub(crate) async fn keep(&self, mut serving: Serving, token: CancellationToken) {
        let mut contests = Contests::default();
        loop {
            let waiting = contests.next();
            let next = async {
                serving.wait().await;
                match waiting {
                    None => self.objects.mirrors.next().await,
                    Some((when, key)) => tokio::select! {
                        biased;
                        key = self.objects.mirrors.next() => key,
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
            match self.settle(&key).await {
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

    /// Does the next write that a mirror needs; true if something was written.
    pub(super) async fn settle(&self, key: &ObjectKey) -> Result<bool, WriteError> {
        let written = self
            .writer
            .write(key, |live| {
                let live = live.map(|live| &live.object);
                self.objects.lock().mirrors.need(key, live)
            })
            .await;
        let (changed, live) = match written {
            Err(WriteError::NotFound) => (false, None),
            written => written.map(|it| (it.changed, it.object))?,
        };
        self.objects.lock().mirrors.settled(key, changed, live);
        Ok(changed)
    }
}
