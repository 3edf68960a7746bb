//! Back-off of objects whose cached version was stale at a write.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use protocol::ObjectKey;
use runtime::backoff::Doubling;

use crate::lock::lock;

/// The pauses before the next attempts.
pub(super) const PAUSES: Doubling = Doubling {
    // The cache catches up within milliseconds.
    min: Duration::from_millis(100),
    // If it does not, something hides the object from us, such as a label selector.
    max: Duration::from_secs(15),
};
/// After so many attempts, some seconds, the cause is not the cache.
pub(super) const LOOKS: u32 = 6;

/// Objects with a stale cached version, and the number of failed attempts in a row.
#[derive(Debug, Default)]
pub(super) struct StaleCacheBackoff {
    // Bounded by the number of stale objects; locked for a lookup, never over an await.
    looks: Mutex<HashMap<ObjectKey, u32>>,
}

impl StaleCacheBackoff {
    /// Counts another stale attempt; returns the number of attempts in a row.
    pub(super) fn look(&self, key: &ObjectKey) -> u32 {
        let mut looks = lock(&self.looks);
        let looks = looks.entry(key.clone()).or_default();
        *looks = looks.saturating_add(1);
        *looks
    }

    /// Ends the back-off after a success or a final failure.
    pub(super) fn end(&self, key: &ObjectKey) {
        lock(&self.looks).remove(key);
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
        let looks: Vec<u32> = (0..100).map(|_| backoff.look(&key)).collect();
        let pause = |looks: Option<&u32>| looks.map(|looks| PAUSES.after(*looks));
        assert_eq!(pause(looks.first()), Some(PAUSES.min));
        assert_eq!(pause(looks.last()), Some(PAUSES.max));
        assert_eq!(looks.iter().filter(|looks| **looks == LOOKS).count(), 1);
        assert_eq!(looks.iter().filter(|looks| **looks < LOOKS).count(), 5);
        backoff.end(&key);
        assert_eq!(looks.first(), Some(&backoff.look(&key)));
    }
}
