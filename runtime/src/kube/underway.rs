//! Writes in progress, and objects that are deleted before the responses arrive.
//!
//! The response to a write and the events of a watch arrive independently. If another client deletes the object before
//! the response arrives, the watch may report the deletion first, and it does not report it again after the response.

use std::collections::{BTreeMap, BTreeSet};

/// The writes in progress, by object name.
#[derive(Debug)]
pub struct UnderWay<K>(BTreeMap<K, Writes>);

/// Writes of one name.
#[derive(Debug, Default)]
struct Writes {
    /// Number of concurrent writes.
    count: usize,
    /// UIDs that were deleted meanwhile.
    gone: BTreeSet<String>,
}

impl<K> Default for UnderWay<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> UnderWay<K> {
    /// A write of this name starts.
    pub fn begin(&mut self, name: K) {
        self.0.entry(name).or_default().count += 1;
    }

    /// A write of this name has finished.
    pub fn end(&mut self, name: &K) {
        if let Some(writes) = self.0.get_mut(name) {
            writes.count = writes.count.saturating_sub(1);
            if writes.count == 0 {
                self.0.remove(name);
            }
        }
    }

    /// The object with this UID was deleted.
    pub fn went(&mut self, name: &K, uid: &str) {
        if let Some(writes) = self.0.get_mut(name) {
            writes.gone.insert(uid.to_owned());
        }
    }

    /// Whether the object in the response to a write was already deleted.
    pub fn has_gone(&self, name: &K, uid: &str) -> bool {
        let writes = self.0.get(name);
        writes.is_some_and(|writes| writes.gone.contains(uid))
    }

    /// Whether no write is in progress.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deletion_is_remembered_while_a_write_of_the_name_is_in_progress() {
        let mut writes = UnderWay::default();
        writes.went(&"a", "1");
        writes.begin("a");
        writes.begin("a");
        assert!(!writes.has_gone(&"a", "1"), "deleted before the writes");
        writes.went(&"a", "2");
        writes.end(&"a");
        assert!(writes.has_gone(&"a", "2") && !writes.has_gone(&"b", "2"));
        writes.end(&"a");
        assert!(!writes.has_gone(&"a", "2") && writes.is_empty());
    }
}
