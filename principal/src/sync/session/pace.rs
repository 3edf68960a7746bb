//! Throttles the writes of one object's reports. Pure.
//!
//! Only the newest value counts. An object that changes all the time would be written again and again, and each write
//! costs the hub's API and all its watchers. So an object has a reserve of writes that refills with time. An object
//! that changes now and then never waits. Without a reserve it waits for the next refill, and newer values replace the
//! waiting one.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use protocol::ObjectKey;

/// The refill interval. Slower changes are never throttled, and after a flood the shown value is no older than this.
pub(super) const PAUSE: Duration = Duration::from_millis(500);
/// The size of the reserve: a sync of an idle Application does not use it up.
const RESERVE: u32 = 10;

/// The refill interval of a reserve, and its size.
type Rate = (Duration, u32);

/// For objects that are only shown.
pub(super) const SHOWN: Rate = (PAUSE, RESERVE);
/// For objects whose next report a user waits for. The cluster decides which report is the answer, so it has a limit, too.
pub(super) const AWAITED: Rate = (Duration::from_millis(100), 20);

/// When a reserve that is full at `full` has one write again.
fn next(full: Duration, (pause, size): Rate) -> Duration {
    full.saturating_sub(pause.saturating_mul(size.saturating_sub(1)))
}

/// A value of which only the newest counts, with a reserve of its own.
#[derive(Debug)]
pub(super) struct Newest<T> {
    /// When the reserve is full again.
    full: Duration,
    waiting: Option<T>,
}

impl<T> Default for Newest<T> {
    fn default() -> Self {
        Self {
            full: Duration::ZERO,
            waiting: None,
        }
    }
}

impl<T> Newest<T> {
    const RATE: Rate = (Duration::from_secs(1), 5);

    /// Replaces the waiting value; [`Self::take_due`] returns it when its turn has come.
    pub(super) fn set(&mut self, value: T) {
        self.waiting = Some(value);
    }

    /// The waiting value, if it is due.
    pub(super) fn take_due(&mut self, now: Duration) -> Option<T> {
        let next = next(self.full, Self::RATE);
        let value = self.waiting.take_if(|_| next <= now)?;
        self.full = self.full.max(now).saturating_add(Self::RATE.0);
        Some(value)
    }

    /// The time until the waiting value is due.
    pub(super) fn next_timeout(&self, now: Duration) -> Option<Duration> {
        let waiting = self.waiting.as_ref();
        waiting.map(|_| next(self.full, Self::RATE).saturating_sub(now))
    }
}

/// The throttle of one session.
#[derive(Debug, Default)]
pub(super) struct Pace {
    rate: Rate,
    /// When the reserve of an object is full again. Bounded by the objects written during that time.
    full: HashMap<ObjectKey, Duration>,
    /// The throttled objects. Bounded by the inbox.
    throttled: HashSet<ObjectKey>,
    swept: Duration,
}

impl Pace {
    /// Nothing is written yet.
    pub(super) fn new(rate: Rate) -> Self {
        Self {
            rate,
            ..Self::default()
        }
    }

    /// How long the next write of an object has to wait; none if it begins now, which counts against the reserve.
    pub(super) fn throttle(&mut self, key: &ObjectKey, now: Duration) -> Option<Duration> {
        self.sweep(now);
        let full = self.full.get(key).copied().unwrap_or_default();
        let next = next(full, self.rate);
        if now < next {
            self.throttled.insert(key.clone());
            return Some(next.saturating_sub(now));
        }
        let full = full.max(now).saturating_add(self.rate.0);
        self.full.insert(key.clone(), full);
        self.throttled.remove(key);
        None
    }

    /// Marks the object as throttled, for another reason than its own reserve.
    pub(super) fn hold(&mut self, key: &ObjectKey) {
        self.throttled.insert(key.clone());
    }

    /// Stops throttling the object; returns whether it was throttled.
    pub(super) fn release(&mut self, key: &ObjectKey) -> bool {
        self.throttled.remove(key)
    }

    /// Whether any object is throttled.
    pub(super) fn is_throttling(&self) -> bool {
        !self.throttled.is_empty()
    }

    /// Forgets objects with a full reserve.
    fn sweep(&mut self, now: Duration) {
        if now.saturating_sub(self.swept) >= self.rate.0 {
            self.swept = now;
            self.full.retain(|_, full| *full > now);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use protocol::Kind;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(Kind::Application, "argocd", name)
    }

    /// The times of changes after each of these pauses, and of the writes, when a throttled value is retried in time.
    fn written(pauses: &[u32]) -> (Vec<Duration>, Vec<Duration>) {
        let (mut pace, key) = (Pace::new(SHOWN), key("app"));
        let (mut stated, mut written) = (vec![], vec![]);
        let mut waits: Option<Duration> = None;
        let mut now = Duration::ZERO;
        let mut try_at = |pace: &mut Pace, at| match pace.throttle(&key, at) {
            None => {
                written.push(at);
                None
            }
            Some(after) => Some(at + after),
        };
        for pause in pauses {
            now += *pause * MS;
            if let Some(at) = waits.filter(|at| *at <= now) {
                waits = try_at(&mut pace, at);
                assert_eq!(waits, None, "throttled for longer than announced");
            }
            stated.push(now);
            waits = try_at(&mut pace, now);
            assert_eq!(pace.is_throttling(), waits.is_some());
        }
        if let Some(at) = waits {
            assert_eq!(try_at(&mut pace, at), None);
        }
        (stated, written)
    }

    proptest! {
        #[test]
        fn throttle_bounds_delay_and_rate(
            pauses in prop::collection::vec(prop_oneof![0_u32..20, 0_u32..2000, Just(20_000)], 1..200),
        ) {
            let (stated, written) = written(&pauses);
            for at in &stated {
                // This value or a newer one.
                let shown = written.iter().find(|it| *it >= at);
                prop_assert!(shown.is_some_and(|it| it.saturating_sub(*at) <= PAUSE), "{:?}", at);
            }
            for (index, begin) in written.iter().enumerate() {
                for (more, end) in written.iter().skip(index).enumerate() {
                    let most = f64::from(RESERVE) + end.saturating_sub(*begin).div_duration_f64(PAUSE);
                    prop_assert!(f64::from(u32::try_from(more + 1).unwrap()) <= most + 1e-6);
                }
            }
        }

        #[test]
        fn writes_within_the_rate_are_never_throttled(
            pauses in prop::collection::vec(500_u32..5000, 1..200),
        ) {
            let (stated, written) = written(&pauses);
            prop_assert_eq!(stated, written);
        }
    }

    #[test]
    fn newest_value_of_a_flood_is_taken_once_a_second() {
        let mut newest = Newest::default();
        let mut taken = vec![];
        for number in 0..10_000_u32 {
            newest.set(number);
            taken.extend(newest.take_due(number * MS));
        }
        assert_eq!(
            taken.iter().take(5).collect::<Vec<_>>(),
            [&0, &1, &2, &3, &4]
        );
        assert!((14..=16).contains(&taken.len()), "{taken:?}");
        let end = 9_999 * MS;
        let due = end + newest.next_timeout(end).unwrap();
        assert_eq!(newest.take_due(due), Some(9_999));
        assert_eq!(newest.next_timeout(due), None);
    }

    #[test]
    fn after_a_rest_a_few_changes_are_written_at_once() {
        let few = vec![0; usize::try_from(RESERVE).unwrap()];
        let (stated, at) = written(&few);
        assert_eq!(stated, at);
        let (_, at) = written(&[few, vec![0]].concat());
        assert_eq!(at.last(), Some(&PAUSE));
    }

    #[test]
    fn throttled_object_delays_no_other_and_is_forgotten() {
        let mut pace = Pace::new(SHOWN);
        for _ in 0..2 * RESERVE {
            pace.throttle(&key("busy"), MS);
        }
        assert!(pace.throttle(&key("busy"), MS).is_some() && pace.is_throttling());
        for number in 0..1000 {
            assert_eq!(pace.throttle(&key(&format!("app-{number}")), MS), None);
        }
        assert!(pace.release(&key("busy")) && !pace.release(&key("busy")));
        assert!(!pace.is_throttling());
        assert_eq!(
            pace.throttle(&key("last"), MS + PAUSE * (RESERVE + 1)),
            None
        );
        assert_eq!(pace.full.len(), 1);
    }
}
