//! The last known values of Applications, for when their cluster is disconnected. Bounded: the least recently used
//! value is dropped first.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use tokio::time::Instant;

/// The values of all clusters.
#[derive(Debug)]
pub(super) struct LastKnownValues {
    largest: usize,
    most: usize,
    // Held for a lookup, never over an await.
    state: Mutex<Answers>,
}

#[derive(Debug, Default)]
struct Answers {
    values: BTreeMap<String, Known>,
    /// Keys by last use.
    used: BTreeMap<u64, String>,
    next: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Known {
    value: Bytes,
    at: Instant,
    used: u64,
}

impl LastKnownValues {
    /// Remembers values of up to `largest` bytes, and `most` bytes of all together.
    pub(super) fn new(largest: usize, most: usize) -> Self {
        Self {
            largest,
            most,
            state: Mutex::default(),
        }
    }

    /// The largest value that is kept.
    pub(super) const fn largest(&self) -> usize {
        self.largest
    }

    /// Stores a value.
    pub(super) fn remember(&self, key: String, value: Bytes) {
        let mut state = self.lock();
        state.forget(&key);
        if value.len() > self.largest {
            return;
        }
        let used = state.tick();
        state.bytes = state.bytes.saturating_add(cost(&key, &value));
        state.used.insert(used, key.clone());
        let at = Instant::now();
        state.values.insert(key, Known { value, at, used });
        while state.bytes > self.most {
            let Some((_, oldest)) = state.used.pop_first() else {
                return;
            };
            state.forget(&oldest);
        }
    }

    /// Removes a value.
    pub(super) fn forget(&self, key: &str) {
        self.lock().forget(key);
    }

    /// The last known value, and when it was stored.
    pub(super) fn recall(&self, key: &str) -> Option<(Bytes, Instant)> {
        let mut state = self.lock();
        let now = state.tick();
        let known = state.values.get_mut(key)?;
        let before = std::mem::replace(&mut known.used, now);
        let found = (known.value.clone(), known.at);
        if let Some(key) = state.used.remove(&before) {
            state.used.insert(now, key);
        }
        drop(state);
        Some(found)
    }

    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Answers {
    fn tick(&mut self) -> u64 {
        self.next = self.next.wrapping_add(1);
        self.next
    }

    fn forget(&mut self, key: &str) {
        if let Some(Known { value, used, .. }) = self.values.remove(key) {
            self.bytes = self.bytes.saturating_sub(cost(key, &value));
            self.used.remove(&used);
        }
    }
}

/// A value, its key in both maps, and the maps.
fn cost(key: &str, value: &Bytes) -> usize {
    let keys = key.len().saturating_mul(2);
    value.len().saturating_add(keys).saturating_add(256)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(size: usize) -> Bytes {
        Bytes::from(vec![b'x'; size])
    }

    #[tokio::test(start_paused = true)]
    async fn least_recently_used_values_are_dropped_at_the_bound() {
        let last_known = LastKnownValues::new(1000, 4000);
        for name in ["a", "b", "c"] {
            last_known.remember(name.to_owned(), value(900));
        }
        tokio::time::advance(std::time::Duration::from_mins(1)).await;
        let (known, at) = last_known.recall("a").unwrap();
        assert_eq!((known.len(), at.elapsed().as_secs()), (900, 60));
        last_known.remember("d".to_owned(), value(900));
        assert!(
            last_known.recall("b").is_none(),
            "not asked for the longest"
        );
        assert!(
            ["a", "c", "d"]
                .iter()
                .all(|it| last_known.recall(it).is_some())
        );
        last_known.forget("c");
        assert!(last_known.recall("c").is_none());
        assert!(last_known.lock().bytes < 4000);
    }

    #[tokio::test]
    async fn a_large_value_removes_the_previous_one() {
        let last_known = LastKnownValues::new(1000, 4000);
        last_known.remember("a".to_owned(), value(10));
        last_known.remember("a".to_owned(), value(1001));
        assert!(last_known.recall("a").is_none());
        let state = last_known.lock();
        assert_eq!((state.bytes, state.used.len()), (0, 0));
    }
}
