//! Reverts local edits and brings back what was deleted here.
//!
//! The first revert is immediate. Where somebody keeps editing, the pauses grow, so that two
//! controllers that disagree do not keep the API server busy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol::ObjectKey;
use runtime::backoff::Backoff;
use tokio::sync::Notify;
use tokio::time::Instant;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// After this long without a contest an edit is the first one again.
const PEACE: Duration = Duration::from_mins(1);
/// After so many reverts, about half a minute, a person has to settle it.
const REPORT_AFTER: u32 = 6;

/// Objects whose live state has to be compared with what the hub wants.
#[derive(Debug, Default)]
pub(super) struct Drift {
    // Bounded by the number of objects; held for an insert, never over an await.
    dirty: Mutex<BTreeSet<ObjectKey>>,
    wake: Notify,
}

impl Drift {
    /// This one has to be looked at.
    pub(super) fn check(&self, key: ObjectKey) {
        self.lock().insert(key);
        self.wake.notify_one();
    }

    fn take(&self) -> BTreeSet<ObjectKey> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<ObjectKey>> {
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for something to look at.
    pub(super) async fn changed(&self) {
        self.wake.notified().await;
    }
}

/// Which objects are due now, and which have to wait because they are contested.
#[derive(Debug, Default)]
pub(super) struct Contests {
    waiting: BTreeMap<ObjectKey, Contest>,
}

/// What is due by now.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    /// To be looked at, in order.
    pub(super) look: Vec<ObjectKey>,
    /// Contests that were told and that nobody has continued.
    pub(super) over: Vec<ObjectKey>,
}

#[derive(Debug)]
struct Contest {
    backoff: Backoff,
    /// Not before this.
    next: Instant,
    /// It was touched meanwhile.
    dirty: bool,
    /// How often it was put right.
    reverts: u32,
}

impl Contest {
    const fn is_reported(&self) -> bool {
        self.reverts >= REPORT_AFTER
    }

    fn ends(&self) -> Instant {
        self.next + PEACE
    }
}

impl Contests {
    /// Takes what came together and returns what is due.
    pub(super) fn due(&mut self, drift: &Drift, now: Instant) -> Due {
        let Due { mut look, mut over } = Due::default();
        for key in drift.take() {
            match self.waiting.get_mut(&key) {
                Some(contest) if contest.next > now => contest.dirty = true,
                Some(_) | None => look.push(key),
            }
        }
        for (key, contest) in &mut self.waiting {
            if contest.dirty && contest.next <= now {
                contest.dirty = false;
                look.push(key.clone());
            }
        }
        // A contest that nobody continued is over.
        self.waiting.retain(|key, contest| {
            let goes_on = contest.dirty || now < contest.ends();
            if !goes_on && contest.is_reported() {
                over.push(key.clone());
            }
            goes_on
        });
        Due { look, over }
    }

    /// Whether putting it right once more is what a person has to be told.
    pub(super) fn is_to_be_told(&self, key: &ObjectKey) -> bool {
        let contest = self.waiting.get(key);
        contest.is_some_and(|contest| contest.reverts == REPORT_AFTER - 1)
    }

    /// Something was written, or could not be: the next look at this object waits.
    pub(super) fn wrote(&mut self, key: ObjectKey, again: bool, now: Instant) {
        let contest = self.waiting.entry(key).or_insert_with(|| Contest {
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, PEACE),
            next: now,
            dirty: false,
            reverts: 0,
        });
        contest.reverts = contest.reverts.saturating_add(u32::from(!again));
        contest.next = now + contest.backoff.failed(now);
        contest.dirty |= again;
    }

    /// When the next one is due; none if none waits.
    pub(super) fn next(&self) -> Option<Instant> {
        let all = self.waiting.values();
        all.filter_map(|contest| {
            let ends = contest.is_reported().then(|| contest.ends());
            if contest.dirty {
                Some(contest.next)
            } else {
                ends
            }
        })
        .min()
    }
}

#[cfg(test)]
mod tests {
    use protocol::Kind;

    use super::*;

    fn key() -> ObjectKey {
        ObjectKey::new(Kind::Application, "argocd", "app")
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_revert_is_immediate_and_a_contest_slows_down() {
        let (drift, mut contests) = (Drift::default(), Contests::default());
        let mut now = Instant::now();
        let mut pauses = vec![];
        for _ in 0..5 {
            drift.check(key());
            let begun = now;
            while contests.due(&drift, now).look.is_empty() {
                now = contests
                    .next()
                    .expect("it is dirty, so it is due some time");
            }
            pauses.push(now - begun);
            contests.wrote(key(), false, now);
        }
        assert_eq!(pauses.first(), Some(&Duration::ZERO));
        assert!(
            pauses.last().unwrap() >= &Duration::from_secs(4),
            "{pauses:?}"
        );
        assert_eq!(contests.next(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn after_peace_an_edit_is_the_first_one_again() {
        let (drift, mut contests) = (Drift::default(), Contests::default());
        let now = Instant::now();
        contests.wrote(key(), false, now);
        let later = now + PEACE + FIRST_PAUSE;
        assert_eq!(contests.due(&drift, later), Due::default());
        assert!(contests.waiting.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn contest_is_reported_once_and_so_is_its_end() {
        let (drift, mut contests) = (Drift::default(), Contests::default());
        let mut now = Instant::now();
        let mut reply = 0;
        for _ in 0..12 {
            drift.check(key());
            while contests.due(&drift, now).look.is_empty() {
                now = contests.next().expect("it is dirty");
            }
            reply += u32::from(contests.is_to_be_told(&key()));
            contests.wrote(key(), false, now);
        }
        assert_eq!(reply, 1);
        now = contests.next().expect("the end of the contest");
        let over = Due {
            over: vec![key()],
            ..Due::default()
        };
        assert_eq!(contests.due(&drift, now), over);
        assert_eq!(contests.next(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_fails_for_long_is_no_contest() {
        let (mut contests, now) = (Contests::default(), Instant::now());
        for _ in 0..20 {
            contests.wrote(key(), true, now);
            assert!(!contests.is_to_be_told(&key()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_write_is_tried_again_without_a_new_edit() {
        let (drift, mut contests) = (Drift::default(), Contests::default());
        let now = Instant::now();
        contests.wrote(key(), true, now);
        assert!(contests.due(&drift, now).look.is_empty());
        let next = contests.next().unwrap();
        assert_eq!(contests.due(&drift, next).look, [key()]);
    }
}
