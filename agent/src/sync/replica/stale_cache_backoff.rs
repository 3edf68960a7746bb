//! Back-off of objects whose cached version was stale at a write.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol::ObjectKey;
use runtime::backoff::Doubling;

const PAUSES: Doubling = Doubling {
    // The cache catches up within milliseconds.
    min: Duration::from_millis(100),
    // If it does not, something hides the object from us, such as a label selector.
    max: Duration::from_secs(15),
};
/// After so many attempts, some seconds, the cause is not the cache.
const LOOKS: u32 = 6;

/// Objects with a stale cached version, and the number of failed attempts in a row.
#[derive(Debug, Default)]
pub(super) struct StaleCacheBackoff {
    // Bounded by the number of stale objects; locked for a lookup, never over an await.
    looks: Mutex<HashMap<ObjectKey, u32>>,
}

/// The next step for a stale object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Recheck {
    /// The pause before the next attempt.
    pub(super) pause: Duration,
    /// The attempt to log as a warning; true once.
    pub(super) is_strange: bool,
    /// Further attempts do not help.
    pub(super) is_over: bool,
}

impl StaleCacheBackoff {
    /// Counts another stale attempt.
    pub(super) fn look(&self, key: &ObjectKey) -> Recheck {
        let mut looks = self.lock();
        let looks = looks.entry(key.clone()).or_default();
        *looks = looks.saturating_add(1);
        Recheck {
            pause: PAUSES.after(*looks),
            is_strange: *looks == LOOKS,
            is_over: *looks >= LOOKS,
        }
    }

    /// Ends the back-off after a success or a final failure.
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
    fn stale_cache_backoff_grows_and_warns_once() {
        let (backoff, key) = (
            StaleCacheBackoff::default(),
            ObjectKey::new(Kind::Application, "argocd", "app"),
        );
        let looks: Vec<Recheck> = (0..100).map(|_| backoff.look(&key)).collect();
        assert_eq!(looks.first().map(|look| look.pause), Some(PAUSES.min));
        assert_eq!(looks.last().map(|look| look.pause), Some(PAUSES.max));
        assert_eq!(looks.iter().filter(|look| look.is_strange).count(), 1);
        assert_eq!(looks.iter().filter(|look| !look.is_over).count(), 5);
        backoff.end(&key);
        assert_eq!(looks.first(), Some(&backoff.look(&key)));
    }
}
