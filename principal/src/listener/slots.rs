//! How many of something are taken, by key, with a bound for each key.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

type Counts<K> = Arc<Mutex<HashMap<K, usize>>>;

/// Counts what is taken. Holds an entry only for keys that have something taken.
#[derive(Debug)]
pub(super) struct Slots<K> {
    most: usize,
    // Held for a lookup, never over an await.
    taken: Counts<K>,
}

/// One taken slot.
#[derive(Debug)]
#[must_use = "dropped, the slot is free again"]
pub(super) struct Slot<K: Hash + Eq> {
    key: K,
    taken: Counts<K>,
}

impl<K: Hash + Eq + Copy> Slots<K> {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            taken: Arc::default(),
        }
    }

    /// Takes one slot of `key`, unless all are taken.
    pub(super) fn take(&self, key: K) -> Option<Slot<K>> {
        let mut taken = lock(&self.taken);
        let count = taken.entry(key).or_default();
        if *count >= self.most {
            if *count == 0 {
                taken.remove(&key);
            }
            return None;
        }
        *count += 1;
        Some(Slot {
            key,
            taken: Arc::clone(&self.taken),
        })
    }
}

impl<K: Hash + Eq> Drop for Slot<K> {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        if let Some(count) = taken.get_mut(&self.key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                taken.remove(&self.key);
            }
        }
    }
}

fn lock<K>(counts: &Counts<K>) -> MutexGuard<'_, HashMap<K, usize>> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
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

    #[test]
    fn keys_with_nothing_taken_are_forgotten() {
        let slots = Slots::new(1);
        drop(slots.take(1));
        assert!(lock(&slots.taken).is_empty());
        assert!(Slots::new(0).take(1).is_none());
    }
}
