//! How long to wait before an object is looked at again that was not as the cache said.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol::ObjectKey;

/// The cache catches up within milliseconds.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Where it does not, something hides the object from us, such as a label selector.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// After so many looks, some seconds, the cache is not what is wrong.
const LOOKS: u32 = 6;

/// Objects that are not as the cache said, and how often in a row that was so.
#[derive(Debug, Default)]
pub(super) struct StaleCacheBackoff {
    // Bounded by the number of objects in trouble; held for a lookup, never over an await.
    looks: Mutex<HashMap<ObjectKey, u32>>,
}

/// What to do about one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Recheck {
    /// When to look again.
    pub(super) pause: Duration,
    /// It is time to say so; true once.
    pub(super) is_strange: bool,
    /// Looking again does not help.
    pub(super) is_over: bool,
}

impl StaleCacheBackoff {
    /// It was not as the cache said, once more.
    pub(super) fn look(&self, key: &ObjectKey) -> Recheck {
        let mut looks = self.lock();
        let looks = looks.entry(key.clone()).or_default();
        *looks = looks.saturating_add(1);
        let doublings = (*looks - 1).min(16);
        Recheck {
            pause: (FIRST_PAUSE * (1 << doublings)).min(LONGEST_PAUSE),
            is_strange: *looks == LOOKS,
            is_over: *looks >= LOOKS,
        }
    }

    /// It is as it should be, or given up.
    pub(super) fn end(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, u32>> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use protocol::Kind;

    use super::*;

    #[test]
    fn looks_are_quick_at_first_then_rare_and_told_once() {
        let (grace_period, key) = (
            StaleCacheBackoff::default(),
            ObjectKey::new(Kind::Application, "argocd", "app"),
        );
        let looks: Vec<Recheck> = (0..100).map(|_| grace_period.look(&key)).collect();
        assert_eq!(looks.first().map(|look| look.pause), Some(FIRST_PAUSE));
        assert_eq!(looks.last().map(|look| look.pause), Some(LONGEST_PAUSE));
        assert_eq!(looks.iter().filter(|look| look.is_strange).count(), 1);
        assert_eq!(looks.iter().filter(|look| !look.is_over).count(), 5);
        grace_period.end(&key);
        assert_eq!(looks.first(), Some(&grace_period.look(&key)));
    }
}
