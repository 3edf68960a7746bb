//! Wakes whoever waits for a change, in the order in which they began to wait.
//!
//! What a `watch` channel is for values, without a value, and with an order: a watch channel wakes its receivers by
//! chance, which a simulation cannot repeat.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Counts changes; see the module.
#[derive(Debug, Default)]
pub struct ChangeNotifier {
    count: AtomicU64,
    waiting: Notify,
}

impl ChangeNotifier {
    /// Something has changed.
    pub fn notify(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
        self.waiting.notify_waiters();
    }

    /// How often something has changed; take it before you look at what may have.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Waits until there was more than at `count`. Cancel-safe.
    pub async fn since(&self, count: u64) {
        loop {
            let notified = self.waiting.notified();
            tokio::pin!(notified);
            // From here on nothing is missed, so the look comes after.
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
    async fn what_came_before_the_wait_ends_it() {
        let updates = ChangeNotifier::default();
        let seen = updates.count();
        updates.notify();
        updates.since(seen).await;
    }

    #[tokio::test]
    async fn whoever_waits_is_woken() {
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
