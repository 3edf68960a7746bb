//! When an event that a cluster may cause at any rate is due: a token bucket for each key. Pure.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

/// One token returns in this time, so a key is due as often at most when its burst is spent.
pub(super) const INTERVAL: Duration = Duration::from_secs(5);
/// Above this number of buckets, the full ones are forgotten.
pub(super) const BUCKETS: usize = 256;

/// The buckets of all keys.
#[derive(Debug)]
pub(super) struct Pace<K> {
    /// A bucket that is full again within this time has a token.
    slack: Duration,
    buckets: BTreeMap<K, Bucket>,
    /// The number of buckets at which to forget the full ones.
    limit: usize,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// When it has all tokens again.
    full: Instant,
    /// When the last token is, or was, used.
    due: Instant,
}

impl<K: Clone + Ord> Pace<K> {
    /// Buckets with this number of tokens, at least one.
    pub(super) fn with_burst(burst: u32) -> Self {
        Self {
            slack: INTERVAL.saturating_mul(burst.saturating_sub(1)),
            buckets: BTreeMap::new(),
            limit: BUCKETS,
        }
    }

    /// When the key is due for an event at this time: now if its bucket has a token, else when one returns. Events until
    /// then use the same token.
    pub(super) fn due(&mut self, key: &K, now: Instant) -> Instant {
        let known = self.buckets.get(key);
        if let Some(bucket) = known.filter(|it| it.due > now) {
            return bucket.due;
        }
        let full = known.map_or(now, |it| it.full.max(now));
        let due = if full <= now + self.slack {
            now
        } else {
            full - self.slack
        };
        let bucket = Bucket {
            full: full + INTERVAL,
            due,
        };
        self.forget(now);
        self.buckets.insert(key.clone(), bucket);
        due
    }

    /// Forgets the full buckets when there are many.
    fn forget(&mut self, now: Instant) {
        if self.buckets.len() >= self.limit {
            self.buckets.retain(|_, bucket| bucket.full > now);
            self.limit = BUCKETS.max(self.buckets.len().saturating_mul(2));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_is_due_at_once_and_then_one_event_per_interval() {
        let begin = Instant::now();
        let mut pace = Pace::with_burst(20);
        let mut at_once = 0;
        let mut later = Vec::new();
        // Ten events per second for a minute.
        for tenth in 0..600u32 {
            let now = begin + Duration::from_millis(100) * tenth;
            let due = pace.due(&"a", now);
            if due == now {
                at_once += 1;
            } else if later.last() != Some(&due) {
                later.push(due);
            }
        }
        // One token returns every five seconds, also during the burst of two seconds.
        assert_eq!(at_once, 20);
        let pauses = later.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(pauses.into_iter().all(|it| it == INTERVAL), "{later:?}");
        assert_eq!(later.len(), 12);
        assert_eq!(pace.due(&"b", begin), begin, "another key");
    }

    #[test]
    fn quiet_key_has_its_burst_again() {
        let begin = Instant::now();
        let mut pace = Pace::with_burst(3);
        for _ in 0..3 {
            assert_eq!(pace.due(&"a", begin), begin);
        }
        assert_eq!(pace.due(&"a", begin), begin + INTERVAL);
        let later = begin + INTERVAL * 4;
        for _ in 0..3 {
            assert_eq!(pace.due(&"a", later), later);
        }
        assert!(pace.due(&"a", later) > later);
    }

    #[test]
    fn full_buckets_are_forgotten() {
        let mut now = Instant::now();
        let mut pace = Pace::with_burst(20);
        for key in 0..10_000 {
            now += Duration::from_secs(1);
            pace.due(&key, now);
        }
        assert!(pace.buckets.len() <= BUCKETS, "{}", pace.buckets.len());
    }
}
