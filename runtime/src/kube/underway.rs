//! Writes under way, and what goes before their answers come.
//!
//! An answer to a write and a watch come by different ways. Between a write and its answer somebody may delete the
//! object, and the watch may tell so first; nobody would tell a second time that what the answer speaks of is gone.

use std::collections::{BTreeMap, BTreeSet};

/// The writes under way, by the name of what is written.
#[derive(Debug)]
pub struct UnderWay<K>(BTreeMap<K, Writes>);

/// Writes of one name.
#[derive(Debug, Default)]
struct Writes {
    /// How many: several may be at it at once.
    count: usize,
    /// UIDs that went meanwhile.
    gone: BTreeSet<String>,
}

impl<K> Default for UnderWay<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> UnderWay<K> {
    /// A write of this name begins.
    pub fn begin(&mut self, name: K) {
        self.0.entry(name).or_default().count += 1;
    }

    /// A write of this name is over.
    pub fn end(&mut self, name: &K) {
        if let Some(writes) = self.0.get_mut(name) {
            writes.count = writes.count.saturating_sub(1);
            if writes.count == 0 {
                self.0.remove(name);
            }
        }
    }

    /// The object with this UID is gone.
    pub fn went(&mut self, name: &K, uid: &str) {
        if let Some(writes) = self.0.get_mut(name) {
            writes.gone.insert(uid.to_owned());
        }
    }

    /// Whether what a write under way is answered with is gone already.
    pub fn has_gone(&self, name: &K, uid: &str) -> bool {
        let writes = self.0.get(name);
        writes.is_some_and(|writes| writes.gone.contains(uid))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_is_remembered_as_long_as_a_write_of_its_name_is_under_way() {
        let mut writes = UnderWay::default();
        writes.went(&"a", "1");
        writes.begin("a");
        writes.begin("a");
        assert!(!writes.has_gone(&"a", "1"), "before any of them began");
        writes.went(&"a", "2");
        writes.end(&"a");
        assert!(writes.has_gone(&"a", "2") && !writes.has_gone(&"b", "2"));
        writes.end(&"a");
        assert!(!writes.has_gone(&"a", "2") && writes.is_empty());
    }
}
