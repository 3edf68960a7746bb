//! Writes to the hub that do not come about: when to try again, and when somebody has to know.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use protocol::ObjectKey;

use crate::report::Stuck;

/// Weather passes soon.
const FIRST: Duration = Duration::from_secs(2);
/// What does not pass soon, such as a missing right, costs one request a minute.
const LONGEST: Duration = Duration::from_mins(1);
/// After so many tries, half a minute, it is no weather any more.
const REPORT_AFTER: u32 = 5;
/// What is told of an error.
const LONGEST_ERROR: usize = 300;

/// The objects whose last write failed, by cluster. Bounded by the objects that its session works on.
#[derive(Debug, Default)]
pub(super) struct FailingWrites {
    // Blocked for a lookup, never over an await.
    clusters: Mutex<BTreeMap<String, BTreeMap<ObjectKey, Trouble>>>,
}

#[derive(Debug, Default)]
struct Trouble {
    tries: u32,
    /// As it was when it was told, so that what is told does not change with every try.
    error: String,
}

impl Trouble {
    const fn is_reported(&self) -> bool {
        self.tries >= REPORT_AFTER
    }
}

impl FailingWrites {
    /// A write for this cluster failed: how long to wait, and whether it is time to say so, which is once.
    pub(super) fn failed(&self, cluster: &str, key: &ObjectKey, error: &str) -> (Duration, bool) {
        let mut clusters = self.lock();
        let theirs = clusters.entry(cluster.to_owned()).or_default();
        let trouble = theirs.entry(key.clone()).or_default();
        trouble.tries = trouble.tries.saturating_add(1);
        let is_told_now = trouble.tries == REPORT_AFTER;
        if is_told_now {
            trouble.error = error.chars().take(LONGEST_ERROR).collect();
        }
        let doublings = trouble.tries.saturating_sub(1).min(16);
        let pause = FIRST.saturating_mul(1 << doublings).min(LONGEST);
        (pause, is_told_now)
    }

    /// It was written, or need not be any more.
    pub(super) fn ended(&self, cluster: &str, key: &ObjectKey) {
        let mut clusters = self.lock();
        if let Some(theirs) = clusters.get_mut(cluster) {
            theirs.remove(key);
            if theirs.is_empty() {
                clusters.remove(cluster);
            }
        }
    }

    /// The cluster has no session any more, so nothing is tried for it.
    pub(super) fn forget(&self, cluster: &str) {
        self.lock().remove(cluster);
    }

    /// What has failed for too long, of this cluster; what is nobody's concern any more is forgotten.
    pub(super) fn of(
        &self,
        cluster: &str,
        mut concerns: impl FnMut(&ObjectKey) -> bool,
    ) -> Option<Stuck> {
        let mut clusters = self.lock();
        let theirs = clusters.get_mut(cluster)?;
        theirs.retain(|key, _| concerns(key));
        let mut stuck = theirs.iter().filter(|(_, it)| it.is_reported());
        let (key, first) = stuck.next()?;
        Some(Stuck {
            example: format!("{key}: {}", first.error),
            count: stuck.count().saturating_add(1),
        })
    }

    /// How many have failed for too long, of all clusters.
    pub(super) fn count(&self) -> usize {
        let clusters = self.lock();
        let all = clusters.values().flat_map(BTreeMap::values);
        all.filter(|it| it.is_reported()).count()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, BTreeMap<ObjectKey, Trouble>>> {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use protocol::Kind;

    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(Kind::Application, "a", name)
    }

    #[test]
    fn what_fails_for_long_is_tried_slowly_and_told_once() {
        let failing_writes = FailingWrites::default();
        let tries: Vec<(Duration, bool)> = (0..10)
            .map(|_| failing_writes.failed("a", &key("app"), "forbidden"))
            .collect();
        assert_eq!(tries.first(), Some(&(FIRST, false)));
        assert_eq!(tries.last(), Some(&(LONGEST, false)));
        assert_eq!(tries.iter().filter(|(_, reply)| *reply).count(), 1);
        failing_writes.failed("b", &key("other"), "weather");
        let stuck = failing_writes.of("a", |_| true).unwrap();
        assert_eq!(
            (stuck.count, stuck.example.as_str()),
            (1, "Application/a/app: forbidden")
        );
        assert_eq!(
            (failing_writes.of("b", |_| true), failing_writes.count()),
            (None, 1)
        );
        failing_writes.ended("a", &key("app"));
        assert_eq!(
            (failing_writes.of("a", |_| true), failing_writes.count()),
            (None, 0)
        );
    }

    #[test]
    fn what_is_nobodys_concern_any_more_is_stuck_no_more() {
        let failing_writes = FailingWrites::default();
        for _ in 0..REPORT_AFTER {
            failing_writes.failed("a", &key("deleted"), "forbidden");
        }
        assert_eq!(
            (failing_writes.of("a", |_| false), failing_writes.count()),
            (None, 0)
        );
        failing_writes.failed("a", &key("app"), "forbidden");
        failing_writes.forget("a");
        assert!(failing_writes.lock().is_empty());
    }
}
