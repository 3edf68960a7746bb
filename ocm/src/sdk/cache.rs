//! A copy of what the hub has, kept by a watch. Pure.

use std::collections::{BTreeMap, BTreeSet};

/// What a watch says.
#[derive(Clone, Debug)]
pub(crate) enum Change<K, V> {
    /// The watch begins anew; a list follows.
    Restarted,
    /// One object of the list.
    Listed(K, V),
    /// The list is complete.
    Complete,
    /// An object is new or different.
    Applied(K, V),
    /// An object is gone.
    Deleted(K),
    /// Something that cannot be read.
    Unread,
}

/// One word of a watch, and the version that the hub is at with it; none of what has no version.
#[derive(Clone, Debug)]
pub(crate) struct Word<K, V> {
    pub(crate) change: Change<K, V>,
    pub(crate) version: Option<u64>,
}

/// A version as a number. Those of one resource grow, and a watch tells them in their order; what is
/// no number cannot be compared.
pub(crate) fn version(text: &str) -> Option<u64> {
    text.parse().ok()
}

/// How far a watch has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Everything up to this version has been told. A new list counts from anew: the hub may be back at an earlier state,
    /// and then what it told before says nothing about the versions that come.
    reached: u64,
    /// The newest of the list that comes, which counts when the list is complete.
    listed: u64,
    /// How many lists were begun, and which of them was complete last.
    begun: u64,
    complete: u64,
    /// How many words there were.
    words: u64,
}

impl Progress {
    /// Whether a write that made this version while the watch was at `then` has been told, or what came of it
    /// since: the object itself may be gone again.
    pub(crate) const fn notifies(&self, version: u64, then: &Self) -> bool {
        // A list that was begun later has all that was before it.
        self.reached >= version || self.complete > then.begun
    }

    /// Whether the watch has said nothing since `then`.
    pub(crate) const fn is_silent_since(&self, then: &Self) -> bool {
        self.words == then.words
    }

    fn take<K, V>(&mut self, word: &Word<K, V>) {
        self.words = self.words.wrapping_add(1);
        let version = word.version.unwrap_or_default();
        match word.change {
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
/// While a list comes in the old content stays, so that an object that is merely not listed yet
/// is never taken for gone.
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

impl<K: Clone + Ord, V: PartialEq> Cache<K, V> {
    /// Takes a change in and says which keys are different now.
    pub(crate) fn absorb(&mut self, word: Word<K, V>) -> Vec<K> {
        self.progress.take(&word);
        match word.change {
            Change::Restarted => {
                self.listing = Some(BTreeMap::new());
                Vec::new()
            }
            Change::Listed(key, value) => {
                self.listing.get_or_insert_default().insert(key, value);
                Vec::new()
            }
            Change::Complete => {
                let new = self.listing.take().unwrap_or_default();
                let changed = differences(&self.live, &new);
                self.live = new;
                self.synced = true;
                changed
            }
            Change::Applied(key, value) => {
                let same = self.live.get(&key).is_some_and(|old| *old == value);
                self.live.insert(key.clone(), value);
                if same { Vec::new() } else { vec![key] }
            }
            Change::Deleted(key) => self.live.remove(&key).map(|_| key).into_iter().collect(),
            Change::Unread => Vec::new(),
        }
    }

    /// Whether a list was complete once.
    pub(crate) const fn is_synced(&self) -> bool {
        self.synced
    }

    /// How far its watch has come.
    pub(crate) const fn progress(&self) -> Progress {
        self.progress
    }

    /// The objects.
    pub(crate) const fn live(&self) -> &BTreeMap<K, V> {
        &self.live
    }
}

fn differences<K: Clone + Ord, V: PartialEq>(old: &BTreeMap<K, V>, new: &BTreeMap<K, V>) -> Vec<K> {
    let keys: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    keys.into_iter()
        .filter(|key| old.get(*key) != new.get(*key))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn word<K, V>(change: Change<K, V>) -> Word<K, V> {
        let version = None;
        Word { change, version }
    }

    #[test]
    fn a_new_list_replaces_the_old_content_only_when_it_is_complete() {
        let mut cache = Cache::default();
        cache.absorb(word(Change::Restarted));
        cache.absorb(word(Change::Listed("a", 1)));
        cache.absorb(word(Change::Listed("b", 1)));
        assert!(!cache.is_synced());
        assert_eq!(cache.absorb(word(Change::Complete)), ["a", "b"]);
        assert!(cache.is_synced());

        cache.absorb(word(Change::Restarted));
        assert_eq!(cache.live().len(), 2);
        cache.absorb(word(Change::Listed("b", 2)));
        assert_eq!(cache.live().get("a"), Some(&1));
        assert_eq!(cache.absorb(word(Change::Complete)), ["a", "b"]);
        assert_eq!(cache.live(), &BTreeMap::from([("b", 2)]));
    }

    #[test]
    fn what_does_not_change_is_not_reported() {
        let mut cache = Cache::default();
        assert_eq!(cache.absorb(word(Change::Applied("a", 1))), ["a"]);
        assert!(cache.absorb(word(Change::Applied("a", 1))).is_empty());
        assert_eq!(cache.absorb(word(Change::Deleted("a"))), ["a"]);
        assert!(cache.absorb(word(Change::Deleted("a"))).is_empty());
    }

    #[test]
    fn a_write_is_told_by_a_later_word_or_by_a_list_that_was_begun_after_it() {
        let mut cache = Cache::<&str, u8>::default();
        let mut take_in = |change, version| {
            cache.absorb(Word { change, version });
            cache.progress()
        };
        take_in(Change::Restarted, None);
        let then = take_in(Change::Listed("a", 1), Some(7));
        assert!(!then.notifies(7, &then), "the list is not complete");
        let then = take_in(Change::Complete, None);
        assert!(then.notifies(7, &then) && !then.notifies(8, &then));
        assert!(take_in(Change::Unread, Some(8)).notifies(8, &then));
        assert!(take_in(Change::Deleted("a"), Some(9)).notifies(9, &then));

        let while_listing = take_in(Change::Restarted, None);
        let complete = take_in(Change::Complete, None);
        assert!(complete.notifies(20, &then), "it has what was before it");
        assert!(
            !complete.notifies(20, &while_listing),
            "it may have been made before the write"
        );
        assert!(complete.is_silent_since(&complete) && !complete.is_silent_since(&then));
    }

    #[test]
    fn rollback_uses_the_version_of_the_own_write() {
        let mut cache = Cache::<&str, u8>::default();
        let mut take_in = |change, version| {
            cache.absorb(Word { change, version });
            cache.progress()
        };
        take_in(Change::Restarted, None);
        take_in(Change::Listed("a", 1), Some(20));
        let before = take_in(Change::Complete, None);

        take_in(Change::Restarted, None);
        take_in(Change::Listed("a", 0), Some(10));
        let now = take_in(Change::Complete, None);
        assert!(
            now.notifies(30, &before),
            "nobody waits for what never comes"
        );
        assert!(!now.notifies(11, &now), "20 was of another history");
        assert!(take_in(Change::Applied("a", 2), Some(11)).notifies(11, &now));
    }

    proptest! {
        /// A hub with one object, and a watch of it that lags, skips to the newest, or lists again at any moment: what
        /// it tells of a write is never older than the write.
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
                    cache.absorb(Word { change, version });
                }
                if let Some((version, then)) = &expected
                    && cache.progress().notifies(*version, then)
                {
                    prop_assert!(cache.live()[&()] >= *version);
                }
            }
        }
    }
}
