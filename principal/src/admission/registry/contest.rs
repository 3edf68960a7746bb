//! Whether somebody may take the seat of a session that lives.
//!
//! An agent that comes again takes its own seat, since the hub may see the end of a connection much later than the agent
//! does. Two agents with one identity, such as a copy of a certificate or a Pod that was left behind, would take it from
//! each other for ever by that. So whoever sits stays for longer and longer while it happens: the two settle on one of
//! them, and it costs one handshake now and then.

use std::time::Duration;

use tokio::time::Instant;

/// So often a network that breaks may look like a rival.
const FREE: u32 = 5;
/// How long whoever sits stays when it has happened more often; doubled with each time.
const FIRST: Duration = Duration::from_secs(15);
const LONGEST: Duration = Duration::from_mins(5);
/// Whoever was heard so recently is alive: an agent notices a dead connection later than that.
const ALIVE: Duration = Duration::from_secs(10);
/// After so long without another attempt nothing is held against anybody.
const FORGOTTEN: Duration = Duration::from_mins(10);

/// The session that sits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incumbent {
    pub(super) began: Instant,
    /// When it was heard last.
    pub(super) arrived: Instant,
}

/// How often a seat was taken from a session that lived.
#[derive(Debug, Default)]
pub(super) struct Contest {
    times: u32,
    /// The last time that this was so, or that somebody wanted it and had to wait.
    last: Option<Instant>,
}

impl Contest {
    /// Whether the seat of `incumbent` may be taken now; what is decided is remembered.
    pub(super) fn may_take(&mut self, incumbent: Incumbent, now: Instant) -> bool {
        if !self.goes_on(now) {
            *self = Self::default();
        }
        let sits = now.saturating_duration_since(incumbent.began);
        if sits < self.stays() {
            self.last = Some(now);
            return false;
        }
        if now.saturating_duration_since(incumbent.arrived) < ALIVE {
            self.times = self.times.saturating_add(1);
            self.last = Some(now);
        }
        true
    }

    /// Whether two fight for the seat.
    pub(super) fn is_on(&self, now: Instant) -> bool {
        self.times > FREE && self.goes_on(now)
    }

    fn goes_on(&self, now: Instant) -> bool {
        self.last
            .is_some_and(|last| now.saturating_duration_since(last) < FORGOTTEN)
    }

    /// How long a session stays whoever else comes.
    fn stays(&self) -> Duration {
        match self.times.checked_sub(FREE + 1) {
            None => Duration::ZERO,
            Some(more) => FIRST.saturating_mul(1 << more.min(10)).min(LONGEST),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// How often in an hour a seat changes hands, when another one comes after each pause, and whoever sits is heard so
    /// often; and whether it is a fight in the end.
    fn changes_in_an_hour(pause: Duration, heard_every: Duration) -> (u32, bool) {
        let start = Instant::now();
        let mut contest = Contest::default();
        let (mut began, mut changes, mut now) = (start, 0, start);
        while now < start + 3600 * SECOND {
            now += pause;
            let since = now.duration_since(began).as_millis();
            let silent = since % heard_every.as_millis();
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
            let (changes, fight) = changes_in_an_hour(pause, 5 * SECOND);
            assert!((FREE..30).contains(&changes), "{pause:?}: {changes}");
            assert!(fight, "{pause:?}");
        }
    }

    #[test]
    fn a_rival_that_never_says_a_word_is_held_to_it_too() {
        let (changes, fight) = changes_in_an_hour(SECOND, 3600 * SECOND);
        assert!((FREE..400).contains(&changes), "{changes}");
        assert!(fight);
    }

    #[test]
    fn an_agent_whose_network_breaks_always_gets_its_own_seat_back() {
        // It was not heard any more when it came again.
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
    fn a_fight_is_forgotten_when_nobody_comes_any_more() {
        let mut contest = Contest::default();
        let mut now = Instant::now();
        let sits_since = |began| Incumbent {
            began,
            arrived: began,
        };
        for _ in 0..=FREE {
            assert!(contest.may_take(sits_since(now), now));
        }
        assert!(contest.is_on(now));
        assert!(!contest.may_take(sits_since(now), now + SECOND));
        now += FORGOTTEN + SECOND;
        assert!(!contest.is_on(now));
        assert!(contest.may_take(sits_since(now), now));
    }
}
