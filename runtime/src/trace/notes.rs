//! Trace contexts of marks: the newest change of each marked value.

use std::collections::HashMap;
use std::hash::Hash;
use std::mem::replace;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use opentelemetry::KeyValue;
use opentelemetry::trace::{Link, SpanBuilder};

use super::{Context, Span};
use crate::clock::Clock;

/// Marks with a context at one time; further ones are sent without a context.
const MOST: usize = 1000;
/// Older changes of one mark to which its span is linked; further ones are only counted.
const MOST_OTHERS: usize = 8;

/// The trace context of each mark. Empty while traces are off.
#[derive(Debug)]
pub struct Notes<K> {
    // Locked for a lookup, never over an await.
    notes: Mutex<HashMap<K, Note>>,
}

impl<K> Default for Notes<K> {
    fn default() -> Self {
        Self {
            notes: Mutex::default(),
        }
    }
}

/// The changes of one mark.
#[derive(Clone, Debug)]
pub(super) struct Note {
    newest: Context,
    others: Vec<Context>,
    changes: u32,
    since: SystemTime,
}

impl<K: Eq + Hash> Notes<K> {
    /// Records the change of a mark. The newest of several changes wins.
    pub fn note(&self, key: K, context: Context) {
        let mut notes = self.lock();
        if let Some(note) = notes.get_mut(&key) {
            note.changes = note.changes.saturating_add(1);
            let older = replace(&mut note.newest, context);
            if note.others.len() < MOST_OTHERS {
                note.others.push(older);
            }
        } else if notes.len() < MOST {
            let note = Note {
                newest: context,
                others: Vec::new(),
                changes: 1,
                since: Clock::system().now().into(),
            };
            notes.insert(key, note);
        }
    }

    /// Takes the changes of a mark that is sent now, and begins its span: a child of the newest change, linked to the
    /// older ones.
    pub fn begin(
        &self,
        key: &K,
        name: String,
        attributes: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Option<Span> {
        let note = self.take(key)?;
        let links = note.others.into_iter();
        let changes = KeyValue::new("argocd.event.changes", i64::from(note.changes));
        let builder = SpanBuilder::from_name(name)
            .with_start_time(note.since)
            .with_links(links.map(|Context(it)| Link::with_context(it)).collect())
            .with_attributes([changes]);
        Span::build(builder, Some(note.newest), attributes)
    }

    /// Drops the changes of a mark that is not sent.
    pub fn forget(&self, key: &K) {
        drop(self.take(key));
    }

    pub(super) fn take(&self, key: &K) -> Option<Note> {
        self.lock().remove(key)
    }

    /// The number of marks.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there are no marks.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, Note>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
