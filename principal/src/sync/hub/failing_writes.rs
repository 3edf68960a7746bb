//! The outcome of an event of a cluster, and failing writes to the hub: the back-off, and when to report them.

use std::{collections::BTreeMap, time::Duration};

use parking_lot::Mutex;
use protocol::{ObjectKey, payload::Undecodable};
use runtime::{backoff::Doubling, error::Chain};

use crate::{domain::ClusterName, metrics::Metrics, report::Stuck, store::WriteError};

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

/// The pause before an event that has to wait for something else is retried; a newer value comes sooner.
const RETRY: Duration = Duration::from_secs(2);

/// The outcome of applying an event.
pub(super) type Outcome = Result<(), Unapplied>;

/// Why an event is not applied.
#[derive(Debug)]
pub(super) enum Unapplied {
    /// Retried after a pause; a newer value replaces this one.
    Retry(Duration),
    Refused {
        /// A word for the metrics.
        reason: &'static str,
        message: String,
    },
}

impl Unapplied {
    /// Retried when something else has happened.
    pub(super) const fn again() -> Self {
        Self::Retry(RETRY)
    }

    pub(super) fn refused(reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self::Refused { reason, message }
    }
}

impl From<Undecodable> for Unapplied {
    fn from(error: Undecodable) -> Self {
        Self::refused("malformed", Chain(&error).to_string())
    }
}

/// The objects whose last write failed, by cluster. Bounded by the objects that its session works on.
#[derive(Debug)]
pub(super) struct FailingWrites {
    // Locked for a lookup, never over an await.
    clusters: Mutex<BTreeMap<ClusterName, BTreeMap<ObjectKey, Trouble>>>,
    metrics: Metrics,
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
    pub(super) fn new(metrics: Metrics) -> Self {
        Self {
            clusters: Mutex::default(),
            metrics,
        }
    }

    /// The outcome of an event whose writes ended with `written`.
    pub(super) fn outcome<T>(
        &self,
        cluster: &ClusterName,
        key: &ObjectKey,
        written: Result<T, WriteError>,
    ) -> Outcome {
        let outcome = match written {
            Ok(_) => {
                self.ended(cluster, key);
                Ok(())
            }
            Err(WriteError::Refused(reason)) => {
                tracing::warn!(object = %key, reason, "the hub rejected the report of a cluster");
                self.ended(cluster, key);
                Err(Unapplied::refused("hub", reason))
            }
            Err(error) => {
                let error = Chain(&error).to_string();
                let (after, is_reported) = self.failed(cluster, key, &error);
                if is_reported {
                    tracing::warn!(object = %key, error, "hub write still failing; retrying");
                } else {
                    tracing::debug!(object = %key, error, "hub write failed; retrying");
                }
                Err(Unapplied::Retry(after))
            }
        };
        self.metrics.hub_writes_stuck(self.count());
        outcome
    }

    /// Records a failed write for this cluster; returns the back-off, and whether to report it, which is due once.
    fn failed(&self, cluster: &ClusterName, key: &ObjectKey, error: &str) -> (Duration, bool) {
        let mut clusters = self.clusters.lock();
        let theirs = clusters.entry(cluster.clone()).or_default();
        let trouble = theirs.entry(key.clone()).or_default();
        trouble.tries = trouble.tries.saturating_add(1);
        let is_due = trouble.tries == REPORT_AFTER;
        if is_due {
            trouble.error = error.chars().take(LONGEST_ERROR).collect();
        }
        (BACKOFF.after(trouble.tries), is_due)
    }

    /// The write succeeded, or is obsolete.
    fn ended(&self, cluster: &ClusterName, key: &ObjectKey) {
        let mut clusters = self.clusters.lock();
        if let Some(theirs) = clusters.get_mut(cluster) {
            theirs.remove(key);
        }
    }

    /// The session of the cluster has ended: its writes are not retried.
    pub(super) fn forget(&self, cluster: &ClusterName) {
        self.clusters.lock().remove(cluster);
        self.metrics.hub_writes_stuck(self.count());
    }

    /// The writes of this cluster that failed for too long. Forgets objects that do not pass `concerns`.
    pub(super) fn of(
        &self,
        cluster: &ClusterName,
        mut concerns: impl FnMut(&ObjectKey) -> bool,
    ) -> Option<Stuck> {
        let mut clusters = self.clusters.lock();
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
    fn count(&self) -> usize {
        let clusters = self.clusters.lock();
        let all = clusters.values().flat_map(BTreeMap::values);
        all.filter(|it| it.is_reported()).count()
    }
}

#[cfg(test)]
mod tests {
    use protocol::Kind;

    use super::*;
    use crate::testing::name;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(Kind::Application, "a", name)
    }

    #[test]
    fn failing_write_backs_off_and_is_reported_once() {
        let failing_writes = FailingWrites::new(Metrics::default());
        let tries: Vec<(Duration, bool)> = (0..10)
            .map(|_| failing_writes.failed(&name("a"), &key("app"), "forbidden"))
            .collect();
        assert_eq!(tries.first(), Some(&(BACKOFF.min, false)));
        assert_eq!(tries.last(), Some(&(BACKOFF.max, false)));
        assert_eq!(tries.iter().filter(|(_, reply)| *reply).count(), 1);
        failing_writes.failed(&name("b"), &key("other"), "timeout");
        let stuck = failing_writes.of(&name("a"), |_| true).unwrap();
        assert_eq!(
            (stuck.count, stuck.example.as_str()),
            (1, "Application/a/app: forbidden")
        );
        assert_eq!(
            (
                failing_writes.of(&name("b"), |_| true),
                failing_writes.count()
            ),
            (None, 1)
        );
        failing_writes.ended(&name("a"), &key("app"));
        assert_eq!(
            (
                failing_writes.of(&name("a"), |_| true),
                failing_writes.count()
            ),
            (None, 0)
        );
    }

    #[test]
    fn write_of_an_unrelated_object_is_not_stuck() {
        let failing_writes = FailingWrites::new(Metrics::default());
        for _ in 0..REPORT_AFTER {
            failing_writes.failed(&name("a"), &key("deleted"), "forbidden");
        }
        assert_eq!(
            (
                failing_writes.of(&name("a"), |_| false),
                failing_writes.count()
            ),
            (None, 0)
        );
        failing_writes.failed(&name("a"), &key("app"), "forbidden");
        failing_writes.forget(&name("a"));
        assert!(failing_writes.clusters.lock().is_empty());
    }
}
