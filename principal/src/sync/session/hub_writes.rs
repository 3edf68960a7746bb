//! Limits what the reports of one cluster cost the hub over time.
//!
//! A report becomes a write to the hub's API. The API server and all watchers decode the whole object, so its cost is the
//! memory of the decoded object: text of many small values needs up to seventy times its bytes. Each cluster has a reserve
//! of decoded bytes that refills with time. Without a reserve its next report waits, and a newer report of the same object
//! replaces the waiting one. The reserve belongs to the cluster, not to the session: a new session does not fill it.
//!
//! Large objects have a slower reserve of their own: while one is decoded, changes of other clusters wait behind it. Small
//! objects of their cluster do not wait for them.

use std::time::Duration;

use protocol::payload;
use tokio::time::Instant;

use crate::{admission::admit::Budget, fleet::ClusterName};

/// The decoded bytes above which an object is large: about 130 KB of a usual status.
const LARGE: usize = 1 << 20;
/// The shortest wait: the end of each wait examines all waiting reports of the cluster.
const SHORTEST: Duration = Duration::from_secs(1);

/// The reserves of all clusters.
#[derive(Debug)]
pub(crate) struct HubWrites {
    small: Reserve,
    large: Reserve,
}

impl Default for HubWrites {
    /// The sizes are for a connect: the statuses of a thousand usual Applications, and those of sixty large ones.
    fn default() -> Self {
        Self {
            small: Reserve::new(256 << 20, 16 << 20),
            large: Reserve::new(64 << 20, 2 << 20),
        }
    }
}

impl HubWrites {
    /// How long a report with this body has to wait; none if it may be written now.
    pub(super) fn wait(
        &self,
        cluster: &ClusterName,
        body: &[u8],
        now: Instant,
    ) -> Option<Duration> {
        let reserve = self.reserve(payload::estimate_of(body));
        let wait = reserve.take(cluster, 0, now);
        (!wait.is_zero()).then(|| wait.max(SHORTEST))
    }

    /// Counts the write of a report with this body.
    pub(super) fn charge(&self, cluster: &ClusterName, body: &[u8], now: Instant) {
        let memory = payload::estimate_of(body);
        self.reserve(memory).take(cluster, memory, now);
    }

    const fn reserve(&self, memory: usize) -> &Reserve {
        if memory > LARGE {
            &self.large
        } else {
            &self.small
        }
    }
}

/// One reserve of each cluster, in decoded bytes.
#[derive(Debug)]
struct Reserve {
    /// The bytes that refill in a second.
    rate: u64,
    left: Budget<ClusterName>,
}

impl Reserve {
    fn new(size: u64, rate: u64) -> Self {
        let left = Budget::of(refill(size, rate));
        Self { rate, left }
    }

    /// Takes these bytes, which may overdraw the reserve; returns the time until it is no longer overdrawn.
    fn take(&self, cluster: &ClusterName, bytes: usize, now: Instant) -> Duration {
        let cost = refill(bytes as u64, self.rate);
        self.left.overdraw(cluster, cost, now)
    }
}

fn refill(bytes: u64, rate: u64) -> Duration {
    Duration::from_micros(bytes.saturating_mul(1_000_000) / rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(name: &str) -> ClusterName {
        ClusterName::try_from(name).unwrap()
    }

    /// A list of this many objects, each of which needs 752 bytes and its text.
    fn dense(count: usize) -> Vec<u8> {
        format!("[{}]", vec!["{}"; count].join(",")).into_bytes()
    }

    /// How many reports with this body are written in this time, one after the other.
    fn written(hub_writes: &HubWrites, from: &str, body: &[u8], time: Duration) -> u64 {
        let (from, begin) = (cluster(from), Instant::now());
        let (mut now, mut count) = (begin, 0);
        while now - begin < time {
            if let Some(wait) = hub_writes.wait(&from, body, now) {
                now += wait;
                continue;
            }
            hub_writes.charge(&from, body, now);
            count += 1;
        }
        count
    }

    #[tokio::test(start_paused = true)]
    async fn reports_of_many_values_are_written_at_the_rate_of_their_memory() {
        let minute = Duration::from_mins(1);
        let hub_writes = HubWrites::default();
        for (count, reserve, rate) in [(40_000, 64_u64, 2), (1_000, 256, 16)] {
            let body = dense(count);
            let memory = payload::estimate_of(&body) as u64;
            let allowed = (reserve + 60 * rate) << 20;
            let count = written(&hub_writes, "a", &body, minute);
            // The last one may overdraw.
            assert!((count - 1) * memory <= allowed, "{count} of {memory} bytes");
            assert!(
                (count + 1) * memory >= allowed * 9 / 10,
                "{count} of {memory} bytes"
            );
        }
        let now = Instant::now();
        assert_eq!(hub_writes.wait(&cluster("ab"), &dense(40_000), now), None);
    }

    #[tokio::test(start_paused = true)]
    async fn small_reports_do_not_wait_for_large_ones() {
        let (hub_writes, large) = (HubWrites::default(), dense(40_000));
        let (from, now) = (cluster("a"), Instant::now());
        while hub_writes.wait(&from, &large, now).is_none() {
            hub_writes.charge(&from, &large, now);
        }
        assert_eq!(hub_writes.wait(&from, &dense(100), now), None);
    }

    #[tokio::test(start_paused = true)]
    async fn statuses_after_a_connect_are_written_at_once() {
        let resource = r#"{"group":"apps","kind":"Deployment","name":"a","namespace":"b","status":"Synced","version":"v1"},"#;
        let status = resource.repeat(12_000 / resource.len());
        let (hub_writes, from, now) = (HubWrites::default(), cluster("a"), Instant::now());
        for _ in 0..1000 {
            assert_eq!(hub_writes.wait(&from, status.as_bytes(), now), None);
            hub_writes.charge(&from, status.as_bytes(), now);
        }
    }
}
