//! Wall-clock time as a parameter, so that tests can set it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// A source of wall-clock time: the system's, one that a test sets, or one that a simulation drives.
#[derive(Debug, Clone, Default)]
pub struct Clock(Source);

#[derive(Debug, Clone, Default)]
enum Source {
    #[default]
    System,
    Standing(Arc<Mutex<Timestamp>>),
    Runtime(Timestamp, Instant),
}

impl Clock {
    /// The system clock.
    pub const fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands still at `start` until it is [set](Self::set).
    pub fn standing_at(start: Timestamp) -> Self {
        Self(Source::Standing(Arc::new(Mutex::new(start))))
    }

    /// A clock that advances with the timers of the runtime, from `start` on; a simulation may advance them.
    pub fn of_runtime(start: Timestamp) -> Self {
        Self(Source::Runtime(start, Instant::now()))
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => Timestamp::now(),
            Source::Standing(now) => *now.lock().unwrap_or_else(PoisonError::into_inner),
            Source::Runtime(start, begun) => {
                let passed: Duration = begun.elapsed();
                start.checked_add(passed).unwrap_or(*start)
            }
        }
    }

    /// Moves a standing clock, for all its clones; others cannot be moved.
    pub fn set(&self, now: Timestamp) {
        if let Source::Standing(standing) = &self.0 {
            *standing.lock().unwrap_or_else(PoisonError::into_inner) = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standing_clock_moves_for_all_its_clones() {
        let clock = Clock::standing_at(Timestamp::UNIX_EPOCH);
        let other = clock.clone();
        let later = Timestamp::from_second(60).unwrap();
        clock.set(later);
        assert_eq!(other.now(), later);
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_of_the_runtime_goes_with_its_timers() {
        let clock = Clock::of_runtime(Timestamp::UNIX_EPOCH);
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(clock.now().as_second(), 60);
    }
}
