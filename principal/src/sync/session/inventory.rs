//! The objects that an agent claims to have, and whether the list is complete.
//!
//! An agent names its objects one by one and closes with a checksum over all of them. The inventory is complete only
//! when the two agree: a lost, forged or cut list must not look like a spoke with fewer or more objects.
//! more.

use std::collections::{BTreeMap, BTreeSet};

use argocd::digest;
use protocol::payload::{RequestUpdate, SyncedResourceList};

/// A spoke has far fewer objects: a longer list is not believed.
const MOST: usize = 100_000;
/// Memory of one inventory in bytes. 60,000 objects with names of usual length fit.
const MOST_BYTES: usize = 16 << 20;
/// Memory of one entry besides its text: four strings and a place in the set.
const ENTRY_BYTES: usize = 128;
/// The longest name that Kubernetes allows.
const LONGEST: usize = 253;

/// One object that an agent names. A claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Named {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// The objects that were named since the last resync.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    named: BTreeSet<Named>,
    /// The number of objects of each kind that were not named because both ends have the same.
    same: BTreeMap<String, usize>,
    /// Memory of `named`.
    bytes: usize,
    too_many: bool,
    /// The end of the list, once it has arrived.
    end: Option<SyncedResourceList>,
}

impl Named {
    /// None if an object cannot have this name.
    pub(super) fn read(claim: &RequestUpdate) -> Option<Self> {
        let RequestUpdate {
            name,
            namespace,
            uid,
            kind,
            checksum: _,
            digest: _,
        } = claim;
        let plausible =
            |text: &String| text.len() <= LONGEST && text.bytes().all(|b| b.is_ascii_graphic());
        [name, namespace, uid, kind]
            .into_iter()
            .all(plausible)
            .then(|| Self {
                kind: kind.clone(),
                namespace: namespace.clone(),
                name: name.clone(),
                uid: uid.clone(),
            })
    }
}

impl Named {
    fn bytes(&self) -> usize {
        [&self.kind, &self.namespace, &self.name, &self.uid]
            .into_iter()
            .map(String::len)
            .fold(ENTRY_BYTES, usize::saturating_add)
    }
}

impl Inventory {
    /// The agent has this object; without a UID it only asks for it.
    pub(super) fn add(&mut self, named: Named) {
        if named.uid.is_empty() {
            return;
        }
        let bytes = self.bytes.saturating_add(named.bytes());
        if self.named.len() >= MOST || bytes > MOST_BYTES {
            self.too_many = true;
        } else if self.named.insert(named) {
            self.bytes = bytes;
        }
    }

    /// An object that the agent need not name: both ends have the same.
    pub(super) fn add_same(&mut self, kind: &str) {
        *self.same.entry(kind.to_owned()).or_default() += 1;
    }

    /// The objects named so far.
    pub(super) fn named(&self) -> impl Iterator<Item = &Named> {
        self.named.iter()
    }

    /// The agent closed its list.
    pub(super) fn end(&mut self, list: SyncedResourceList) {
        self.end = Some(list);
    }

    /// Whether the list is closed, and its checksum matches the named objects.
    pub(super) fn is_complete(&self) -> bool {
        let entries = self.named.iter();
        let entries = entries.map(|it| (it.kind.as_str(), it.name.as_str(), it.uid.as_str()));
        !self.too_many
            && self
                .end
                .as_ref()
                .is_some_and(|end| end.checksum == digest::list_checksum(entries))
    }

    /// Whether everything was named, by an agent that has been silent for a while.
    ///
    /// `closes`: the agent closes its lists, so one without an end was cut off. A Go agent closes a list only after the
    /// start of its process, and counts objects there that it never names.
    pub(super) fn is_whole(&self, closes: bool) -> bool {
        self.is_complete() || (!closes && !self.too_many)
    }

    /// The number of objects of each kind.
    pub(super) fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = self.same.clone();
        for named in &self.named {
            *counts.entry(named.kind.clone()).or_default() += 1;
        }
        counts
    }

    /// All named objects.
    pub(super) fn into_named(self) -> BTreeSet<Named> {
        self.named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Named {
        Named {
            kind: "Application".to_owned(),
            namespace: "argocd".to_owned(),
            name: name.to_owned(),
            uid: format!("uid-{name}"),
        }
    }

    fn end(names: &[&str]) -> SyncedResourceList {
        let uids: Vec<String> = names.iter().map(|name| format!("uid-{name}")).collect();
        let entries = names.iter().zip(&uids);
        SyncedResourceList {
            checksum: digest::list_checksum(
                entries.map(|(name, uid)| ("Application", *name, uid.as_str())),
            ),
            ..SyncedResourceList::default()
        }
    }

    #[test]
    fn inventory_is_complete_when_the_closing_checksum_matches() {
        let mut inventory = Inventory::default();
        assert!(!inventory.is_complete(), "there was no end");
        inventory.add(named("a"));
        inventory.end(end(&["a", "b"]));
        assert!(!inventory.is_complete(), "one is missing");
        inventory.add(named("b"));
        inventory.add(named("b"));
        assert!(inventory.is_complete(), "a repeated name counts once");
        inventory.add(named("c"));
        assert!(!inventory.is_complete(), "one is too many");
        assert!(!inventory.is_whole(true));
        assert!(inventory.is_whole(false), "a Go agent does not close lists");
        let mut nothing = Inventory::default();
        nothing.end(end(&[]));
        assert!(nothing.is_complete());
    }

    #[test]
    fn inventory_memory_is_bounded() {
        let long = |number: usize| Named {
            uid: "u".repeat(LONGEST),
            namespace: "n".repeat(LONGEST),
            ..named(&format!("{number:0>253}"))
        };
        let mut inventory = Inventory::default();
        for number in 0..MOST {
            inventory.add(long(number % 10));
        }
        assert!(!inventory.too_many, "the same names cost nothing");
        for number in 0..MOST {
            inventory.add(long(number));
        }
        assert!(inventory.too_many && inventory.bytes <= MOST_BYTES);
        assert!(inventory.named.len() < MOST / 4);
        assert!(!inventory.is_whole(false), "nothing is deleted after it");
    }

    #[test]
    fn invalid_name_is_rejected() {
        let claim = |name: &str| RequestUpdate {
            name: name.to_owned(),
            ..RequestUpdate::default()
        };
        assert!(Named::read(&claim("app")).is_some());
        for bad in ["two\nlines", "ä", &"x".repeat(254)] {
            assert_eq!(Named::read(&claim(bad)), None);
        }
    }
}
