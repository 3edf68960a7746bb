//! Whether another agent may take the slot of a live session.
//!
//! An agent that reconnects takes its own slot: the hub may notice the end of a connection much later than the agent
//! does. Two agents with one identity, such as a copied certificate or a forgotten Pod, would therefore supersede each
//! other for ever. So the session is protected for longer and longer while this continues: one of the two keeps the
//! slot, at the price of one handshake now and then.

use std::time::Duration;

use runtime::backoff::Doubling;
use tokio::time::Instant;

/// So many takeovers may come from an unstable network.
const FREE: u32 = 5;
/// For how long a session keeps a contested slot; doubled with each further takeover.
const PROTECTION: Doubling = Doubling {
    min: Duration::from_secs(15),
    max: Duration::from_mins(5),
};
/// A session with a message this recent is alive: an agent notices a dead connection later than that.
const ALIVE: Duration = Duration::from_secs(10);
/// A contest ends after this time without another attempt.
const FORGOTTEN: Duration = Duration::from_mins(10);

/// The session that has the slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incumbent {
    pub(super) began: Instant,
    /// The time of its last message.
    pub(super) arrived: Instant,
}

/// Counts how often a live session lost its slot.
#[derive(Debug, Default)]
pub(super) struct Contest {
    times: u32,
    /// The last takeover of a live session, or the last attempt that had to wait.
    last: Option<Instant>,
}

impl Contest {
    /// Whether the slot of `incumbent` may be taken now; remembers the attempt.
    pub(super) fn may_take(&mut self, incumbent: Incumbent, now: Instant) -> bool {
        if !self.is_recent(now) {
            *self = Self::default();
        }
        let age = now.saturating_duration_since(incumbent.began);
        if age < self.protection() {
            self.last = Some(now);
            return false;
        }
        if now.saturating_duration_since(incumbent.arrived) < ALIVE {
            self.times = self.times.saturating_add(1);
            self.last = Some(now);
        }
        true
    }

    /// Whether two agents contest the slot.
    pub(super) fn is_on(&self, now: Instant) -> bool {
        self.times > FREE && self.is_recent(now)
    }

    fn is_recent(&self, now: Instant) -> bool {
        self.last
            .is_some_and(|last| now.saturating_duration_since(last) < FORGOTTEN)
    }

    /// For how long a new session keeps its slot.
    fn protection(&self) -> Duration {
        if self.times <= FREE {
            return Duration::ZERO;
        }
        PROTECTION.after(self.times.saturating_sub(FREE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// How often a slot changes hands in an hour, with an attempt after each `pause` and a message of the incumbent at
    /// each `interval`; and whether the slot is contested at the end.
    fn changes_in_an_hour(pause: Duration, interval: Duration) -> (u32, bool) {
        let start = Instant::now();
        let mut contest = Contest::default();
        let (mut began, mut changes, mut now) = (start, 0, start);
        while now < start + 3600 * SECOND {
            now += pause;
            let since = now.duration_since(began).as_millis();
            let silent = since % interval.as_millis();
            let arrived = now - Duration::from_millis(u64::try_from(silent).unwrap());
            if contest.may_take(Incumbent { began, arrived }, now) {
                (began, changes) = (now, changes + 1);
            }
        }
        (changes, contest.is_on(now))
    }

    #[test]
    fn two_that_live_settle_on_one_of_them() {
        for pause in [SECOND / 10, SECOND, 15 * SECOND] {
            let (changes, contested) = changes_in_an_hour(pause, 5 * SECOND);
            assert!((FREE..30).contains(&changes), "{pause:?}: {changes}");
            assert!(contested, "{pause:?}");
        }
    }

    #[test]
    fn contest_of_silent_agents_is_limited_too() {
        let (changes, contested) = changes_in_an_hour(SECOND, 3600 * SECOND);
        assert!((FREE..400).contains(&changes), "{changes}");
        assert!(contested);
    }

    #[test]
    fn agent_with_an_unstable_network_gets_its_session_slot_back() {
        // Its last message is long ago when it reconnects.
        let start = Instant::now();
        let mut contest = Contest::default();
        for time in 1..100 {
            let began = start + (time - 1) * 30 * SECOND;
            let arrived = began + 5 * SECOND;
            let now = start + time * 30 * SECOND;
            assert!(contest.may_take(Incumbent { began, arrived }, now));
            assert!(!contest.is_on(now));
        }
    }

    #[test]
    fn contest_is_forgotten_without_further_attempts() {
        let mut contest = Contest::default();
        let mut now = Instant::now();
        let incumbent = |began| Incumbent {
            began,
            arrived: began,
        };
        for _ in 0..=FREE {
            assert!(contest.may_take(incumbent(now), now));
        }
        assert!(contest.is_on(now));
        assert!(!contest.may_take(incumbent(now), now + SECOND));
        now += FORGOTTEN + SECOND;
        assert!(!contest.is_on(now));
        assert!(contest.may_take(incumbent(now), now));
    }
}
