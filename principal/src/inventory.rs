//! The principal's knowledge for pages: objects, deliveries and sessions. Reads only.
//!
//! ```text
//!   reader ── changes(cursor) ──▶ Changes: at most 500 Applications, and the next cursor
//!          ◀── until `more` is false; again a few seconds later ──
//! ```
//!
//! A reader keeps the fields that it needs of each Application, and drops everything when [`Changes::from_start`] is
//! set. Decoding an Application may take milliseconds: an asynchronous caller gives it a thread of its own.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{admission::registry::Registry, domain::Key, sync::hub::Views};

pub use crate::{
    report::Traffic,
    sync::hub::{Changes, Cursor, Delivery},
};

/// A view of the principal that changes nothing; clones share it.
#[derive(Clone, derive_more::Debug)]
#[debug("Inventory")]
pub struct Inventory {
    views: Views,
    registry: Registry,
}

impl Inventory {
    pub(crate) const fn new(views: Views, registry: Registry) -> Self {
        Self { views, registry }
    }

    /// The Applications that changed after `cursor`, all for `Cursor::default()`: at most `limit` and at most 500, with
    /// removed ones, oldest change first.
    ///
    /// None until the hub's objects are read, also while a restored hub is read again.
    pub fn changes(&self, cursor: Cursor, limit: usize) -> Option<Changes> {
        self.views.changes(cursor, limit)
    }

    /// One Application as the hub has it.
    pub fn application(&self, namespace: &str, name: &str) -> Option<Value> {
        self.views.application(&key(namespace, name))
    }

    /// The Applications of this name in all namespaces, by namespace: at most `limit` and at most 500.
    pub fn namesakes(&self, name: &str, limit: usize) -> Vec<Value> {
        self.views.namesakes(name, limit)
    }

    /// An `AppProject` of the Argo CD namespace, with the lists of its global projects, as the delivery judges by it.
    pub fn project(&self, name: &str) -> Option<Value> {
        self.views.project(name)
    }

    /// The last changes of an Application and how far they came, newest first: at most 5.
    ///
    /// Known for the 2,000 Applications that changed last, since this process started.
    pub fn deliveries(&self, namespace: &str, name: &str) -> Vec<Delivery> {
        self.views.deliveries(&key(namespace, name))
    }

    /// The sessions and reports of each enrolled cluster that had a session since this process started, by its name.
    pub fn traffic(&self) -> BTreeMap<String, Traffic> {
        self.registry.traffic()
    }
}

fn key(namespace: &str, name: &str) -> Key {
    Key {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}
