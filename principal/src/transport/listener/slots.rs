//! Counting semaphores with a bound for each key.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

type Queues<K> = Arc<Mutex<HashMap<K, Arc<Semaphore>>>>;

/// So many slots for each key: first come, first served. Has an entry only for keys in use.
#[derive(Debug)]
pub(crate) struct Slots<K> {
    most: usize,
    // Held for a lookup, never over an await.
    queues: Queues<K>,
}

/// One taken slot.
#[derive(Debug)]
#[must_use = "dropped, the slot is free again"]
pub(crate) struct Slot<K: Hash + Eq> {
    /// None while it waits, and once it is over.
    permit: Option<OwnedSemaphorePermit>,
    /// For removing the key's queue when it is empty.
    key: K,
    queues: Queues<K>,
}

impl<K: Hash + Eq + Clone> Slots<K> {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most: most.min(Semaphore::MAX_PERMITS),
            queues: Arc::default(),
        }
    }

    /// Takes one slot of `key`, unless all are taken.
    pub(crate) fn take(&self, key: K) -> Option<Slot<K>> {
        let (mut slot, queue) = self.queue(key);
        slot.permit = Some(queue.try_acquire_owned().ok()?);
        Some(slot)
    }

    /// Waits for a slot of `key`. Cancel-safe.
    pub(super) async fn wait(&self, key: K) -> Slot<K> {
        let (mut slot, queue) = self.queue(key);
        // It is never closed, so a permit always comes.
        slot.permit = queue.acquire_owned().await.ok();
        slot
    }

    fn queue(&self, key: K) -> (Slot<K>, Arc<Semaphore>) {
        let mut queues = lock(&self.queues);
        let queue = queues.entry(key.clone());
        let queue = queue.or_insert_with(|| Arc::new(Semaphore::new(self.most)));
        let queue = Arc::clone(queue);
        drop(queues);
        let slot = Slot {
            permit: None,
            key,
            queues: Arc::clone(&self.queues),
        };
        (slot, queue)
    }
}

#[cfg(test)]
impl<K> Slots<K> {
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.queues).is_empty()
    }
}

impl<K: Hash + Eq> Drop for Slot<K> {
    fn drop(&mut self) {
        let mut queues = lock(&self.queues);
        drop(self.permit.take());
        // Waiters and permits hold the queue besides the map.
        let queue = queues.get(&self.key);
        if queue.is_some_and(|queue| Arc::strong_count(queue) == 1) {
            queues.remove(&self.key);
        }
    }
}

fn lock<K, V>(map: &Mutex<HashMap<K, V>>) -> MutexGuard<'_, HashMap<K, V>> {
    map.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Room for so many in total, and for so many of each key.
#[derive(Debug)]
pub(crate) struct Capacity<K> {
    all: Arc<Semaphore>,
    by_key: Slots<K>,
}

/// One taken place of a [`Capacity`].
#[derive(Debug)]
#[must_use = "dropped, the place is free again"]
pub(crate) struct Place<K: Hash + Eq> {
    _one: OwnedSemaphorePermit,
    _of_key: Slot<K>,
}

impl<K: Hash + Eq + Clone> Capacity<K> {
    pub(crate) fn new(all: usize, of_key: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(all)),
            by_key: Slots::new(of_key),
        }
    }

    /// Takes one place of `key`, unless all are taken.
    pub(crate) fn take(&self, key: K) -> Option<Place<K>> {
        Some(Place {
            _one: Arc::clone(&self.all).try_acquire_owned().ok()?,
            _of_key: self.by_key.take(key)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_does_not_take_the_slots_of_another() {
        let slots = Slots::new(2);
        let first = slots.take("a");
        let second = slots.take("a");
        assert!(first.is_some() && second.is_some());
        assert!(slots.take("a").is_none());
        assert!(slots.take("b").is_some());
        drop(first);
        assert!(slots.take("a").is_some());
    }

    #[tokio::test]
    async fn turns_come_in_order_and_one_key_does_not_wait_for_another() {
        let slots = Slots::new(1);
        let first = slots.wait("a").await;
        let mut waiting = std::pin::pin!(slots.wait("a"));
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        drop(slots.wait("b").await);
        drop(first);
        drop(waiting.await);
        assert!(lock(&slots.queues).is_empty());
    }

    #[tokio::test]
    async fn a_cancelled_wait_leaves_no_queue() {
        let slots = Slots::new(1);
        let first = slots.wait("a").await;
        {
            let mut waiting = std::pin::pin!(slots.wait("a"));
            assert!(futures::poll!(waiting.as_mut()).is_pending());
        }
        drop(first);
        assert!(lock(&slots.queues).is_empty());
    }

    #[test]
    fn keys_without_taken_slots_are_removed() {
        let slots = Slots::new(1);
        drop(slots.take(1));
        assert!(lock(&slots.queues).is_empty());
        assert!(Slots::new(0).take(1).is_none());
    }
}
