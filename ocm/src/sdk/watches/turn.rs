//! The turns of the watches to list: one list at a time.
//!
//! All lists are due at the start, and no reconcile begins before the last one is complete. So lists at the same time would
//! only add the memory of their pages, of which the allocator keeps the most for ever.

use kube::runtime::watcher::Event;
use tokio::sync::{Mutex, MutexGuard};

/// The turn of one watch, while it lists.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    lists: &'a Mutex<()>,
    taken: Option<MutexGuard<'a, ()>>,
}

impl<'a> Turn<'a> {
    pub(super) const fn new(lists: &'a Mutex<()>) -> Self {
        Self { lists, taken: None }
    }

    /// Waits for the turn before a list, and ends it after the list. A failure ends it too, so that the others list
    /// meanwhile.
    pub(super) async fn follow<T, E>(&mut self, event: &Result<Event<T>, E>) {
        if matches!(event, Ok(Event::InitApply(_))) {
            return;
        }
        drop(self.taken.take());
        // The watcher sends the first page's request only when it is polled after this event.
        if matches!(event, Ok(Event::Init)) {
            self.taken = Some(self.lists.lock().await);
        }
    }
}
