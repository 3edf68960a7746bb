//! How often what a cluster says of one object is written. Pure.
//!
//! The newest value is all that counts. Of an object that changes all the time most values would be written only to be
//! written over, and each of them costs the hub's API, and everybody who watches it, as much as one that counts. So an
//! object has some writes in reserve, which come back with time. Whoever says something now and then never waits. Who
//! has used them up waits for the next one, and whatever comes meanwhile takes the place of what waits.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use protocol::ObjectKey;

/// A write comes back so often. What changes no faster is never held up, and after a flood what is shown is no older.
pub(super) const PAUSE: Duration = Duration::from_millis(500);
/// So many are in reserve: a sync of an Application that has rested does not use them up.
const RESERVE: u32 = 10;

/// When an object's next write may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Now; by then all that is in reserve will be back.
    Now { full: Duration },
    /// At that time.
    At(Duration),
}

/// Whether a write may begin `now` of an object whose reserve is full at `full`.
fn turn(full: Duration, now: Duration) -> Turn {
    let at = full.saturating_sub(PAUSE.saturating_mul(RESERVE - 1));
    if now < at {
        return Turn::At(at);
    }
    Turn::Now {
        full: full.max(now).saturating_add(PAUSE),
    }
}

/// What one session writes, and how often.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// When the reserve of an object is full again. Bounded by what was written since that takes.
    full: HashMap<ObjectKey, Duration>,
    /// What waits for its time. Bounded by the inbox.
    retained: HashSet<ObjectKey>,
    swept: Duration,
}

impl Pace {
    /// How long the next write of an object has to wait; none if it begins now, which is noted.
    pub(super) fn hold(&mut self, key: &ObjectKey, now: Duration) -> Option<Duration> {
        self.sweep(now);
        match turn(self.full.get(key).copied().unwrap_or_default(), now) {
            Turn::Now { full } => {
                self.full.insert(key.clone(), full);
                self.retained.remove(key);
                None
            }
            Turn::At(at) => {
                self.retained.insert(key.clone());
                Some(at.saturating_sub(now))
            }
        }
    }

    /// It waits no more; whether it did.
    pub(super) fn release(&mut self, key: &ObjectKey) -> bool {
        self.retained.remove(key)
    }

    /// Whether anything waits.
    pub(super) fn is_holding(&self) -> bool {
        !self.retained.is_empty()
    }

    /// Forgets those whose reserve is full.
    fn sweep(&mut self, now: Duration) {
        if now.saturating_sub(self.swept) >= PAUSE {
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

    /// When an object is written that is said to change after each of these pauses, and whose newest value is tried
    /// again when it may be.
    fn written(pauses: &[u32]) -> (Vec<Duration>, Vec<Duration>) {
        let (mut pace, key) = (Pace::default(), key("app"));
        let (mut stated, mut written) = (vec![], vec![]);
        let mut waits: Option<Duration> = None;
        let mut now = Duration::ZERO;
        let mut try_at = |pace: &mut Pace, at| match pace.hold(&key, at) {
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
                assert_eq!(waits, None, "held for longer than it was told");
            }
            stated.push(now);
            waits = try_at(&mut pace, now);
            assert_eq!(pace.is_holding(), waits.is_some());
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
        fn what_changes_no_faster_than_its_share_never_waits(
            pauses in prop::collection::vec(500_u32..5000, 1..200),
        ) {
            let (stated, written) = written(&pauses);
            prop_assert_eq!(stated, written);
        }
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
    fn one_object_holds_up_no_other_and_none_is_remembered_for_long() {
        let mut pace = Pace::default();
        for _ in 0..2 * RESERVE {
            pace.hold(&key("busy"), MS);
        }
        assert!(pace.hold(&key("busy"), MS).is_some() && pace.is_holding());
        for number in 0..1000 {
            assert_eq!(pace.hold(&key(&format!("app-{number}")), MS), None);
        }
        assert!(pace.release(&key("busy")) && !pace.release(&key("busy")));
        assert!(!pace.is_holding());
        assert_eq!(pace.hold(&key("last"), MS + PAUSE * (RESERVE + 1)), None);
        assert_eq!(pace.full.len(), 1);
    }
}
