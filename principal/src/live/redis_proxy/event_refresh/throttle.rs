//! How often an Application is asked about, however often people look at it.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

/// Between two turns of one Application.
const PAUSE: Duration = Duration::from_secs(10);
/// Applications of which turns are remembered.
const MOST: usize = 1024;

/// When the newest turn of each Application begins. Those that are long over are forgotten.
#[derive(Debug, Default)]
pub(super) struct Throttle(HashMap<String, Instant>);

impl Throttle {
    /// When a look at this Application gets its turn: now, or when the pause after the last one is over. None: it needs none,
    /// since a turn that comes sees the same; or there are too many.
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
    fn the_first_look_gets_its_turn_at_once_and_all_that_follow_one_later() {
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
    fn more_than_are_remembered_wait_until_others_are_forgotten() {
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
