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

/// A queue whose key has been reconciled with this outcome.
fn ended(outcome: Outcome, now: Instant) -> Queue<&'static str> {
    let mut queue = Queue::default();
    queue.add("a", now);
    queue.take(now);
    queue.finish("a", outcome, now, 0.5);
    queue
}

#[test]
fn a_key_that_waits_for_its_own_write_runs_at_its_event() {
    let now = Instant::now();
    let mut queue = ended(Outcome::Behind, now);
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
    let mut queue = ended(Outcome::Settled(Some(second(3600))), now);
    assert_eq!(queue.next_due(), Some(now + second(3600)));
    queue.add("a", now + second(1));
    assert_eq!(queue.next_due(), Some(now + second(1)));
}

/// Wakes a key every 100 ms, and returns the seconds and the last value of its reconciles.
async fn flap(wake: Wake, events: u32) -> Vec<(u64, u32)> {
    let (work, begin) = (PendingWork::default(), Instant::now());
    let mut reconciled = Vec::new();
    let run = |value: u32| {
        let taken = work.with(|queue| queue.take(Instant::now()));
        taken.map(|key| {
            work.with(|queue| queue.finish(key, Outcome::Settled(None), Instant::now(), 0.5));
            (begin.elapsed().as_secs(), value)
        })
    };
    for value in 0..events {
        work.wake("a", wake);
        reconciled.extend(run(value));
        tokio::time::advance(Duration::from_millis(100)).await;
    }
    if let Some(due) = work.with(|queue| queue.next_due()) {
        tokio::time::sleep_until(due).await;
        reconciled.extend(run(events - 1));
    }
    assert_eq!(work.with(|queue| queue.next_due()), None);
    reconciled
}

#[tokio::test(start_paused = true)]
async fn flapping_labels_are_reconciled_once_per_interval() {
    let reconciled = flap(Wake::Labels, 120).await;
    assert_eq!(reconciled, [(0, 0), (5, 50), (10, 100), (15, 119)]);
}

#[tokio::test(start_paused = true)]
async fn flapping_status_costs_a_burst_and_then_one_reconcile_per_interval() {
    let reconciled = flap(Wake::Status, 600).await;
    let (burst, paced) = reconciled.split_at(STATUS_BURST as usize);
    let at_once: Vec<_> = (0..STATUS_BURST)
        .map(|value| (u64::from(value) / 10, value))
        .collect();
    assert_eq!(burst, at_once);
    let later: Vec<_> = (1..12u32)
        .map(|number| (u64::from(number) * 5, number * 50))
        .collect();
    assert_eq!(paced[..11], later);
    assert_eq!(paced[11..], [(60, 599)]);
    // Other events do not wait.
    assert_eq!(flap(Wake::Now, 600).await.len(), 600);
}

#[test]
fn events_of_one_reconcile_use_the_burst_once() {
    let now = Instant::now();
    let mut queue = Queue::default();
    for _ in 0..5 {
        // Events before the reconcile, and of its own writes.
        for _ in 0..100 {
            queue.wake("a", Wake::Status, now);
        }
        assert_eq!(queue.take(now), Some("a"));
        for _ in 0..100 {
            queue.wake("a", Wake::Status, now);
        }
        queue.finish("a", Outcome::Settled(None), now, 0.5);
        assert_eq!(queue.take(now), Some("a"));
        queue.finish("a", Outcome::Settled(None), now, 0.5);
    }
    assert_eq!(queue.next_due(), None);
}

#[test]
fn other_events_are_not_paced() {
    let now = Instant::now();
    let mut queue = Queue::default();
    queue.wake(0, Wake::Labels, now);
    assert_eq!(queue.take(now), Some(0));
    queue.wake(0, Wake::Labels, now);
    queue.finish(0, Outcome::Settled(None), now, 0.5);
    assert_eq!(queue.take(now), None);
    assert_eq!(
        queue.next_due(),
        Some(now + pace::INTERVAL),
        "it was added while it ran"
    );
    queue.add(0, now);
    assert_eq!(queue.take(now), Some(0));
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
