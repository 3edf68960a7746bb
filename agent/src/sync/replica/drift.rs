//! Finds the objects whose local edits and deletions are to be reverted now.
//!
//! The first revert is immediate. If another writer keeps editing, the pauses grow, so that two
//! controllers that disagree do not overload the API server.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::ObjectKey;
use runtime::backoff::Backoff;
use runtime::work_queue::WorkQueue;
use tokio::time::Instant;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// A contest ends after this time without an edit.
const QUIET: Duration = Duration::from_mins(1);
/// The agent reports a contest after so many reverts, about half a minute.
const REPORT_AFTER: u32 = 6;

/// Objects whose live state the agent has to compare with the desired state. Bounded by the number of objects.
pub(super) type Drift = WorkQueue<ObjectKey>;

/// The objects whose next comparison waits because another writer contests them.
#[derive(Debug, Default)]
pub(super) struct Contests {
    waiting: BTreeMap<ObjectKey, Contest>,
}

/// The objects that are due now.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    /// Objects to compare, in the order of their changes.
    pub(super) look: Vec<ObjectKey>,
    /// Reported contests that are over.
    pub(super) over: Vec<ObjectKey>,
}

#[derive(Debug)]
struct Contest {
    backoff: Backoff,
    /// The earliest time of the next comparison.
    next: Instant,
    /// The object changed meanwhile.
    dirty: bool,
    /// The number of reverts.
    reverts: u32,
}

impl Contest {
    const fn is_reported(&self) -> bool {
        self.reverts >= REPORT_AFTER
    }

    fn ends(&self) -> Instant {
        self.next + QUIET
    }
}

impl Contests {
    /// Takes the marked objects and returns those that are due.
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
        // A contest without new edits is over.
        self.waiting.retain(|key, contest| {
            let continues = contest.dirty || now < contest.ends();
            if !continues && contest.is_reported() {
                over.push(key.clone());
            }
            continues
        });
        Due { look, over }
    }

    /// Whether the next revert is the one to report.
    pub(super) fn is_to_report(&self, key: &ObjectKey) -> bool {
        let contest = self.waiting.get(key);
        contest.is_some_and(|contest| contest.reverts == REPORT_AFTER - 1)
    }

    /// Notes a write, or a failed one (`again`): the next comparison of this object waits.
    pub(super) fn wrote(&mut self, key: ObjectKey, again: bool, now: Instant) {
        let contest = self.waiting.entry(key).or_insert_with(|| Contest {
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, QUIET),
            next: now,
            dirty: false,
            reverts: 0,
        });
        contest.reverts = contest.reverts.saturating_add(u32::from(!again));
        contest.next = now + contest.backoff.failed(now);
        contest.dirty |= again;
    }

    /// When the next object is due; none if none waits.
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
    async fn first_revert_is_immediate_and_a_contest_backs_off() {
        let (drift, mut contests) = (Drift::default(), Contests::default());
        let mut now = Instant::now();
        let mut pauses = vec![];
        for _ in 0..5 {
            drift.mark(key());
            let begun = now;
            while contests.due(&drift, now).look.is_empty() {
                now = contests.next().expect("a dirty object has a due time");
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
    async fn backoff_of_a_contest_resets_after_a_quiet_period() {
        let (drift, mut contests) = (Drift::default(), Contests::default());
        let now = Instant::now();
        contests.wrote(key(), false, now);
        let later = now + QUIET + FIRST_PAUSE;
        assert_eq!(contests.due(&drift, later), Due::default());
        assert!(contests.waiting.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn contest_is_reported_once_and_so_is_its_end() {
        let (drift, mut contests) = (Drift::default(), Contests::default());
        let mut now = Instant::now();
        let mut reports = 0;
        for _ in 0..12 {
            drift.mark(key());
            while contests.due(&drift, now).look.is_empty() {
                now = contests.next().expect("it is dirty");
            }
            reports += u32::from(contests.is_to_report(&key()));
            contests.wrote(key(), false, now);
        }
        assert_eq!(reports, 1);
        now = contests.next().expect("the end of the contest");
        let over = Due {
            over: vec![key()],
            ..Due::default()
        };
        assert_eq!(contests.due(&drift, now), over);
        assert_eq!(contests.next(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn repeated_write_failures_are_no_contest() {
        let (mut contests, now) = (Contests::default(), Instant::now());
        for _ in 0..20 {
            contests.wrote(key(), true, now);
            assert!(!contests.is_to_report(&key()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_revert_is_retried_without_a_new_edit() {
        let (drift, mut contests) = (Drift::default(), Contests::default());
        let now = Instant::now();
        contests.wrote(key(), true, now);
        assert!(contests.due(&drift, now).look.is_empty());
        let next = contests.next().unwrap();
        assert_eq!(contests.due(&drift, next).look, [key()]);
    }
}
