//! Contexts beside marks: which change something is to be said for, the newest for each thing.

use std::collections::HashMap;
use std::hash::Hash;
use std::mem::replace;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::{Context, Span, Spot, now};

/// Things that a context is kept for at one time; more of them are said without.
const MOST: usize = 1000;
/// Older changes of one thing that its span is linked to; more of them are only counted.
const MOST_OTHERS: usize = 8;

/// Beside each mark the change that it is for. Empty while nobody wants traces.
#[derive(Debug)]
pub struct Notes<K> {
    // Held for a lookup, never over an await.
    notes: Mutex<HashMap<K, Note>>,
}

impl<K> Default for Notes<K> {
    fn default() -> Self {
        Self {
            notes: Mutex::default(),
        }
    }
}

/// What one mark is for.
#[derive(Clone, Debug)]
pub struct Note {
    newest: Context,
    others: Vec<Context>,
    changes: u32,
    since: SystemTime,
}

impl<K: Eq + Hash> Notes<K> {
    /// Notes what a mark is for. Of several changes the newest counts.
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
                since: now(),
            };
            notes.insert(key, note);
        }
    }

    /// Takes what a mark is for, as its word goes out.
    pub fn take(&self, key: &K) -> Option<Note> {
        self.lock().remove(key)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, Note>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Note {
    /// The span of what was marked then and is done now: as a part of the newest change, and linked to those before it
    /// that it stands for as well.
    pub fn begin(
        self,
        name: String,
        attributes: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Option<Span> {
        let Self {
            newest,
            others,
            changes,
            since,
        } = self;
        let spot = Spot::new(name).under(Some(newest)).since(since);
        let spot = spot.with(attributes).for_others(others);
        spot.counting("argocd.event.changes", changes).begin()
    }
}
