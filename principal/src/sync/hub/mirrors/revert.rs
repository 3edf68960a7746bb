//! Reverts edits of mirrors on the hub, and deletes mirrors whose objects are gone.
//!
//! The first edit is reverted at once. Repeated edits are reverted with a growing back-off, so that two controllers
//! that disagree do not keep the API server busy.

use std::{collections::HashMap, time::Duration};

use protocol::ObjectKey;
use runtime::{backoff::Backoff, error::Chain};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{super::serving::Serving, Mirrors};
use crate::store::WriteError;

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// After this long without an edit the back-off starts again.
const PEACE: Duration = Duration::from_mins(1);

/// Another field manager writes a mirror, too.
#[derive(Debug)]
struct Contest {
    backoff: Backoff,
    /// No write before this time.
    next: Instant,
}

impl Mirrors {
    /// Keeps the mirrors in sync with their clusters while this replica serves, until the token is cancelled.
    pub(crate) async fn keep(&self, mut serving: Serving, token: CancellationToken) {
        let mut contests: HashMap<ObjectKey, Contest> = HashMap::new();
        let mut next = async || {
            serving.wait().await;
            self.objects.mirrors.next().await
        };
        while let Some(key) = token.run_until_cancelled(next()).await {
            let now = Instant::now();
            if let Some(contest) = contests.get(&key).filter(|contest| contest.next > now) {
                self.objects.mirrors.mark_at(contest.next, &key);
                continue;
            }
            let written = self.settle(&key).await;
            match &written {
                Ok(false) => continue,
                Ok(true) => tracing::info!(object = %key, "reverted an edit of a mirror"),
                Err(error) => {
                    tracing::debug!(object = %key, error = %Chain(error), "cannot revert an edit of a mirror; retrying");
                }
            }
            let now = Instant::now();
            contests.retain(|_, contest| now < contest.next + PEACE);
            let contest = contests.entry(key.clone()).or_insert_with(|| Contest {
                backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, PEACE),
                next: now,
            });
            contest.next = now + contest.backoff.failed(now);
            if written.is_err() {
                self.objects.mirrors.mark_at(contest.next, &key);
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
