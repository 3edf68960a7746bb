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
}

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Self {
            live: BTreeMap::new(),
            listing: None,
            synced: false,
        }
    }
}

impl<K: Clone + Ord, V: PartialEq> Cache<K, V> {
    /// Takes a change in and says which keys are different now.
    pub(crate) fn absorb(&mut self, change: Change<K, V>) -> Vec<K> {
        match change {
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
        }
    }

    /// Whether a list was complete once.
    pub(crate) const fn is_synced(&self) -> bool {
        self.synced
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
    use super::*;

    #[test]
    fn a_new_list_replaces_the_old_content_only_when_it_is_complete() {
        let mut cache = Cache::default();
        cache.absorb(Change::Restarted);
        cache.absorb(Change::Listed("a", 1));
        cache.absorb(Change::Listed("b", 1));
        assert!(!cache.is_synced());
        assert_eq!(cache.absorb(Change::Complete), ["a", "b"]);
        assert!(cache.is_synced());

        cache.absorb(Change::Restarted);
        assert_eq!(cache.live().len(), 2);
        cache.absorb(Change::Listed("b", 2));
        assert_eq!(cache.live().get("a"), Some(&1));
        assert_eq!(cache.absorb(Change::Complete), ["a", "b"]);
        assert_eq!(cache.live(), &BTreeMap::from([("b", 2)]));
    }

    #[test]
    fn what_does_not_change_is_not_reported() {
        let mut cache = Cache::default();
        assert_eq!(cache.absorb(Change::Applied("a", 1)), ["a"]);
        assert!(cache.absorb(Change::Applied("a", 1)).is_empty());
        assert_eq!(cache.absorb(Change::Deleted("a")), ["a"]);
        assert!(cache.absorb(Change::Deleted("a")).is_empty());
    }
}
