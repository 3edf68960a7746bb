//! The heartbeat of a peer, if it sends any.
//!
//! An agent's own settings decide whether and how often it sends heartbeats. So the monitor learns the interval: only a
//! peer with two heartbeats can time out, by its own interval.

use std::time::Duration;

/// Three heartbeats may get lost before a peer counts as gone.
const MISSED: u32 = 4;

/// An unread peer gets a sign of life no more often than this.
const SHORTEST: Duration = Duration::from_secs(1);

/// The known heartbeats.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeartbeatMonitor {
    last: Option<Duration>,
    gap: Option<Duration>,
    /// When we last did not read the peer, so that its heartbeats could not arrive.
    unread: Duration,
    /// When the unread peer last got a sign of life.
    last_sign: Duration,
}

impl HeartbeatMonitor {
    /// A heartbeat arrived.
    pub(super) fn beat(&mut self, now: Duration) {
        self.gap = self.last.map(|last| now.saturating_sub(last));
        self.last = Some(now);
    }

    /// How long the peer may be silent, at least `least`; none while its interval is unknown.
    fn silence(&self, least: Duration) -> Option<Duration> {
        self.gap.map(|gap| gap.saturating_mul(MISSED).max(least))
    }

    /// How long the peer may still be silent after its last message at `arrived`; none while its interval is unknown.
    ///
    /// While we do not read the peer it does not count as silent: the timeout starts when we read again.
    pub(super) fn response_timeout(
        &self,
        least: Duration,
        arrived: Duration,
        now: Duration,
    ) -> Option<Duration> {
        let since = arrived.max(self.unread);
        self.silence(least)
            .map(|limit| since.saturating_add(limit).saturating_sub(now))
    }

    /// We do not read the peer now.
    pub(super) const fn unread(&mut self, now: Duration) {
        self.unread = now;
    }

    /// The time until the peer needs a sign of life, because we do not read and answer its heartbeats.
    pub(super) fn next_sign(&self, now: Duration) -> Option<Duration> {
        let last = self.last_sign.max(self.last?);
        // Heartbeats that were read together do not show their interval.
        let every = self.gap?.max(SHORTEST);
        Some(last.saturating_add(every).saturating_sub(now))
    }

    /// Whether a sign of life is due; it then counts as sent.
    pub(super) fn takes_sign(&mut self, now: Duration) -> bool {
        let is_due = self.next_sign(now) == Some(Duration::ZERO);
        if is_due {
            self.last_sign = now;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeat_timeout_follows_the_interval_of_the_peer() {
        let (second, minute) = (Duration::from_secs(1), Duration::from_mins(1));
        let mut pulse = HeartbeatMonitor::default();
        assert_eq!(pulse.silence(minute), None);
        pulse.beat(second);
        assert_eq!(pulse.silence(minute), None, "one beat is no measure");
        pulse.beat(31 * second);
        assert_eq!(pulse.silence(minute), Some(2 * minute));
        pulse.beat(32 * second);
        assert_eq!(pulse.silence(minute), Some(minute));
    }

    #[test]
    fn unread_peer_does_not_time_out_and_gets_signs_of_life() {
        let second = Duration::from_secs(1);
        let mut pulse = HeartbeatMonitor::default();
        assert!(!pulse.takes_sign(100 * second), "it has no beat");
        pulse.beat(Duration::ZERO);
        pulse.beat(10 * second);
        let response_timeout =
            |pulse: &HeartbeatMonitor, now| pulse.response_timeout(25 * second, 10 * second, now);
        assert_eq!(response_timeout(&pulse, 49 * second), Some(second));
        pulse.unread(45 * second);
        assert_eq!(response_timeout(&pulse, 49 * second), Some(36 * second));
        assert_eq!(response_timeout(&pulse, 85 * second), Some(Duration::ZERO));
        let signs = (10_u32..60).filter(|now| pulse.takes_sign(*now * second));
        assert_eq!(signs.collect::<Vec<_>>(), [20, 30, 40, 50]);
        pulse.beat(60 * second);
        pulse.beat(60 * second);
        assert!(!pulse.takes_sign(60 * second + second / 2));
        assert!(pulse.takes_sign(61 * second));
    }
}
