//! Limits the bytes of messages that one cluster may send over time.
//!
//! A message costs processor time: to decode, to judge and to answer. A cluster that sends all the time would keep a
//! processor busy. It has a reserve of bytes that refills with time. Without a reserve the principal does not read its
//! session for a while, and flow control holds the cluster back. The reserve belongs to the cluster, not to the session: a
//! new session does not fill it.

use std::time::Duration;

use tokio::time::Instant;

use crate::{admission::reserve::ByteReserve, fleet::ClusterName};

/// The bytes that refill the reserve in a second: two thousand small messages.
const RATE: u64 = 4 << 20;
/// The size of the reserve: the statuses of two thousand Applications after a connect.
const RESERVE: u64 = 32 << 20;
/// The cost of a message besides its bytes.
pub(super) const MESSAGE: usize = 2 << 10;
/// The shortest time in which a session is not read.
const SHORTEST: Duration = Duration::from_millis(50);
/// A flood that lasts longer is no connect of a large cluster.
const LASTING: Duration = Duration::from_mins(1);

/// The reserves of all clusters.
#[derive(Debug)]
pub(crate) struct Intake(ByteReserve);

impl Default for Intake {
    fn default() -> Self {
        Self(ByteReserve::new(RESERVE, RATE))
    }
}

impl Intake {
    /// Counts a message of this size that a cluster has sent; returns how long its session must not be read now.
    pub(crate) fn charge(&self, cluster: &ClusterName, bytes: usize, now: Instant) -> Duration {
        self.0.take(cluster, bytes.saturating_add(MESSAGE), now)
    }
}

/// When one session is read again.
#[derive(Debug)]
pub(super) struct Rest {
    until: Instant,
    /// Since when its cluster has no reserve.
    since: Option<Instant>,
}

impl Rest {
    /// A session that is read.
    pub(super) const fn none(now: Instant) -> Self {
        Self {
            until: now,
            since: None,
        }
    }

    /// Rests for this time, if it is worth a timer: a shorter one is added to the next.
    pub(super) fn extend(&mut self, pause: Duration, now: Instant) {
        if pause.is_zero() {
            self.since = None;
        } else {
            self.since.get_or_insert(now);
        }
        if pause >= SHORTEST {
            self.until = now + pause;
        }
    }

    /// When it is read again.
    pub(super) const fn until(&self) -> Instant {
        self.until
    }

    /// Whether its cluster has been without a reserve for long.
    pub(super) fn is_lasting(&self, now: Instant) -> bool {
        self.since.is_some_and(|since| now - since >= LASTING)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cluster(name: &str) -> ClusterName {
        ClusterName::try_from(name).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn flood_of_small_messages_is_read_at_the_rate() {
        let (intake, flooding) = (Intake::default(), cluster("a"));
        let begin = Instant::now();
        let (mut now, mut count) = (begin, 0_u64);
        let minute = Duration::from_mins(1);
        while now - begin < minute {
            now += intake.charge(&flooding, 100, now);
            count += 1;
        }
        let most = (RESERVE + 60 * RATE) / MESSAGE as u64;
        assert!(count <= most + 1, "{count} messages, {most} allowed");
        // Each has a hundred bytes besides its cost.
        assert!(count > most * 9 / 10, "{count} messages of {most}");
        // Another cluster, whose name begins with that, has its own reserve.
        assert_eq!(intake.charge(&cluster("ab"), 1 << 20, now), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn statuses_after_a_connect_are_read_at_once() {
        let (intake, honest) = (Intake::default(), cluster("a"));
        let now = Instant::now();
        for _ in 0..2000 {
            assert_eq!(intake.charge(&honest, 12 << 10, now), Duration::ZERO);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_flood_of_a_minute_is_lasting() {
        let second = Duration::from_secs(1);
        let begin = Instant::now();
        let mut rest = Rest::none(begin);
        rest.extend(SHORTEST / 2, begin);
        assert_eq!(rest.until(), begin);
        rest.extend(SHORTEST, begin + second);
        assert_eq!(rest.until(), begin + second + SHORTEST);
        assert!(!rest.is_lasting(begin + 59 * second));
        assert!(rest.is_lasting(begin + 60 * second));
        rest.extend(Duration::ZERO, begin + 60 * second);
        assert!(!rest.is_lasting(begin + 200 * second));
    }

    proptest! {
        /// In any time, the principal reads no more of a cluster than its reserve and the rate.
        #[test]
        fn bytes_over_time_are_bounded(messages in prop::collection::vec((0_usize..4 << 20, 0_u64..2000), 1..200)) {
            let (intake, sender) = (Intake::default(), cluster("a"));
            let begin = Instant::now();
            let (mut now, mut read) = (begin, 0_u64);
            for (bytes, pause) in messages {
                now += Duration::from_millis(pause);
                let lasted = u64::try_from((now - begin).as_millis()).unwrap();
                // The reserve may be overdrawn by one message.
                let allowed = RESERVE + lasted * RATE / 1000;
                prop_assert!(read <= allowed + (4 << 20) + MESSAGE as u64);
                read += bytes as u64 + MESSAGE as u64;
                now += intake.charge(&sender, bytes, now);
            }
        }
    }
}
