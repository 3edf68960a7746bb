//! Which Applications changed since a reader looked last. Pure.
//!
//! The log has one entry per Application: a change moves it to the end. So a reader that asks after its cursor gets each
//! changed Application once, in its newest version, and the log is bounded by the Applications. The log also remembers
//! removals, but a bounded number of them: a reader that would miss one starts over.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use crate::domain::Key;

/// So many removals are remembered. A reader that asks every few seconds misses none.
const MOST_REMOVALS: usize = 5_000;

/// The place of a reader in the changes; the default is before the first one.
///
/// Belongs to one process and to one reading of the hub's objects: with any other one, the reader starts over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The log that issued it; no log is 0.
    log: u64,
    /// Everything up to here is read.
    position: u64,
    /// The end of the log when the reader began. It never read Applications that were removed before.
    began: u64,
}

/// The Applications that changed, each at its newest position.
#[derive(Debug)]
pub(super) struct ChangeLog {
    id: u64,
    /// The position of the newest change; the first one is 1.
    last: u64,
    positions: HashMap<Arc<Key>, u64>,
    order: BTreeMap<u64, Change>,
    /// The positions of the removals in `order`.
    removals: BTreeSet<u64>,
    most_removals: usize,
    /// The newest position of a removal that is not remembered.
    forgotten: u64,
}

/// The newest change of one Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) key: Arc<Key>,
    pub(super) is_removal: bool,
}

/// Changes after a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// The cursor for the next page.
    pub(super) cursor: Cursor,
    /// The reader has to drop everything that it knows.
    pub(super) from_start: bool,
    /// Oldest first.
    pub(super) changes: Vec<Change>,
    /// There are more changes already.
    pub(super) more: bool,
}

impl ChangeLog {
    /// A log that begins with these Applications. No other log may have the same `id`.
    pub(super) fn begin<'a>(id: u64, known: impl Iterator<Item = &'a Key>) -> Self {
        Self::with(id, MOST_REMOVALS, known)
    }

    fn with<'a>(id: u64, most_removals: usize, known: impl Iterator<Item = &'a Key>) -> Self {
        let mut log = Self {
            id: id.max(1),
            last: 0,
            positions: HashMap::new(),
            order: BTreeMap::new(),
            removals: BTreeSet::new(),
            most_removals,
            forgotten: 0,
        };
        for key in known {
            log.note(key, false);
        }
        log
    }

    /// An Application changed, or was removed.
    pub(super) fn note(&mut self, key: &Key, is_removal: bool) {
        self.last = self.last.saturating_add(1);
        let key = if let Some(position) = self.positions.get_mut(key) {
            let before = std::mem::replace(position, self.last);
            self.removals.remove(&before);
            let older = self.order.remove(&before);
            older.map_or_else(|| Arc::new(key.clone()), |older| older.key)
        } else {
            let key = Arc::new(key.clone());
            self.positions.insert(Arc::clone(&key), self.last);
            key
        };
        self.order.insert(self.last, Change { key, is_removal });
        if is_removal {
            self.removals.insert(self.last);
            self.forget_removals();
        }
    }

    /// At most `limit` changes after a cursor.
    pub(super) fn after(&self, cursor: Cursor, limit: usize) -> Page {
        let is_ours = cursor.log == self.id && cursor.position <= self.last;
        let misses_none = self.forgotten <= cursor.position.max(cursor.began);
        let from_start = !is_ours || !misses_none;
        let mut cursor = if from_start {
            Cursor {
                log: self.id,
                position: 0,
                began: self.last,
            }
        } else {
            cursor
        };
        let (mut changes, mut more) = (Vec::new(), false);
        for (at, change) in self.order.range(cursor.position.saturating_add(1)..) {
            if change.is_removal && *at <= cursor.began {
                continue;
            }
            if changes.len() >= limit {
                more = true;
                break;
            }
            changes.push(change.clone());
            cursor.position = *at;
        }
        if !more {
            cursor.position = self.last;
        }
        Page {
            cursor,
            from_start,
            changes,
            more,
        }
    }

    fn forget_removals(&mut self) {
        while self.removals.len() > self.most_removals {
            let Some(position) = self.removals.pop_first() else {
                return;
            };
            if let Some(change) = self.order.remove(&position) {
                self.positions.remove(&change.key);
            }
            self.forgotten = position;
        }
    }
}

#[cfg(test)]
mod tests;
