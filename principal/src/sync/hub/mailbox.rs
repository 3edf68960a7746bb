//! From the hub to one session: which objects changed, each once.
//!
//! Not a queue: a note replaces or widens the note about the same object, so memory is bounded by the number of
//! objects, at any rate of changes. The body is read when it is sent.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use indexmap::IndexMap;
use protocol::{ObjectKey, trace::Mark};
use runtime::trace::Notes;
use tokio::sync::Notify;

use crate::store::Packed;

/// The pending messages about one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Note {
    /// The cluster's copy has to be deleted: the UID of its source.
    pub(crate) gone: Option<String>,
    /// Fields that the hub owns changed.
    pub(crate) state: bool,
    /// There is a command.
    pub(crate) command: bool,
    /// The last state of a deleted object, for a cluster that needs it before the deletion.
    pub(crate) last: Option<Arc<Packed>>,
}

/// The notes for one session; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mailbox(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    // Locked for a lookup, never over an await.
    notes: Mutex<IndexMap<ObjectKey, Note>>,
    changed: Notify,
    /// No more notes arrive.
    is_over: AtomicBool,
    /// The cluster may have objects whose deletion was not seen.
    compare: AtomicBool,
    /// The traced changes of the notes. Taken when an event is sent, not with the note.
    traces: Notes<Mark>,
}

impl Mailbox {
    /// The object changed: a copy that was to go is wanted again.
    pub(crate) fn state(&self, key: ObjectKey) {
        self.note(key, |note| {
            (note.gone, note.last) = (None, None);
            note.state = true;
        });
    }

    /// A command is pending.
    pub(crate) fn command(&self, key: ObjectKey) {
        self.note(key, |note| note.command = true);
    }

    /// The copy has to be deleted; replaces every other note except its [last state](Self::last).
    pub(crate) fn gone(&self, key: ObjectKey, uid: String) {
        self.note(key, |note| {
            *note = Note {
                gone: Some(uid),
                last: note.last.take(),
                ..Note::default()
            }
        });
    }

    /// The copy is about to be deleted; the object's last state decides about its workload.
    pub(crate) fn last(&self, key: ObjectKey, object: Arc<Packed>) {
        self.note(key, |note| note.last = Some(object));
    }

    /// Requests a comparison: the cluster may have objects whose deletion was not seen.
    pub(crate) fn compare(&self) {
        self.0.compare.store(true, Ordering::Release);
        self.0.changed.notify_one();
    }

    /// Whether a comparison is requested; true once.
    pub(crate) fn take_comparison(&self) -> bool {
        self.0.compare.swap(false, Ordering::AcqRel)
    }

    /// Takes everything.
    pub(crate) fn take(&self) -> IndexMap<ObjectKey, Note> {
        std::mem::take(&mut *self.lock())
    }

    /// Resolves when there may be something to take. Cancel-safe: a wake-up that is lost to a race is kept.
    pub(crate) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// Ends the mailbox: no more notes arrive, and the hub has to be compared again.
    pub(crate) fn end(&self) {
        self.0.is_over.store(true, Ordering::Release);
        self.0.changed.notify_one();
    }

    /// Whether the mailbox has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.0.is_over.load(Ordering::Acquire)
    }

    /// The traced changes of the notes.
    pub(crate) fn traces(&self) -> &Notes<Mark> {
        &self.0.traces
    }

    fn note(&self, key: ObjectKey, change: impl FnOnce(&mut Note)) {
        change(self.lock().entry(key).or_default());
        self.0.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, IndexMap<ObjectKey, Note>> {
        self.0.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::Kind;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(Kind::Application, "argocd", name)
    }

    #[tokio::test]
    async fn many_changes_of_one_object_are_one_note() {
        let mailbox = Mailbox::default();
        for _ in 0..1000 {
            mailbox.state(key("app"));
        }
        mailbox.command(key("app"));
        mailbox.changed().await;
        let notes = mailbox.take();
        assert_eq!(notes.len(), 1);
        assert_eq!(
            notes[&key("app")],
            Note {
                state: true,
                command: true,
                ..Note::default()
            }
        );
        assert!(mailbox.take().is_empty());
    }

    #[test]
    fn newest_note_replaces_older_ones() {
        let mailbox = Mailbox::default();
        mailbox.state(key("app"));
        mailbox.gone(key("app"), "uid".to_owned());
        let gone = Note {
            gone: Some("uid".to_owned()),
            ..Note::default()
        };
        assert_eq!(mailbox.take()[&key("app")], gone);
        mailbox.last(key("app"), Arc::default());
        mailbox.gone(key("app"), "uid".to_owned());
        mailbox.state(key("app"));
        let back = Note {
            state: true,
            ..Note::default()
        };
        assert_eq!(mailbox.take()[&key("app")], back);
    }
}
