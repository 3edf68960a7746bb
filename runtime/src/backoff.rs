//! Exponential back-off, which resets only after a lasting success.

use std::time::Duration;

use tokio::time::Instant;

use crate::random;

/// Pauses that double with each failure, without jitter and without memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doubling {
    /// The pause after the first failure.
    pub min: Duration,
    /// The longest pause.
    pub max: Duration,
}

impl Doubling {
    /// The pause after so many failures in a row.
    pub fn after(self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        self.min.saturating_mul(1 << doublings).min(self.max)
    }
}

/// Counts failures and computes pauses.
///
/// A success counts only if it lasted, so a peer that accepts and fails at once does not cause a retry loop.
#[derive(Debug, Clone)]
pub struct Backoff {
    pauses: Doubling,
    healthy_after: Duration,
    failures: u32,
    up_since: Option<Instant>,
}

impl Backoff {
    /// Pauses from `min` to `max`, which reset after `healthy_after` without a failure.
    pub const fn new(min: Duration, max: Duration, healthy_after: Duration) -> Self {
        Self {
            pauses: Doubling { min, max },
            healthy_after,
            failures: 0,
            up_since: None,
        }
    }

    /// Records a success; the first call after a failure starts the healthy time.
    pub fn succeeded(&mut self, now: Instant) {
        self.up_since.get_or_insert(now);
    }

    /// Records a failure and returns the pause before the next attempt, with jitter.
    ///
    /// The jitter removes up to half, so that clients that failed together do not retry together.
    pub fn failed(&mut self, now: Instant) -> Duration {
        let pause = self.pause_after_failure(now);
        pause.mul_f64(random::between(0.5, 1.0))
    }

    /// Forgets all failures.
    pub const fn reset(&mut self) {
        self.failures = 0;
        self.up_since = None;
    }

    fn pause_after_failure(&mut self, now: Instant) -> Duration {
        let was_healthy = self
            .up_since
            .take()
            .is_some_and(|up| now.duration_since(up) >= self.healthy_after);
        self.failures = if was_healthy {
            1
        } else {
            self.failures.saturating_add(1)
        };
        self.pauses.after(self.failures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn pauses(backoff: &mut Backoff, now: Instant, n: usize) -> Vec<u64> {
        (0..n)
            .map(|_| backoff.pause_after_failure(now).as_secs())
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_double_up_to_the_limit() {
        let mut backoff = Backoff::new(seconds(1), seconds(30), seconds(60));
        assert_eq!(
            pauses(&mut backoff, Instant::now(), 7),
            [1, 2, 4, 8, 16, 30, 30]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_accepts_and_dies_is_not_hammered() {
        let mut backoff = Backoff::new(seconds(1), seconds(30), seconds(60));
        let now = Instant::now();
        let mut seen = vec![];
        for _ in 0..4 {
            backoff.succeeded(now);
            seen.extend(pauses(&mut backoff, now + seconds(1), 1));
        }
        assert_eq!(seen, [1, 2, 4, 8]);
    }

    #[tokio::test(start_paused = true)]
    async fn lasting_health_forgives() {
        let mut backoff = Backoff::new(seconds(1), seconds(30), seconds(60));
        let now = Instant::now();
        pauses(&mut backoff, now, 5);
        backoff.succeeded(now);
        assert_eq!(pauses(&mut backoff, now + seconds(60), 1), [1]);
    }

    #[tokio::test(start_paused = true)]
    async fn jitter_never_lengthens_a_pause_nor_halves_it() {
        let mut backoff = Backoff::new(seconds(2), seconds(2), seconds(60));
        for _ in 0..100 {
            let pause = backoff.failed(Instant::now());
            assert!(pause >= seconds(1) && pause <= seconds(2), "{pause:?}");
        }
    }
}
