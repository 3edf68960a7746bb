//! What has to be looked at, each thing once, in the order in which it came.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use indexmap::IndexSet;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Things to look at. Bounded by how many there are.
#[derive(Debug)]
pub(super) struct WorkQueue<K> {
    // Blocked for a lookup, never over an await.
    things: Mutex<Things<K>>,
    changed: Notify,
}

#[derive(Debug)]
struct Things<K> {
    now: IndexSet<K>,
    /// Those that have to be looked at at some time, and again by that time.
    later: BTreeMap<K, Instant>,
    by_time: BTreeSet<(Instant, K)>,
}

impl<K> Default for WorkQueue<K> {
    fn default() -> Self {
        let things = Things {
            now: IndexSet::new(),
            later: BTreeMap::new(),
            by_time: BTreeSet::new(),
        };
        Self {
            things: Mutex::new(things),
            changed: Notify::new(),
        }
    }
}

impl<K: Hash + Ord + Clone> WorkQueue<K> {
    pub(super) fn mark(&self, key: K) {
        self.lock().now.insert(key);
        self.changed.notify_one();
    }

    /// Marks it at that time, instead of an earlier one.
    pub(super) fn mark_at(&self, at: Instant, key: &K) {
        let mut things = self.lock();
        if let Some(before) = things.later.insert(key.clone(), at) {
            things.by_time.remove(&(before, key.clone()));
        }
        things.by_time.insert((at, key.clone()));
        drop(things);
        self.changed.notify_one();
    }

    /// Waits for the next one and takes it. Cancel-safe.
    pub(super) async fn next(&self) -> K {
        loop {
            let next = {
                let mut things = self.lock();
                let next = things.wake(Instant::now());
                if let Some(key) = things.now.shift_remove_index(0) {
                    return key;
                }
                next
            };
            let pause = async {
                match next {
                    Some(next) => tokio::time::sleep_until(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.changed.notified() => {}
                () = pause => {}
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Things<K>> {
        self.things.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Hash + Ord> Things<K> {
    /// Marks what is due and says when the next one is.
    fn wake(&mut self, now: Instant) -> Option<Instant> {
        loop {
            let at = self.by_time.first()?.0;
            if at > now {
                return Some(at);
            }
            let (_, key) = self.by_time.pop_first()?;
            self.later.remove(&key);
            self.now.insert(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_marked_for_later_comes_then_and_once() {
        let (dirty, begun) = (WorkQueue::default(), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        dirty.mark_at(at(10), &"a");
        dirty.mark_at(at(20), &"a");
        dirty.mark_at(at(15), &"b");
        dirty.mark("now");
        let mut seen = vec![];
        for _ in 0..3 {
            seen.push((dirty.next().await, begun.elapsed().as_secs()));
        }
        assert_eq!(seen, [("now", 0), ("b", 15), ("a", 20)]);
        let things = dirty.lock();
        assert!(things.later.is_empty() && things.by_time.is_empty());
    }
}
