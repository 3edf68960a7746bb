//! How long a session waits for the next event, and when its principal timed out.

use std::time::Duration;

use tokio::time::Instant;

use super::{CONCURRENT_WORK, SessionState};

impl SessionState<'_> {
    /// The time until the next timer is due. `is_full`: the outgoing half has no room.
    pub(super) fn wait(&self, heartbeat: Option<Duration>, is_full: bool) -> Duration {
        let now = self.begun.elapsed();
        let silence = heartbeat
            .map(|interval| (self.arrived(now) + silence_limit(interval)).saturating_sub(now));
        let ends = self.phase.ends();
        let end = ends.map(|at| at.saturating_duration_since(Instant::now()));
        let due = [self.session.next_timeout(now), silence, end]
            .into_iter()
            .flatten()
            .min();
        // A timer that is due but blocked must not spin the loop.
        let is_blocked = is_full || !self.phase.is_up() || self.working.len() >= CONCURRENT_WORK;
        let least = Duration::from_millis(if is_blocked { 50 } else { 1 });
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
