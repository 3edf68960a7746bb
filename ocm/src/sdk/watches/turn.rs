//! The turns of the watches to list: one list at a time.
//!
//! All lists are due at the start, and no reconcile begins before the last one is complete. So lists at the same time would
//! only add the memory of their pages, of which the allocator keeps the most for ever.

use std::time::Duration;

use kube::runtime::watcher::Event;
use tokio::{
    sync::{Mutex, MutexGuard},
    time::timeout,
};

/// The longest wait for a turn: a client may have no timeout for a list that hangs, which would stop all other kinds.
const LONGEST: Duration = Duration::from_mins(2);

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

    /// Waits for the turn before a list, but not for ever, and ends it after the list. A failure ends it too, so that the
    /// others list meanwhile.
    pub(super) async fn follow<T, E>(&mut self, event: &Result<Event<T>, E>) {
        if matches!(event, Ok(Event::InitApply(_))) {
            return;
        }
        drop(self.taken.take());
        // The watcher sends the first page's request only when it is polled after this event.
        if matches!(event, Ok(Event::Init)) {
            self.taken = timeout(LONGEST, self.lists.lock()).await.ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_list_that_hangs_delays_the_others_only_for_a_time() {
        let lists = Mutex::default();
        let [init, object, end]: [Result<Event<()>, ()>; 3] =
            [Event::Init, Event::InitApply(()), Event::InitDone].map(Ok);
        let (mut hanging, mut other) = (Turn::new(&lists), Turn::new(&lists));
        hanging.follow(&init).await;
        hanging.follow(&object).await;
        assert!(hanging.taken.is_some());
        let begun = Instant::now();
        other.follow(&init).await;
        assert_eq!(begun.elapsed().as_secs(), LONGEST.as_secs());
        assert!(other.taken.is_none());
        hanging.follow(&end).await;
        other.follow(&init).await;
        assert!(other.taken.is_some() && hanging.taken.is_none());
    }
}
