//! Wall-clock time as a thing that is handed in, so that tests can set it.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

/// Tells the wall-clock time: the system's, or one that a test holds still.
#[derive(Debug, Clone, Default)]
pub struct Clock(Option<Arc<Mutex<Timestamp>>>);

impl Clock {
    /// The clock of the machine.
    pub const fn system() -> Self {
        Self(None)
    }

    /// A clock that stands still at `start` until it is [set](Self::set).
    pub fn standing_at(start: Timestamp) -> Self {
        Self(Some(Arc::new(Mutex::new(start))))
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        self.0.as_ref().map_or_else(Timestamp::now, |held| {
            *held.lock().unwrap_or_else(PoisonError::into_inner)
        })
    }

    /// Moves a standing clock, for all its clones; the system's clock cannot be moved.
    pub fn set(&self, now: Timestamp) {
        if let Some(held) = &self.0 {
            *held.lock().unwrap_or_else(PoisonError::into_inner) = now;
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
}
