//! Keys that wait for a worker, each once, in order of arrival.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use indexmap::IndexSet;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The waiting keys. Bounded by the number of keys.
#[derive(Debug)]
pub(super) struct WorkQueue<K> {
    // Locked for a lookup, never over an await.
    pending: Mutex<Pending<K>>,
    changed: Notify,
}

#[derive(Debug)]
struct Pending<K> {
    now: IndexSet<K>,
    /// Keys that become due at a later time.
    later: BTreeMap<K, Instant>,
    by_time: BTreeSet<(Instant, K)>,
}

impl<K> Default for WorkQueue<K> {
    fn default() -> Self {
        let pending = Pending {
            now: IndexSet::new(),
            later: BTreeMap::new(),
            by_time: BTreeSet::new(),
        };
        Self {
            pending: Mutex::new(pending),
            changed: Notify::new(),
        }
    }
}

impl<K: Hash + Ord + Clone> WorkQueue<K> {
    pub(super) fn mark(&self, key: K) {
        self.lock().now.insert(key);
        self.changed.notify_one();
    }

    /// Marks the key at that time; replaces an earlier time.
    pub(super) fn mark_at(&self, at: Instant, key: &K) {
        let mut pending = self.lock();
        if let Some(before) = pending.later.insert(key.clone(), at) {
            pending.by_time.remove(&(before, key.clone()));
        }
        pending.by_time.insert((at, key.clone()));
        drop(pending);
        self.changed.notify_one();
    }

    /// Waits for the next key and takes it. Cancel-safe.
    pub(super) async fn next(&self) -> K {
        loop {
            let next = {
                let mut pending = self.lock();
                let next = pending.wake(Instant::now());
                if let Some(key) = pending.now.shift_remove_index(0) {
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

    fn lock(&self) -> MutexGuard<'_, Pending<K>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Hash + Ord> Pending<K> {
    /// Marks the due keys; returns the time of the next one.
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
    async fn key_marked_for_later_is_due_once_at_that_time() {
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
        let pending = dirty.lock();
        assert!(pending.later.is_empty() && pending.by_time.is_empty());
    }
}
