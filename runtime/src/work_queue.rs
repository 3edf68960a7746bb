//! Keys that wait for a worker, each once, in order of arrival.
//!
//! client-go's word for a set of keys with a wake-up. A worker reads the object when it takes the key, so a key that is
//! marked often costs one reconcile, and the number of objects bounds the memory.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use indexmap::IndexSet;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The waiting keys. Bounded by the number of keys.
#[derive(Debug)]
pub struct WorkQueue<K> {
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
    /// Marks the key now; a key that waits already keeps its place.
    pub fn mark(&self, key: K) {
        self.lock().now.insert(key);
        self.changed.notify_one();
    }

    /// Marks the key at that time, unless it is due earlier: a later mark must not postpone it. The worker that takes the
    /// key marks it again if it is still too early.
    pub fn mark_at(&self, at: Instant, key: &K) {
        let mut pending = self.lock();
        let before = pending.later.get(key).copied();
        if before.is_some_and(|before| before <= at) {
            return;
        }
        if let Some(before) = before {
            pending.by_time.remove(&(before, key.clone()));
        }
        pending.later.insert(key.clone(), at);
        pending.by_time.insert((at, key.clone()));
        drop(pending);
        self.changed.notify_one();
    }

    /// Waits for the next key and takes it. Cancel-safe.
    pub async fn next(&self) -> K {
        loop {
            self.ready().await;
            let next = self.lock().now.shift_remove_index(0);
            if let Some(key) = next {
                return key;
            }
        }
    }

    /// Takes all keys that wait now, without those of a later time that [`ready`](Self::ready) did not see.
    pub fn take(&self) -> IndexSet<K> {
        std::mem::take(&mut self.lock().now)
    }

    /// Waits until there is a key to take. Cancel-safe.
    pub async fn ready(&self) {
        loop {
            let next = {
                let mut pending = self.lock();
                let next = pending.wake(Instant::now());
                if !pending.now.is_empty() {
                    return;
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
    async fn key_marked_for_later_is_due_once_at_the_earliest_time() {
        let (queue, begun) = (WorkQueue::default(), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        queue.mark_at(at(10), &"a");
        queue.mark_at(at(20), &"a");
        queue.mark_at(at(15), &"b");
        queue.mark_at(at(20), &"c");
        queue.mark_at(at(12), &"c");
        queue.mark("now");
        let mut seen = vec![];
        for _ in 0..4 {
            seen.push((queue.next().await, begun.elapsed().as_secs()));
        }
        assert_eq!(seen, [("now", 0), ("a", 10), ("c", 12), ("b", 15)]);
        let pending = queue.lock();
        assert!(pending.later.is_empty() && pending.by_time.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn keys_are_taken_together_each_once_in_order_of_arrival() {
        let queue = WorkQueue::default();
        queue.mark_at(Instant::now(), &"later");
        for key in ["b", "a", "b"] {
            queue.mark(key);
        }
        queue.ready().await;
        assert!(queue.take().iter().eq(&["b", "a", "later"]));
        assert!(queue.take().is_empty());
    }
}
