//! How long a session may wait for something to happen, and when its principal is silent for too long.

use std::time::Duration;

use super::{DRAIN, LAST_WORD, Moving, work::HANDS};

impl Moving<'_> {
    /// How long nothing becomes due.
    pub(super) fn wait(&self, heartbeat: Option<Duration>) -> Duration {
        let now = self.begun.elapsed();
        let silence = heartbeat
            .map(|interval| (self.arrived(now) + silence_limit(interval)).saturating_sub(now));
        let drain = self
            .draining
            .as_ref()
            .map(|(since, _)| DRAIN.saturating_sub(since.elapsed()));
        let last_word = self
            .hung_up
            .map(|since| LAST_WORD.saturating_sub(since.elapsed()));
        let due = [self.session.next_timeout(now), silence, drain, last_word]
            .into_iter()
            .flatten()
            .min();
        // What is due and cannot be done now must not keep the loop turning.
        let cannot = self.full
            || self.hung_up.is_some()
            || self.draining.is_some()
            || self.working.len() >= HANDS;
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

    /// Since when the principal is silent. While it is not read it is not.
    fn arrived(&self, now: Duration) -> Duration {
        self.session.stats(now).last_received.max(self.unread)
    }
}

/// Two heartbeats may stay unanswered, and half of a third: with the default, a dead hub is left after 25 seconds.
fn silence_limit(heartbeat: Duration) -> Duration {
    heartbeat.saturating_mul(5) / 2
}
