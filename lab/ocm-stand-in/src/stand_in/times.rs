//! The times of OCM that an add-on can notice. Scaled ones keep the order of events, and tests short.
//!
//! | time | here | OCM |
//! |---|---|---|
//! | next try of a work that could not be applied | 0.5 s, doubled up to 1 min | 5 ms, doubled up to 1,000 s |
//! | next look at objects that are being deleted | 50 ms, doubled up to 5 s | 50 ms, doubled up to 1 min |
//! | next look at all objects of an applied work | 4 to 6 min | 4 to 6 min |
//! | next look at availability and feedback | the interval of the lab, times 1 to 1.9 | 10 s, times 1 to 1.9 |
//! | next look at the lease of an add-on | 5 s | 30 s |
//! | next look at what a deleted cluster still has | 5 s | 5 s |

use std::time::Duration;

use rand::Rng as _;

/// A pause that doubles with each failure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff {
    first: Duration,
    last: Duration,
}

impl Backoff {
    /// The pause after one more failure than these.
    pub(super) fn after(self, failures: u32) -> Duration {
        self.first
            .saturating_mul(1 << failures.min(16))
            .min(self.last)
    }
}

/// Before a work that could not be applied is tried again.
pub(super) const APPLY: Backoff = Backoff {
    first: Duration::from_millis(500),
    last: Duration::from_mins(1),
};
/// Before objects that are being deleted are looked at again.
pub(super) const DELETION: Backoff = Backoff {
    first: Duration::from_millis(50),
    last: Duration::from_secs(5),
};
/// Before the lease of an add-on is looked at again.
pub(super) const ADD_ON_LEASE: Duration = Duration::from_secs(5);
/// Before the remaining objects of a deleted cluster are looked at again.
pub(super) const REMOVAL: Duration = Duration::from_secs(5);

/// Before drift from an applied work is corrected.
pub(super) fn until_resync() -> Duration {
    Duration::from_secs(rand::rng().random_range(240..=360))
}

/// Before availability and feedback are looked at again.
pub(super) fn until_observed_again(interval: Duration) -> Duration {
    interval.mul_f64(rand::rng().random_range(1.0..=1.9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backoff_doubles_up_to_its_last_pause() {
        let pauses = [0, 1, 2, 6, 7, u32::MAX].map(|failures| DELETION.after(failures).as_millis());
        assert_eq!(pauses, [50, 100, 200, 3200, 5000, 5000]);
    }

    #[test]
    fn an_observation_is_up_to_nine_tenths_late() {
        for _ in 0..100 {
            let pause = until_observed_again(Duration::from_secs(10)).as_secs_f64();
            assert!((10.0..=19.0).contains(&pause), "{pause}");
        }
    }
}
