//! The work queue: which keys to reconcile, and when. Pure but for [`PendingWork`]: the time is a parameter.
//!
//! Each key is in it at most once, so memory is bounded by the number of keys and not by the rate of
//! events. A key that is added while it runs will run once more.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use self::pace::Pace;

mod pace;

/// The first back-off after a failure.
const FIRST: Duration = Duration::from_millis(500);
/// The longest back-off.
const LONGEST: Duration = Duration::from_mins(5);

/// The pause of a key that waits until the cache shows its own last write, in case no event wakes it.
const OWN_WRITE_PAUSE: Duration = Duration::from_secs(2);

/// The shortest back-off of a key that keeps failing while events arrive.
const RETRY_ON_EVENT: Duration = Duration::from_secs(5);

/// The number of reconciles of a key for changes of a status that run without a pause. An enrolment has fewer, since changes
/// that arrive before a reconcile begins share it.
const STATUS_BURST: u32 = 20;

/// How soon an event wakes a key, by the rate at which a cluster may cause such events. The interval is that of [`pace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Now: a cluster cannot cause it.
    Now,
    /// Now for a burst of [`STATUS_BURST`], then once per interval: a change of a status, which is a reconcile.
    Status,
    /// Once per interval: a change of labels or claims, which is a write for this add-on and for other controllers.
    Labels,
}

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Success; reconcile again after this time even without an event.
    Settled(Option<Duration>),
    /// A conflict with another writer; the event of that write wakes the key.
    Soon,
    /// The cache does not show the SDK's last write yet; its event wakes the key.
    Behind,
    /// It failed; retry with a growing back-off.
    Failed,
}

#[derive(Debug, Default)]
struct Entry {
    due: Option<Instant>,
    running: bool,
    failures: u32,
}

/// Keys that are due, running or waiting.
#[derive(Debug)]
pub(crate) struct Queue<K> {
    entries: BTreeMap<K, Entry>,
    order: BTreeSet<(Instant, K)>,
    status: Pace<K>,
    labels: Pace<K>,
}

impl<K: Clone + Ord> Default for Queue<K> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            order: BTreeSet::new(),
            status: Pace::with_burst(STATUS_BURST),
            labels: Pace::with_burst(1),
        }
    }
}

impl<K: Clone + Ord> Queue<K> {
    /// Makes a key due now, after an event.
    ///
    /// A key that keeps failing is due after [`RETRY_ON_EVENT`], so that frequent events do not cause
    /// frequent retries.
    pub(crate) fn add(&mut self, key: K, now: Instant) {
        let entry = self.entries.entry(key.clone()).or_default();
        let at = if entry.failures > 1 {
            now + RETRY_ON_EVENT
        } else {
            now
        };
        Self::schedule(&mut self.order, entry, key, at);
    }

    /// Makes a key due after an event, as soon as the kind of event allows. The reconcile reads the state of that time, so
    /// the last of several events counts.
    pub(crate) fn wake(&mut self, key: K, wake: Wake, now: Instant) {
        let due = self.entries.get(&key).and_then(|entry| entry.due);
        let is_due = due.is_some_and(|due| due <= now);
        let at = match wake {
            // The event shares the reconcile that is due.
            _ if is_due => now,
            Wake::Now => now,
            Wake::Status => self.status.due(&key, now),
            Wake::Labels => self.labels.due(&key, now),
        };
        self.add(key, at);
    }

    fn schedule(order: &mut BTreeSet<(Instant, K)>, entry: &mut Entry, key: K, at: Instant) {
        let at = entry.due.map_or(at, |due| due.min(at));
        if let Some(due) = entry.due.replace(at)
            && !entry.running
        {
            order.remove(&(due, key.clone()));
        }
        if !entry.running {
            order.insert((at, key));
        }
    }

    /// Takes the key that has been due for longest.
    pub(crate) fn take(&mut self, now: Instant) -> Option<K> {
        let (due, _) = self.order.first()?;
        if *due > now {
            return None;
        }
        let (_, key) = self.order.pop_first()?;
        let entry = self.entries.entry(key.clone()).or_default();
        entry.due = None;
        entry.running = true;
        Some(key)
    }

    /// When the next key is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.order.first().map(|(due, _)| *due)
    }

    /// Records the end of a reconcile. `jitter` is from 0 to 1 and spreads simultaneous retries.
    pub(crate) fn finish(&mut self, key: K, outcome: Outcome, now: Instant, jitter: f64) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        entry.running = false;
        let pause = match outcome {
            Outcome::Settled(pause) => {
                entry.failures = 0;
                pause.map(|pause| spread(pause, jitter))
            }
            Outcome::Soon => Some(spread(FIRST, jitter)),
            Outcome::Behind => Some(spread(OWN_WRITE_PAUSE, jitter)),
            Outcome::Failed => {
                entry.failures = entry.failures.saturating_add(1);
                // An event during the reconcile is most likely its own write.
                entry.due = entry.due.filter(|_| entry.failures == 1);
                let doublings = entry.failures.saturating_sub(1).min(16);
                let pause = FIRST.saturating_mul(1 << doublings).min(LONGEST);
                Some(spread(pause, jitter))
            }
        };
        let later = pause.map(|pause| now + pause);
        let due = match (entry.due.take(), later) {
            (Some(event), Some(later)) => Some(event.min(later)),
            (due, None) | (None, due) => due,
        };
        match due {
            Some(due) => Self::schedule(&mut self.order, entry, key, due),
            None => {
                self.entries.remove(&key);
            }
        }
    }

    /// The number of keys that are due.
    pub(crate) fn waiting(&self, now: Instant) -> usize {
        self.order.iter().take_while(|(due, _)| *due <= now).count()
    }
}

/// The queue, shared with the watches. The lock is released before every await.
#[derive(Debug)]
pub(crate) struct PendingWork<K> {
    queue: Mutex<Queue<K>>,
    /// Notified when a key is added.
    pub(crate) changed: Notify,
}

impl<K: Clone + Ord> Default for PendingWork<K> {
    fn default() -> Self {
        Self {
            queue: Mutex::default(),
            changed: Notify::new(),
        }
    }
}

impl<K: Clone + Ord> PendingWork<K> {
    /// Adds a key after an event; see [`Queue::add`].
    pub(crate) fn add(&self, key: K) {
        self.with(|queue| queue.add(key, Instant::now()));
        self.changed.notify_one();
    }

    /// Adds a key after an event that the cluster may cause; see [`Queue::wake`].
    pub(crate) fn wake(&self, key: K, wake: Wake) {
        self.with(|queue| queue.wake(key, wake, Instant::now()));
        self.changed.notify_one();
    }

    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Queue<K>) -> T) -> T {
        act(&mut self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// From three quarters to five quarters of the pause.
pub(crate) fn spread(pause: Duration, jitter: f64) -> Duration {
    pause.mul_f64(0.75 + jitter.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
mod tests;
