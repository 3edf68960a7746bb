//! Throttles the writes of one object's reports. Pure.
//!
//! Only the newest value counts. An object that changes all the time would be written again and again, and each write
//! costs the hub's API and all its watchers. So an object has a reserve of writes that refills with time. An object
//! that changes now and then never waits. Without a reserve it is still written while the hub has writes to spare, up to
//! a ceiling. Otherwise it waits for the next refill, and newer values replace the waiting one.

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

/// So many objects of a session without a reserve are a flood, which gets no spare writes.
const FLOOD: usize = 4;
/// The pause before an object without a reserve asks for a spare write again.
const ASK_AGAIN: Duration = Duration::from_millis(100);

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

/// When the reserves of one object are full again.
#[derive(Clone, Copy, Debug, Default)]
struct Full {
    /// The guaranteed one.
    own: Duration,
    /// That of the ceiling, which counts all writes.
    ceiling: Duration,
}

/// The throttle of one session.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// What each object is guaranteed.
    rate: Rate,
    /// What no object exceeds.
    ceiling: Rate,
    /// The reserves that are not full. Bounded by the objects written during the time that a refill takes.
    full: HashMap<ObjectKey, Full>,
    /// The throttled objects. Bounded by the inbox.
    throttled: HashSet<ObjectKey>,
    swept: Duration,
}

impl Pace {
    /// Nothing is written yet. No object gets more than `most` writes a second.
    pub(super) fn new(rate: Rate, most: u32) -> Self {
        Self {
            rate,
            ceiling: (Duration::from_secs(1) / most.max(1), RESERVE),
            ..Self::default()
        }
    }

    /// How long the next write of an object has to wait; none if it begins now, which counts against the reserve.
    ///
    /// Without a reserve, `take_spare` takes a spare write of the hub, if there is one.
    pub(super) fn throttle(
        &mut self,
        key: &ObjectKey,
        now: Duration,
        take_spare: impl FnOnce() -> bool,
    ) -> Option<Duration> {
        self.sweep(now);
        let full = self.full.get(key).copied().unwrap_or_default();
        let own = next(full.own, self.rate).saturating_sub(now);
        let ceiling = next(full.ceiling, self.ceiling).saturating_sub(now);
        let is_spare = !own.is_zero();
        let is_flooded = is_spare && ceiling.is_zero() && self.is_flooded(now);
        if is_spare && (is_flooded || !ceiling.is_zero() || !take_spare()) {
            self.throttled.insert(key.clone());
            let again = if is_flooded {
                // The end of a wait examines the whole report, and a flood has many of them.
                own
            } else if ceiling.is_zero() {
                ASK_AGAIN
            } else {
                ceiling
            };
            return Some(own.min(again));
        }
        let add = |full: Duration, (pause, _): Rate| full.max(now).saturating_add(pause);
        let full = Full {
            own: if is_spare {
                full.own
            } else {
                add(full.own, self.rate)
            },
            ceiling: add(full.ceiling, self.ceiling),
        };
        self.full.insert(key.clone(), full);
        self.throttled.remove(key);
        None
    }

    fn is_flooded(&self, now: Duration) -> bool {
        let mut busy = (self.full.values()).filter(|full| next(full.own, self.rate) > now);
        busy.nth(FLOOD - 1).is_some()
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
            self.full.retain(|_, full| full.own.max(full.ceiling) > now);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use protocol::Kind;

    use super::*;

    const MS: Duration = Duration::from_millis(1);
    /// Twenty writes a second.
    const CEILING: Rate = (Duration::from_millis(50), RESERVE);

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(Kind::Application, "argocd", name)
    }

    /// The times of changes after each of these pauses, and of the writes, when a throttled value is retried in time.
    fn written(pauses: &[u32], spare: bool) -> (Vec<Duration>, Vec<Duration>) {
        let (mut pace, key) = (Pace::new(SHOWN, 20), key("app"));
        let (mut stated, mut written) = (vec![], vec![]);
        let mut waits: Option<Duration> = None;
        let mut now = Duration::ZERO;
        let mut try_at = |pace: &mut Pace, at| match pace.throttle(&key, at, || spare) {
            None => {
                written.push(at);
                None
            }
            Some(after) => Some(at + after),
        };
        for pause in pauses {
            now += *pause * MS;
            while let Some(at) = waits.filter(|at| *at <= now) {
                waits = try_at(&mut pace, at);
            }
            stated.push(now);
            waits = try_at(&mut pace, now);
            assert_eq!(pace.is_throttling(), waits.is_some());
        }
        while let Some(at) = waits {
            waits = try_at(&mut pace, at);
        }
        (stated, written)
    }

    /// Whether each value, or a newer one, was written in time, and never more than a reserve and its refills.
    fn keeps(
        (stated, written): &(Vec<Duration>, Vec<Duration>),
        delay: Duration,
        (pause, size): Rate,
    ) -> bool {
        let in_time = stated.iter().all(|at| {
            let shown = written.iter().find(|it| *it >= at);
            shown.is_some_and(|it| it.saturating_sub(*at) <= delay)
        });
        let within = written.iter().enumerate().all(|(index, begin)| {
            written.iter().skip(index).zip(1_u32..).all(|(end, count)| {
                let refills = end.saturating_sub(*begin).div_duration_f64(pause);
                f64::from(count) <= f64::from(size) + refills + 1e-6
            })
        });
        in_time && within
    }

    proptest! {
        #[test]
        fn throttle_bounds_delay_and_rate(
            pauses in prop::collection::vec(prop_oneof![0_u32..20, 0_u32..2000, Just(20_000)], 1..200),
        ) {
            prop_assert!(keeps(&written(&pauses, false), PAUSE, SHOWN));
            // A guaranteed write may come one before its ceiling.
            let (pause, size) = CEILING;
            prop_assert!(keeps(&written(&pauses, true), pause, (pause, size + 1)));
        }

        #[test]
        fn writes_within_the_rate_are_never_throttled(
            pauses in prop::collection::vec(500_u32..5000, 1..200),
        ) {
            let (stated, written) = written(&pauses, false);
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
        let (stated, at) = written(&few, false);
        assert_eq!(stated, at);
        let one_more = [few, vec![0]].concat();
        let (_, at) = written(&one_more, false);
        assert_eq!(at.last(), Some(&PAUSE));
        let (_, at) = written(&one_more, true);
        assert_eq!(at.last(), Some(&CEILING.0));
    }

    #[test]
    fn ten_changes_a_second_are_written_at_once_while_idle() {
        let changes = [100; 600];
        let (stated, at) = written(&changes, true);
        assert_eq!(stated, at);
        let (_, at) = written(&changes, false);
        assert!((120..=140).contains(&at.len()), "{}", at.len());
    }

    #[test]
    fn flood_over_many_objects_gets_no_spare_writes() {
        let mut pace = Pace::new(SHOWN, 20);
        let keys: Vec<_> = (0..FLOOD).map(|it| key(&format!("app-{it}"))).collect();
        let mut count = |tick: u32| {
            let at = 10 * tick * MS;
            let taken = keys
                .iter()
                .filter(|key| pace.throttle(key, at, || true).is_none());
            taken.count()
        };
        for tick in 0..100 {
            count(tick);
        }
        let more: usize = (100..1100).map(count).sum();
        let guaranteed = 10 * 2 * FLOOD;
        assert!(
            (guaranteed - FLOOD..=guaranteed + FLOOD).contains(&more),
            "{more}"
        );
    }

    #[test]
    fn value_in_a_flood_waits_for_its_own_refill() {
        let mut pace = Pace::new(SHOWN, 20);
        let keys: Vec<_> = (0..FLOOD).map(|it| key(&format!("app-{it}"))).collect();
        let (at, refill) = (MS + CEILING.0, PAUSE.saturating_sub(CEILING.0));
        for (number, key) in keys.iter().enumerate() {
            for _ in 0..RESERVE {
                assert_eq!(pace.throttle(key, MS, || false), None);
            }
            let is_flooded = number + 1 == FLOOD;
            let wait = if is_flooded { refill } else { ASK_AGAIN };
            assert_eq!(pace.throttle(key, at, || false), Some(wait));
        }
        assert_eq!(pace.throttle(&keys[0], at, || true), Some(refill));
    }

    #[test]
    fn throttled_object_delays_no_other_and_is_forgotten() {
        let mut pace = Pace::new(SHOWN, 20);
        for _ in 0..2 * RESERVE {
            pace.throttle(&key("busy"), MS, || false);
        }
        let throttled = pace.throttle(&key("busy"), MS, || false);
        assert!(throttled.is_some() && pace.is_throttling());
        for number in 0..1000 {
            let key = key(&format!("app-{number}"));
            assert_eq!(pace.throttle(&key, MS, || false), None);
        }
        assert!(pace.release(&key("busy")) && !pace.release(&key("busy")));
        assert!(!pace.is_throttling());
        assert_eq!(
            pace.throttle(&key("last"), MS + PAUSE * (RESERVE + 1), || false),
            None
        );
        assert_eq!(pace.full.len(), 1);
    }
}
