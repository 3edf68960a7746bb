//! A local copy of the hub's objects, kept current by a watch. Pure.

use std::collections::BTreeMap;

/// One event of a watch.
#[derive(Clone, Debug)]
pub(crate) enum Change<K, V> {
    /// The watch restarts; a list follows.
    Restarted,
    /// One object of the list.
    Listed(K, V),
    /// The list is complete.
    Complete,
    /// An object is new or different.
    Applied(K, V),
    /// An object is gone.
    Deleted(K),
    /// An object that cannot be read.
    Unread,
}

/// One event of a watch, and the hub's version at it, if the event has one.
#[derive(Clone, Debug)]
pub(crate) struct Update<K, V> {
    pub(crate) change: Change<K, V>,
    pub(crate) version: Option<u64>,
}

/// A version as a number. The versions of one resource grow, and a watch delivers them in order; a
/// version that is not a number cannot be compared.
pub(crate) fn version(text: &str) -> Option<u64> {
    text.parse().ok()
}

/// How far a watch has progressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The watch has delivered everything up to this version. A new list resets it: after a restore of the hub, earlier
    /// versions are not comparable with later ones.
    reached: u64,
    /// The newest version of the current list, which counts when the list is complete.
    listed: u64,
    /// The number of lists that have begun, and the number of the one that was complete last.
    begun: u64,
    complete: u64,
    /// The number of events.
    updates: u64,
}

impl Progress {
    /// Whether the watch has delivered a write that made this version while the watch was at `then`, or a later state:
    /// the object itself may be gone again.
    pub(crate) const fn covers(&self, version: u64, then: &Self) -> bool {
        // A list that began later contains every earlier write.
        self.reached >= version || self.complete > then.begun
    }

    /// Whether the watch has delivered nothing since `then`.
    pub(crate) const fn is_idle_since(&self, then: &Self) -> bool {
        self.updates == then.updates
    }

    fn take<K, V>(&mut self, update: &Update<K, V>) {
        self.updates = self.updates.wrapping_add(1);
        let version = update.version.unwrap_or_default();
        match update.change {
            Change::Restarted => {
                self.begun += 1;
                self.listed = 0;
            }
            Change::Listed(..) => self.listed = self.listed.max(version),
            Change::Complete => {
                self.complete = self.begun;
                self.reached = self.listed;
            }
            Change::Applied(..) | Change::Deleted(_) | Change::Unread => {
                self.reached = self.reached.max(version);
            }
        }
    }
}

/// The objects of one watch.
///
/// The old content stays until a list is complete, so that an object that is not listed yet never
/// appears to be gone.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    live: BTreeMap<K, V>,
    listing: Option<BTreeMap<K, V>>,
    synced: bool,
    progress: Progress,
}

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Self {
            live: BTreeMap::new(),
            listing: None,
            synced: false,
            progress: Progress::default(),
        }
    }
}

impl<K: Clone + Ord, V: Clone + PartialEq> Cache<K, V> {
    /// Applies an event and returns the keys that changed, with their former values.
    pub(crate) fn apply(&mut self, update: Update<K, V>) -> Vec<(K, Option<V>)> {
        self.progress.take(&update);
        match update.change {
            Change::Restarted => {
                self.listing = Some(BTreeMap::new());
                Vec::new()
            }
            Change::Listed(key, value) => {
                // An unchanged object is shared, so that a new list does not need the memory of a second cache.
                let known = self.live.get(&key).filter(|known| **known == value);
                let value = known.cloned().unwrap_or(value);
                self.listing.get_or_insert_default().insert(key, value);
                Vec::new()
            }
            Change::Complete => {
                let new = self.listing.take().unwrap_or_default();
                let mut old = std::mem::replace(&mut self.live, new);
                self.synced = true;
                let mut changed = Vec::new();
                for (key, value) in &self.live {
                    let before = old.remove(key);
                    if before.as_ref() != Some(value) {
                        changed.push((key.clone(), before));
                    }
                }
                changed.extend(old.into_iter().map(|(key, value)| (key, Some(value))));
                changed
            }
            Change::Applied(key, value) => {
                if self.live.get(&key) == Some(&value) {
                    return Vec::new();
                }
                let before = self.live.insert(key.clone(), value);
                vec![(key, before)]
            }
            Change::Deleted(key) => {
                let before = self.live.remove(&key);
                before
                    .map(|before| (key, Some(before)))
                    .into_iter()
                    .collect()
            }
            Change::Unread => Vec::new(),
        }
    }

    /// Whether a list was complete once.
    pub(crate) const fn is_synced(&self) -> bool {
        self.synced
    }

    /// How far its watch has progressed.
    pub(crate) const fn progress(&self) -> Progress {
        self.progress
    }

    /// The objects.
    pub(crate) const fn live(&self) -> &BTreeMap<K, V> {
        &self.live
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    fn update<K, V>(change: Change<K, V>) -> Update<K, V> {
        let version = None;
        Update { change, version }
    }

    #[test]
    fn a_new_list_replaces_the_old_content_only_when_it_is_complete() {
        let mut cache = Cache::default();
        cache.apply(update(Change::Restarted));
        cache.apply(update(Change::Listed("a", 1)));
        cache.apply(update(Change::Listed("b", 1)));
        assert!(!cache.is_synced());
        let added = cache.apply(update(Change::Complete));
        assert_eq!(added, [("a", None), ("b", None)]);
        assert!(cache.is_synced());

        cache.apply(update(Change::Restarted));
        assert_eq!(cache.live().len(), 2);
        cache.apply(update(Change::Listed("b", 2)));
        assert_eq!(cache.live().get("a"), Some(&1));
        let changed = cache.apply(update(Change::Complete));
        assert_eq!(changed, [("b", Some(1)), ("a", Some(1))]);
        assert_eq!(cache.live(), &BTreeMap::from([("b", 2)]));
    }

    #[test]
    fn a_new_list_shares_unchanged_objects() {
        let objects = [Arc::new(1), Arc::new(2)];
        let mut cache = Cache::default();
        cache.apply(update(Change::Applied("a", Arc::clone(&objects[0]))));
        cache.apply(update(Change::Applied("b", Arc::clone(&objects[1]))));
        cache.apply(update(Change::Restarted));
        cache.apply(update(Change::Listed("a", Arc::new(1))));
        cache.apply(update(Change::Listed("b", Arc::new(3))));
        let changed = cache.apply(update(Change::Complete));
        assert_eq!(changed, [("b", Some(Arc::new(2)))]);
        assert!(Arc::ptr_eq(&cache.live()["a"], &objects[0]));
        assert_eq!(*cache.live()["b"], 3);
    }

    #[test]
    fn unchanged_objects_are_not_reported() {
        let mut cache = Cache::default();
        let added = cache.apply(update(Change::Applied("a", 1)));
        assert_eq!(added, [("a", None)]);
        assert!(cache.apply(update(Change::Applied("a", 1))).is_empty());
        let deleted = cache.apply(update(Change::Deleted("a")));
        assert_eq!(deleted, [("a", Some(1))]);
        assert!(cache.apply(update(Change::Deleted("a"))).is_empty());
    }

    #[test]
    fn a_write_is_covered_by_a_later_version_or_a_later_list() {
        let mut cache = Cache::<&str, u8>::default();
        let mut observe = |change, version| {
            cache.apply(Update { change, version });
            cache.progress()
        };
        observe(Change::Restarted, None);
        let then = observe(Change::Listed("a", 1), Some(7));
        assert!(!then.covers(7, &then), "the list is not complete");
        let then = observe(Change::Complete, None);
        assert!(then.covers(7, &then) && !then.covers(8, &then));
        assert!(observe(Change::Unread, Some(8)).covers(8, &then));
        assert!(observe(Change::Deleted("a"), Some(9)).covers(9, &then));

        let while_listing = observe(Change::Restarted, None);
        let complete = observe(Change::Complete, None);
        assert!(complete.covers(20, &then), "the list is later");
        assert!(
            !complete.covers(20, &while_listing),
            "the list may be older than the write"
        );
        assert!(complete.is_idle_since(&complete) && !complete.is_idle_since(&then));
    }

    #[test]
    fn rollback_uses_the_version_of_the_own_write() {
        let mut cache = Cache::<&str, u8>::default();
        let mut observe = |change, version| {
            cache.apply(Update { change, version });
            cache.progress()
        };
        observe(Change::Restarted, None);
        observe(Change::Listed("a", 1), Some(20));
        let before = observe(Change::Complete, None);

        observe(Change::Restarted, None);
        observe(Change::Listed("a", 0), Some(10));
        let now = observe(Change::Complete, None);
        assert!(now.covers(30, &before), "version 30 will never come");
        assert!(!now.covers(11, &now), "20 is of another history");
        assert!(observe(Change::Applied("a", 2), Some(11)).covers(11, &now));
    }

    proptest! {
        /// A hub with one object, and a watch of it that lags, skips to the newest, or lists again at any moment: once a
        /// write is covered, the cache is never older than the write.
        #[test]
        fn bench_counts_only_visible_changes(steps in prop::collection::vec(0u8..6, 1..60)) {
            let mut cache = Cache::<(), u64>::default();
            let (mut hub, mut reply) = (1_u64, 0_usize);
            let mut events = vec![1_u64];
            let mut listing = None;
            let mut expected: Option<(u64, Progress)> = None;
            for step in steps {
                let change = match step {
                    0 | 1 => {
                        hub += 1;
                        events.push(hub);
                        expected = Some((hub, cache.progress()));
                        None
                    }
                    2 if listing.is_none() => {
                        listing = Some(None);
                        Some((Change::Restarted, None))
                    }
                    3 if listing == Some(None) => {
                        listing = Some(Some(events.len()));
                        Some((Change::Listed((), hub), Some(hub)))
                    }
                    4 => listing.flatten().map(|count| {
                        listing = None;
                        reply = count;
                        (Change::Complete, None)
                    }),
                    5 if listing.is_none() => events.get(reply).map(|version| {
                        reply += 1;
                        (Change::Applied((), *version), Some(*version))
                    }),
                    _ => None,
                };
                if let Some((change, version)) = change {
                    cache.apply(Update { change, version });
                }
                if let Some((version, then)) = &expected
                    && cache.progress().covers(*version, then)
                {
                    prop_assert!(cache.live()[&()] >= *version);
                }
            }
        }
    }
}
