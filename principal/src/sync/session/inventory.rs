//! The objects that an agent claims to have, and whether the list is complete.
//!
//! An agent names its objects one by one and closes with a checksum over all of them. The inventory is complete only
//! when the two agree: a lost, forged or cut list must not look like a spoke with fewer or more objects.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use argocd::digest;
use protocol::{
    Kind,
    payload::{RequestUpdate, SyncedResourceList},
};

/// A spoke may have so many objects per object that the hub delivers there: a restored hub delivers fewer than before.
const SHARE: usize = 4;
/// Objects that every hub may deliver, so that one that has lost all its objects still asks a user about them.
const SPARE: usize = 5_000;
/// Memory of one inventory in bytes. 60,000 objects with names of usual length fit.
const MOST_BYTES: usize = 16 << 20;
/// Memory of one entry besides its text: three strings and a place in the set.
const ENTRY_BYTES: usize = 128;
/// The longest name that Kubernetes allows.
const LONGEST: usize = 253;

/// One object that an agent names. A claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Named {
    pub(super) kind: Kind,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// The objects that were named since the last resync.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    pub(super) named: BTreeSet<Arc<Named>>,
    /// The number of objects of each kind, with those that were not named because both ends have the same.
    pub(super) counts: BTreeMap<Kind, usize>,
    /// The most objects that are believed.
    most: usize,
    /// Memory of `named`.
    bytes: usize,
    /// The agent named more objects than are believed.
    pub(super) too_many: bool,
    /// The end of the list, once it has arrived.
    end: Option<SyncedResourceList>,
}

impl Named {
    /// The reason if no object of a spoke can have this name.
    pub(super) fn read(claim: &RequestUpdate) -> Result<Self, String> {
        let plausible =
            |text: &String| text.len() <= LONGEST && text.bytes().all(|b| b.is_ascii_graphic());
        let texts = [&claim.name, &claim.namespace, &claim.uid];
        if !texts.into_iter().all(plausible) {
            return Err("invalid name".to_owned());
        }
        Ok(Self {
            kind: claim.kind.parse().map_err(|error| format!("{error}"))?,
            namespace: claim.namespace.clone(),
            name: claim.name.clone(),
            uid: claim.uid.clone(),
        })
    }

    fn bytes(&self) -> usize {
        let texts = [&self.namespace, &self.name, &self.uid];
        texts
            .iter()
            .fold(ENTRY_BYTES, |sum, it| sum.saturating_add(it.len()))
    }
}

impl Inventory {
    /// An empty inventory of a spoke to which the hub delivers so many objects.
    pub(super) fn new(delivered: usize) -> Self {
        Self {
            most: delivered.saturating_add(SPARE).saturating_mul(SHARE),
            ..Self::default()
        }
    }

    /// Takes the inventory and begins a new one of the same spoke.
    pub(super) fn take(&mut self) -> Self {
        let next = Self {
            most: self.most,
            ..Self::default()
        };
        std::mem::replace(self, next)
    }

    /// The agent has this object; without a UID it only asks for it.
    pub(super) fn add(&mut self, named: Named) {
        if named.uid.is_empty() {
            return;
        }
        let (kind, bytes) = (named.kind, self.bytes.saturating_add(named.bytes()));
        if self.named.len() >= self.most || bytes > MOST_BYTES {
            self.too_many = true;
        } else if self.named.insert(Arc::new(named)) {
            self.bytes = bytes;
            self.add_same(kind);
        }
    }

    /// An object that the agent need not name: both ends have the same.
    pub(super) fn add_same(&mut self, kind: Kind) {
        *self.counts.entry(kind).or_default() += 1;
    }

    /// The agent closed its list; returns whether it did so for the first time.
    pub(super) fn end(&mut self, list: SyncedResourceList) -> bool {
        self.end.replace(list).is_none()
    }

    /// Whether the list is closed, and its checksum matches the named objects. Sorts them all.
    pub(super) fn is_complete(&self) -> bool {
        let entries = self.named.iter();
        let entries = entries.map(|it| (it.kind.as_str(), it.name.as_str(), it.uid.as_str()));
        let end = self.end.as_ref().filter(|_| !self.too_many);
        end.is_some_and(|end| end.checksum == digest::list_checksum(entries))
    }

    /// Whether everything was named, by an agent that has been silent for a while.
    ///
    /// `closes`: the agent closes its lists, so one without an end was cut off. A Go agent closes a list only after the
    /// start of its process, and counts objects there that it never names.
    pub(super) fn is_whole(&self, closes: bool) -> bool {
        !self.too_many && (!closes || self.is_complete())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Named {
        Named {
            kind: Kind::Application,
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
        let mut inventory = Inventory::new(0);
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
        let mut nothing = Inventory::new(0);
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
        let (many, mut inventory) = (100_000, Inventory::new(100_000));
        for number in 0..many {
            inventory.add(long(number % 10));
        }
        assert!(!inventory.too_many, "the same names cost nothing");
        for number in 0..many {
            inventory.add(long(number));
        }
        assert!(inventory.too_many && inventory.bytes <= MOST_BYTES);
        assert!(inventory.named.len() < many / 4);
        assert!(!inventory.is_whole(false), "nothing is deleted after it");
    }

    #[test]
    fn invalid_name_is_rejected() {
        let claim = |name: &str| RequestUpdate {
            name: name.to_owned(),
            kind: "Application".to_owned(),
            ..RequestUpdate::default()
        };
        assert!(Named::read(&claim("app")).is_ok());
        for bad in ["two\nlines", "ä", &"x".repeat(254)] {
            assert_eq!(Named::read(&claim(bad)), Err("invalid name".to_owned()));
        }
    }

    #[test]
    fn unknown_kind_is_rejected() {
        let claim = RequestUpdate {
            name: "app".to_owned(),
            kind: "Ingress".to_owned(),
            ..RequestUpdate::default()
        };
        let reason = "kind \"Ingress\" is not replicated".to_owned();
        assert_eq!(Named::read(&claim), Err(reason));
    }

    #[test]
    fn believed_objects_are_bounded_by_the_delivered_ones() {
        for (delivered, most) in [(0, 20_000), (1_000, 24_000)] {
            let mut inventory = Inventory::new(delivered);
            for number in 0..most {
                inventory.add(named(&format!("app-{number}")));
            }
            assert!(!inventory.too_many && inventory.is_whole(false));
            for number in most..2 * most {
                inventory.add(named(&format!("app-{number}")));
            }
            assert!(inventory.too_many);
            assert_eq!(inventory.named.len(), most);
            assert!(!inventory.is_whole(false), "nothing is deleted after it");
            assert!(!inventory.take().named.is_empty());
            assert!(inventory.named.is_empty() && inventory.most == most);
        }
    }
}
