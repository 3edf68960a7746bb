//! How long a session waits for the next event, and when its principal timed out.

use std::time::Duration;

use super::{DRAIN, HANG_UP_GRACE, Moving, work::CONCURRENT_WORK};

impl Moving<'_> {
    /// The time until the next timer is due.
    pub(super) fn wait(&self, heartbeat: Option<Duration>) -> Duration {
        let now = self.begun.elapsed();
        let silence = heartbeat
            .map(|interval| (self.arrived(now) + silence_limit(interval)).saturating_sub(now));
        let drain = self
            .draining
            .as_ref()
            .map(|(since, _)| DRAIN.saturating_sub(since.elapsed()));
        let hang_up = self
            .hung_up
            .map(|since| HANG_UP_GRACE.saturating_sub(since.elapsed()));
        let due = [self.session.next_timeout(now), silence, drain, hang_up]
            .into_iter()
            .flatten()
            .min();
        // A timer that is due but blocked must not spin the loop.
        let cannot = self.full
            || self.hung_up.is_some()
            || self.draining.is_some()
            || self.working.len() >= CONCURRENT_WORK;
        let least = if cannot {
            Duration::from_millis(50)
        } else {
            Duration::from_millis(1)
        };
        due.unwrap_or(Duration::from_mins(1)).max(least)
    }

    pub(super) fn is_silent(&self, heartbeat: Option<Duration>) -> bool {
        let now = self.begun.elapsed();
        heartbeat.is_some_and(|interval| {
            now.saturating_sub(self.arrived(now)) >= silence_limit(interval)
        })
    }

    /// When the last frame arrived. Time in which the agent does not read does not count.
    fn arrived(&self, now: Duration) -> Duration {
        self.session.stats(now).last_received.max(self.unread)
    }
}

/// The principal may miss two and a half heartbeats: with the default, the agent leaves a dead hub after 25 seconds.
fn silence_limit(heartbeat: Duration) -> Duration {
    heartbeat.saturating_mul(5) / 2
}
