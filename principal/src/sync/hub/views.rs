//! The hub's objects for pages: read under the lock in small parts, decoded outside.

use std::sync::Arc;

use serde_json::Value;

use super::{
    changes::{Cursor, Page},
    deliveries::Delivery,
    objects::Objects,
};
use crate::{domain::Key, store::Packed};

/// So many Applications are read at once at most: a fraction of a millisecond under the lock.
const MOST_AT_ONCE: usize = 500;

/// The Applications that changed after a [`Cursor`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// The cursor for the next call.
    pub cursor: Cursor,
    /// The reader has to drop everything that it knows: it asked for the first time, the hub's objects were read again,
    /// or it was away for too many removals.
    pub from_start: bool,
    /// The changed Applications as the hub has them now, oldest change first.
    pub applications: Vec<Value>,
    /// Namespace and name of Applications that are gone, oldest removal first. The reader may not know them.
    pub removed: Vec<(String, String)>,
    /// There are more changes already.
    pub more: bool,
}

/// Reads the hub's objects for pages; clones share them.
#[derive(Clone, derive_more::Debug)]
#[debug("Views")]
pub(crate) struct Views(Arc<Objects>);

impl Views {
    pub(crate) const fn new(objects: Arc<Objects>) -> Self {
        Self(objects)
    }

    /// See [`Inventory::changes`](crate::Inventory::changes).
    pub(crate) fn changes(&self, cursor: Cursor, limit: usize) -> Option<Changes> {
        let (page, found) = self.page(cursor, limit.min(MOST_AT_ONCE))?;
        let (mut applications, mut removed) = (Vec::new(), Vec::new());
        for (change, object) in page.changes.into_iter().zip(found) {
            match object {
                Some(object) => applications.push(object.whole()),
                None => removed.push((change.key.namespace.clone(), change.key.name.clone())),
            }
        }
        Some(Changes {
            cursor: page.cursor,
            from_start: page.from_start,
            applications,
            removed,
            more: page.more,
        })
    }

    /// The changes after a cursor, each with its object unless it is removed. None until all objects are read.
    fn page(&self, cursor: Cursor, limit: usize) -> Option<(Page, Vec<Option<Arc<Packed>>>)> {
        let mut state = self.0.lock();
        if !state.is_synced() {
            return None;
        }
        let id = || uuid::Uuid::new_v4().as_u64_pair().0;
        let page = state.index.changes_after(cursor, limit, id);
        let find = |key: &Key| Some(Arc::clone(state.index.application(key)?.object()));
        let found = page.changes.iter().map(|change| find(&change.key));
        let found = found.collect();
        Some((page, found))
    }

    /// One Application.
    pub(crate) fn application(&self, key: &Key) -> Option<Value> {
        let object = Arc::clone(self.0.lock().index.application(key)?.object());
        Some(object.whole())
    }

    /// The Applications of this name, at most `limit`.
    pub(crate) fn namesakes(&self, name: &str, limit: usize) -> Vec<Value> {
        let found = self.0.lock().index.namesakes(name, limit.min(MOST_AT_ONCE));
        found.iter().map(|object| object.whole()).collect()
    }

    /// A project with the lists of its global projects, as Argo CD judges by it.
    pub(crate) fn project(&self, name: &str) -> Option<Value> {
        self.0.lock().index.merged_project(name).cloned()
    }

    /// The recent deliveries of an Application, newest first.
    pub(crate) fn deliveries(&self, key: &Key) -> Vec<Delivery> {
        self.0.deliveries.of(key)
    }
}

#[cfg(test)]
mod tests;
