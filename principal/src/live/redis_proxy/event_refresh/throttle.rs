//! Limits how often the Events of an Application are read, however often people view it.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

/// Between two refreshes of one Application.
const PAUSE: Duration = Duration::from_secs(10);
/// Applications with a remembered refresh.
const MOST: usize = 1024;

/// The start of the newest refresh of each Application. Old ones are forgotten.
#[derive(Debug, Default)]
pub(super) struct Throttle(HashMap<String, Instant>);

impl Throttle {
    /// When to refresh this Application: now, or after the pause. None: a scheduled refresh covers it, or there are too
    /// many.
    pub(super) fn turn(&mut self, application: &str, now: Instant) -> Option<Instant> {
        let turn = match self.0.get(application) {
            Some(newest) if *newest > now => return None,
            Some(newest) => now.max(*newest + PAUSE),
            None => now,
        };
        if self.0.len() >= MOST {
            self.0.retain(|_, newest| *newest + PAUSE > now);
        }
        if self.0.len() >= MOST && !self.0.contains_key(application) {
            return None;
        }
        self.0.insert(application.to_owned(), turn);
        Some(turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn first_refresh_starts_at_once_and_later_ones_share_one() {
        let (mut throttle, begin) = (Throttle::default(), Instant::now());
        assert_eq!(throttle.turn("a", begin), Some(begin));
        assert_eq!(throttle.turn("b", begin), Some(begin));
        assert_eq!(throttle.turn("a", begin + SECOND), Some(begin + PAUSE));
        assert_eq!(throttle.turn("a", begin + 2 * SECOND), None);
        assert_eq!(throttle.turn("a", begin + 9 * SECOND), None);
        let after = begin + PAUSE + SECOND;
        assert_eq!(throttle.turn("a", after), Some(begin + 2 * PAUSE));
        let later = begin + 9 * PAUSE;
        assert_eq!(throttle.turn("a", later), Some(later));
    }

    #[test]
    fn refreshes_above_the_bound_wait_until_others_expire() {
        let (mut throttle, begin) = (Throttle::default(), Instant::now());
        for number in 0..MOST {
            assert!(throttle.turn(&number.to_string(), begin).is_some());
        }
        assert_eq!(throttle.turn("another", begin + SECOND), None);
        let after = begin + PAUSE;
        assert_eq!(throttle.turn("0", begin + SECOND), Some(after));
        assert_eq!(throttle.turn("another", after), Some(after));
        assert!(throttle.0.len() < 3, "the others are forgotten");
    }
}
