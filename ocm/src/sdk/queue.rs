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

/// The first back-off after a failure.
const FIRST: Duration = Duration::from_millis(500);
/// The longest back-off.
const LONGEST: Duration = Duration::from_mins(5);

/// The pause of a key that waits until the cache shows its own last write, in case no event wakes it.
const OWN_WRITE_PAUSE: Duration = Duration::from_secs(2);

/// The shortest back-off of a key that keeps failing while events arrive.
const RETRY_ON_EVENT: Duration = Duration::from_secs(5);

/// The shortest time between two reconciles of a key for paced events: a cluster may change its labels and claims at any
/// rate, and each change is a write for this add-on and for other controllers.
const PACE: Duration = Duration::from_secs(5);
/// Above this number of paced keys, those of the past are forgotten.
const PACED: usize = 256;

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
    /// When a paced event of a key was, or will be, due last.
    paced: BTreeMap<K, Instant>,
    /// The number of paced keys at which to forget those of the past.
    paced_limit: usize,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            order: BTreeSet::new(),
            paced: BTreeMap::new(),
            paced_limit: PACED,
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

    /// Makes a key due after an event that the cluster may cause at any rate: now, or [`PACE`] after the last such event was
    /// due. The reconcile reads the state of that time, so the last of several events counts.
    pub(crate) fn add_paced(&mut self, key: K, now: Instant) {
        let due = match self.paced.get(&key) {
            Some(due) if *due > now => *due,
            Some(due) => now.max(*due + PACE),
            None => now,
        };
        if self.paced.len() >= self.paced_limit {
            self.paced.retain(|_, due| *due + PACE > now);
            self.paced_limit = PACED.max(self.paced.len().saturating_mul(2));
        }
        self.paced.insert(key.clone(), due);
        self.add(key, due);
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

impl<K> Default for PendingWork<K> {
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

    /// Adds a key after an event that the cluster may cause at any rate; see [`Queue::add_paced`].
    pub(crate) fn add_paced(&self, key: K) {
        self.with(|queue| queue.add_paced(key, Instant::now()));
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn second(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn a_key_runs_once_however_often_it_is_added() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.add("a", now);
        queue.add("a", now);
        assert_eq!(queue.take(now), Some("a"));
        assert_eq!(queue.take(now), None);
        queue.add("a", now);
        assert_eq!(queue.take(now), None, "it is running");
        queue.finish("a", Outcome::Settled(None), now, 0.5);
        assert_eq!(queue.take(now), Some("a"), "it was added meanwhile");
        queue.finish("a", Outcome::Settled(None), now, 0.5);
        assert_eq!(queue.next_due(), None);
    }

    #[test]
    fn backoff_grows_with_failures_and_events_shorten_it_to_a_minimum() {
        let mut now = Instant::now();
        let mut queue = Queue::default();
        queue.add("a", now);
        let mut pauses = Vec::new();
        for _ in 0..12 {
            assert_eq!(queue.take(now), Some("a"));
            queue.add("a", now);
            queue.finish("a", Outcome::Failed, now, 0.5);
            let due = queue.next_due().unwrap();
            pauses.push(due.duration_since(now));
            now = due;
        }
        // After a first failure the key runs at once for the event, which may have caused the failure.
        let wanted = [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300].map(second);
        assert_eq!(pauses, wanted);
        assert_eq!(queue.take(now), Some("a"));
        queue.finish("a", Outcome::Failed, now, 0.5);
        queue.add("a", now);
        assert_eq!(
            queue.next_due(),
            Some(now + RETRY_ON_EVENT),
            "an event shortens a long pause"
        );
        now += RETRY_ON_EVENT;
        assert_eq!(queue.take(now), Some("a"));
        queue.finish("a", Outcome::Settled(None), now, 0.5);
        queue.add("a", now);
        assert_eq!(queue.next_due(), Some(now));
    }

    #[test]
    fn a_key_that_waits_for_its_own_write_runs_at_its_event() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.add("a", now);
        queue.take(now);
        queue.finish("a", Outcome::Behind, now, 0.5);
        assert_eq!(queue.next_due(), Some(now + OWN_WRITE_PAUSE));
        queue.add("a", now);
        assert_eq!(queue.take(now), Some("a"));
        // The event may arrive before the reconcile ends.
        queue.add("a", now);
        queue.finish("a", Outcome::Behind, now, 0.5);
        assert_eq!(queue.next_due(), Some(now));
    }

    #[test]
    fn an_event_is_due_before_a_recheck() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.add("a", now);
        queue.take(now);
        queue.finish("a", Outcome::Settled(Some(second(3600))), now, 0.5);
        assert_eq!(queue.next_due(), Some(now + second(3600)));
        queue.add("a", now + second(1));
        assert_eq!(queue.next_due(), Some(now + second(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn flapping_labels_are_reconciled_once_per_interval() {
        let (work, begin) = (PendingWork::default(), Instant::now());
        let mut reconciled = Vec::new();
        let run = |value: u32| {
            let taken = work.with(|queue| queue.take(Instant::now()));
            taken.map(|key| {
                work.with(|queue| queue.finish(key, Outcome::Settled(None), Instant::now(), 0.5));
                (begin.elapsed().as_secs(), value)
            })
        };
        for value in 0..120 {
            work.add_paced("a");
            reconciled.extend(run(value));
            tokio::time::advance(Duration::from_millis(100)).await;
        }
        tokio::time::sleep_until(work.with(|queue| queue.next_due()).unwrap()).await;
        reconciled.extend(run(119));
        assert_eq!(reconciled, [(0, 0), (5, 50), (10, 100), (15, 119)]);
        assert_eq!(work.with(|queue| queue.next_due()), None);
    }

    #[test]
    fn other_events_are_not_paced_and_old_keys_are_forgotten() {
        let mut now = Instant::now();
        let mut queue = Queue::default();
        queue.add_paced(0, now);
        assert_eq!(queue.take(now), Some(0));
        queue.add_paced(0, now);
        queue.finish(0, Outcome::Settled(None), now, 0.5);
        assert_eq!(queue.take(now), None);
        assert_eq!(
            queue.next_due(),
            Some(now + PACE),
            "it was added while it ran"
        );
        queue.add(0, now);
        assert_eq!(queue.take(now), Some(0));
        for key in 0..10_000 {
            now += second(1);
            queue.add_paced(key, now);
        }
        assert!(queue.paced.len() <= PACED, "{}", queue.paced.len());
    }

    proptest! {
        #[test]
        fn no_key_runs_twice_at_a_time_and_none_is_lost(
            steps in prop::collection::vec((0u8..4, 0u8..4, any::<bool>()), 0..200)
        ) {
            let mut now = Instant::now();
            let mut queue = Queue::default();
            let mut running = BTreeSet::new();
            let mut dirty = BTreeSet::new();
            for (step, key, fails) in steps {
                match step {
                    0 => {
                        queue.add(key, now);
                        dirty.insert(key);
                    }
                    1 => {
                        if let Some(key) = queue.take(now) {
                            prop_assert!(running.insert(key));
                            dirty.remove(&key);
                        }
                    }
                    2 => {
                        if running.remove(&key) {
                            let settled = Outcome::Settled(None);
                            let outcome = if fails { Outcome::Failed } else { settled };
                            if fails {
                                dirty.insert(key);
                            }
                            queue.finish(key, outcome, now, 0.3);
                        }
                    }
                    _ => now += second(1),
                }
            }
            for key in running {
                queue.finish(key, Outcome::Settled(None), now, 0.0);
            }
            now += second(100_000);
            while let Some(key) = queue.take(now) {
                dirty.remove(&key);
                queue.finish(key, Outcome::Settled(None), now, 0.0);
            }
            prop_assert!(dirty.is_empty(), "{dirty:?}");
        }
    }
}
