//! Wakes tasks that wait for a change, in the order in which they started to wait.
//!
//! Like a `watch` channel, without a value, and with an order: a watch channel wakes its receivers in random order, which
//! a simulation cannot repeat.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Counts changes and wakes waiting tasks.
#[derive(Debug, Default)]
pub struct ChangeNotifier {
    count: AtomicU64,
    waiting: Notify,
}

impl ChangeNotifier {
    /// Counts a change and wakes all waiting tasks.
    pub fn notify(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
        self.waiting.notify_waiters();
    }

    /// The number of changes; read it before you read the data.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Waits for a change after `count`. Cancel-safe.
    pub async fn since(&self, count: u64) {
        loop {
            let notified = self.waiting.notified();
            tokio::pin!(notified);
            // No notification is missed from here on, so read the count afterwards.
            notified.as_mut().enable();
            if self.count() != count {
                return;
            }
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn change_before_the_wait_ends_it() {
        let updates = ChangeNotifier::default();
        let seen = updates.count();
        updates.notify();
        updates.since(seen).await;
    }

    #[tokio::test]
    async fn waiting_task_is_woken() {
        let updates = ChangeNotifier::default();
        let seen = updates.count();
        let waiting = async {
            updates.since(seen).await;
            updates.count()
        };
        let (count, ()) = futures::join!(waiting, async { updates.notify() });
        assert_eq!(count, 1);
    }
}
