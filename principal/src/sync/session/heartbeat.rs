//! The heartbeat of a peer, as far as it has one.
//!
//! Whether and how often an agent sends heartbeats is its own setting. So the beat is learned: only a peer that has
//! beaten twice can be missed, and then by its own measure.

use std::time::Duration;

/// Three beats may get lost before a peer counts as gone.
const MISSED: u32 = 4;

/// A peer that is not read is told that we are there no more often than this.
const SHORTEST: Duration = Duration::from_secs(1);

/// What is known about the beat.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeartbeatMonitor {
    last: Option<Duration>,
    gap: Option<Duration>,
    /// When the peer was last not read, and so could not be heard.
    unread: Duration,
    /// When it was last told that we are there, while it was not read.
    reply: Duration,
}

impl HeartbeatMonitor {
    /// A heartbeat came.
    pub(super) fn beat(&mut self, now: Duration) {
        self.gap = self.last.map(|last| now.saturating_sub(last));
        self.last = Some(now);
    }

    /// How long the peer may be silent, but never shorter than `least`; none while its beat is not known.
    fn silence(&self, least: Duration) -> Option<Duration> {
        self.gap.map(|gap| gap.saturating_mul(MISSED).max(least))
    }

    /// How long the peer, last heard at `heard`, may yet be silent; none while its beat is not known.
    ///
    /// While it is not read it is not silent, whatever it says: that begins when it can be heard again.
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

    /// The peer is not read now.
    pub(super) const fn unread(&mut self, now: Duration) {
        self.unread = now;
    }

    /// Before the peer has to be told that we are there, because its heartbeats are not read and so not answered.
    pub(super) fn next_sign(&self, now: Duration) -> Option<Duration> {
        let last = self.reply.max(self.last?);
        // Heartbeats that were read together say nothing of their pace.
        let every = self.gap?.max(SHORTEST);
        Some(last.saturating_add(every).saturating_sub(now))
    }

    /// Whether that is now; it counts as done.
    pub(super) fn takes_sign(&mut self, now: Duration) -> bool {
        let is_due = self.next_sign(now) == Some(Duration::ZERO);
        if is_due {
            self.reply = now;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_missed_by_its_own_measure() {
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
    fn a_peer_that_is_not_read_is_not_silent_and_is_told_that_we_are_there() {
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
