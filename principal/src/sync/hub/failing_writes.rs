//! Failing writes to the hub: the back-off, and when to report them.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use protocol::ObjectKey;
use runtime::backoff::Doubling;

use crate::report::Stuck;

const BACKOFF: Doubling = Doubling {
    // Transient errors pass soon.
    min: Duration::from_secs(2),
    // A permanent error, such as a missing permission, costs one request a minute.
    max: Duration::from_mins(1),
};
/// After so many tries, half a minute, an error is not transient.
const REPORT_AFTER: u32 = 5;
/// The longest error text in a report.
const LONGEST_ERROR: usize = 300;

/// The objects whose last write failed, by cluster. Bounded by the objects that its session works on.
#[derive(Debug, Default)]
pub(super) struct FailingWrites {
    // Locked for a lookup, never over an await.
    clusters: Mutex<BTreeMap<String, BTreeMap<ObjectKey, Trouble>>>,
}

#[derive(Debug, Default)]
struct Trouble {
    tries: u32,
    /// The error when it was first reported: the report does not change with every try.
    error: String,
}

impl Trouble {
    const fn is_reported(&self) -> bool {
        self.tries >= REPORT_AFTER
    }
}

impl FailingWrites {
    /// Records a failed write for this cluster; returns the back-off, and whether to report it, which is due once.
    pub(super) fn failed(&self, cluster: &str, key: &ObjectKey, error: &str) -> (Duration, bool) {
        let mut clusters = self.lock();
        let theirs = clusters.entry(cluster.to_owned()).or_default();
        let trouble = theirs.entry(key.clone()).or_default();
        trouble.tries = trouble.tries.saturating_add(1);
        let is_due = trouble.tries == REPORT_AFTER;
        if is_due {
            trouble.error = error.chars().take(LONGEST_ERROR).collect();
        }
        (BACKOFF.after(trouble.tries), is_due)
    }

    /// The write succeeded, or is obsolete.
    pub(super) fn ended(&self, cluster: &str, key: &ObjectKey) {
        let mut clusters = self.lock();
        if let Some(theirs) = clusters.get_mut(cluster) {
            theirs.remove(key);
            if theirs.is_empty() {
                clusters.remove(cluster);
            }
        }
    }

    /// The session of the cluster has ended: its writes are not retried.
    pub(super) fn forget(&self, cluster: &str) {
        self.lock().remove(cluster);
    }

    /// The writes of this cluster that failed for too long. Forgets objects that do not pass `concerns`.
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

    /// The number of writes that failed for too long, over all clusters.
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
    fn failing_write_backs_off_and_is_reported_once() {
        let failing_writes = FailingWrites::default();
        let tries: Vec<(Duration, bool)> = (0..10)
            .map(|_| failing_writes.failed("a", &key("app"), "forbidden"))
            .collect();
        assert_eq!(tries.first(), Some(&(BACKOFF.min, false)));
        assert_eq!(tries.last(), Some(&(BACKOFF.max, false)));
        assert_eq!(tries.iter().filter(|(_, reply)| *reply).count(), 1);
        failing_writes.failed("b", &key("other"), "timeout");
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
    fn write_of_an_unrelated_object_is_not_stuck() {
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
