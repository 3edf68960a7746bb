//! The heartbeat of a peer, as far as it has one.
//!
//! Whether and how often an agent sends heartbeats is its own setting. So the beat is learned: only a peer that has
//! beaten twice can be missed, and then by its own measure.

use std::time::Duration;

/// Three beats may get lost before a peer counts as gone.
const MISSED: u32 = 4;

/// What is known about the beat.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pulse {
    last: Option<Duration>,
    gap: Option<Duration>,
}

impl Pulse {
    /// A heartbeat came.
    pub(super) fn beat(&mut self, now: Duration) {
        self.gap = self.last.map(|last| now.saturating_sub(last));
        self.last = Some(now);
    }

    /// How long the peer may be silent, but never shorter than `least`; none while its beat is not known.
    pub(super) fn silence(&self, least: Duration) -> Option<Duration> {
        self.gap.map(|gap| gap.saturating_mul(MISSED).max(least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_missed_by_its_own_measure() {
        let (second, minute) = (Duration::from_secs(1), Duration::from_mins(1));
        let mut pulse = Pulse::default();
        assert_eq!(pulse.silence(minute), None);
        pulse.beat(second);
        assert_eq!(pulse.silence(minute), None, "one beat is no measure");
        pulse.beat(31 * second);
        assert_eq!(pulse.silence(minute), Some(2 * minute));
        pulse.beat(32 * second);
        assert_eq!(pulse.silence(minute), Some(minute));
    }
}
