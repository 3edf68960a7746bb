//! Limits what writes to the objects of one cluster cost the hub over time.
//!
//! A report becomes a write to the hub's API, and so does a condition about it. The API server and all watchers decode the
//! whole object, so the cost is the memory of the decoded object: text of many small values needs up to seventy times its
//! bytes. Each cluster has a reserve of decoded bytes that refills with time. Without a reserve its next write waits, and a
//! newer value replaces the waiting one. The reserve belongs to the cluster, not to the session: a new session does not
//! fill it.
//!
//! Large objects have a slower reserve of their own: while one is decoded, changes of other clusters wait behind it. Small
//! objects of their cluster do not wait for them.
//!
//! The pace of one object has its own limit. Beyond that an idle hub has spare writes. It counts as idle by the requests
//! that run: the slower its API answers, the more of them run, for any cause.

use std::time::Duration;

use protocol::payload::MOST_OBJECT_MEMORY;
use tokio::time::Instant;

use crate::{
    admission::reserve::{ByteReserve, Reserve},
    fleet::ClusterName,
};

/// Objects above this decoded size are written one at a time for each session, so that one cluster occupies one processor
/// of the hub's API at most: that of a status with about 40 resources. They get no spare writes.
pub(crate) const ONE_AT_A_TIME: usize = 64 << 10;

/// The decoded bytes above which an object is large: those of a status with about 150 resources.
const LARGE: usize = 256 << 10;
/// With 2 MiB a second the 99th percentile of honest changes was 57 ms while large objects were written, with this 18 ms.
const LARGE_RATE: u64 = 200 << 10;
/// Enough for 1,000 Applications with 100 resources that all change every three minutes.
const SMALL_RATE: u64 = 1 << 20;
/// The shortest wait: the end of each wait examines all that waits of the cluster.
const SHORTEST: Duration = Duration::from_secs(1);

/// With so many requests to its API the hub is not idle.
const BUSY: usize = 4;
/// The cost of a spare write to the reserve of its cluster, and to that of the hub: twenty a second, and two hundred.
const SPARE_OF_CLUSTER: Duration = Duration::from_millis(50);
const SPARE_OF_HUB: Duration = Duration::from_millis(5);
/// The time in which an empty reserve of spare writes refills.
const SPARE: Duration = Duration::from_secs(1);

/// The reserves of all clusters.
#[derive(Debug)]
pub(crate) struct WriteReserves {
    small: ByteReserve,
    large: ByteReserve,
    spare_of_cluster: Reserve<ClusterName>,
    spare_of_hub: Reserve<()>,
}

impl Default for WriteReserves {
    /// The sizes are for a connect: the statuses of a thousand usual Applications, and those of forty with a thousand resources.
    fn default() -> Self {
        Self {
            small: ByteReserve::new(256 << 20, SMALL_RATE),
            large: ByteReserve::new(64 << 20, LARGE_RATE),
            spare_of_cluster: Reserve::new(SPARE),
            spare_of_hub: Reserve::new(SPARE),
        }
    }
}

impl WriteReserves {
    /// How long the write of an object with this decoded size has to wait; none if it may begin now.
    pub(crate) fn wait(
        &self,
        cluster: &ClusterName,
        memory: usize,
        now: Instant,
    ) -> Option<Duration> {
        let wait = self.reserve(memory).take(cluster, 0, now);
        (!wait.is_zero()).then(|| wait.max(SHORTEST))
    }

    /// Counts the write of an object with this decoded size. Above the limit of the decoder an object is refused, and costs no
    /// more than the largest one.
    pub(crate) fn charge(&self, cluster: &ClusterName, memory: usize, now: Instant) {
        let memory = memory.min(MOST_OBJECT_MEMORY);
        self.reserve(memory).take(cluster, memory, now);
    }

    /// Takes a spare write for an object of this decoded size while so many requests run; false if there is none.
    pub(crate) fn take_spare(
        &self,
        cluster: &ClusterName,
        memory: usize,
        running: usize,
        now: Instant,
    ) -> bool {
        memory <= ONE_AT_A_TIME
            && running < BUSY
            && self.spare_of_cluster.take(cluster, SPARE_OF_CLUSTER, now)
            && self.spare_of_hub.take(&(), SPARE_OF_HUB, now)
    }

    const fn reserve(&self, memory: usize) -> &ByteReserve {
        if memory > LARGE {
            &self.large
        } else {
            &self.small
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(name: &str) -> ClusterName {
        ClusterName::try_from(name).unwrap()
    }

    /// How many objects of this size are written in this time, one after the other.
    fn written(reserves: &WriteReserves, from: &str, memory: usize, time: Duration) -> usize {
        let (from, begin) = (cluster(from), Instant::now());
        let (mut now, mut count) = (begin, 0);
        while now - begin < time {
            if let Some(wait) = reserves.wait(&from, memory, now) {
                now += wait;
                continue;
            }
            reserves.charge(&from, memory, now);
            count += 1;
        }
        count
    }

    #[tokio::test(start_paused = true)]
    async fn objects_are_written_at_the_rate_of_their_memory() {
        let reserves = WriteReserves::default();
        for (memory, reserve, rate) in [
            (30 << 20, 64 << 20, LARGE_RATE),
            (3 << 20, 64 << 20, LARGE_RATE),
            (100 << 10, 256 << 20, SMALL_RATE),
        ] {
            let from = format!("cluster-{memory}");
            let allowed = reserve + 60 * usize::try_from(rate).unwrap();
            let count = written(&reserves, &from, memory, Duration::from_mins(1));
            // The last one may overdraw.
            let range = allowed * 9 / 10..=allowed + memory;
            assert!(
                range.contains(&(count * memory)),
                "{count} of {memory} bytes"
            );
        }
        let now = Instant::now();
        assert_eq!(reserves.wait(&cluster("ab"), 30 << 20, now), None);
    }

    #[tokio::test(start_paused = true)]
    async fn small_objects_do_not_wait_for_large_ones() {
        let (reserves, from, now) = (WriteReserves::default(), cluster("a"), Instant::now());
        while reserves.wait(&from, LARGE + 1, now).is_none() {
            reserves.charge(&from, LARGE + 1, now);
        }
        assert_eq!(reserves.wait(&from, LARGE, now), None);
    }

    #[tokio::test(start_paused = true)]
    async fn spare_writes_end_for_a_busy_cluster_before_they_end_for_others() {
        let (reserves, begin) = (WriteReserves::default(), Instant::now());
        let spare = |name: &str, now| {
            let take = |_: &u32| reserves.take_spare(&cluster(name), 100, 0, now);
            (0..1000).filter(take).count()
        };
        assert_eq!((spare("a", begin), spare("b", begin)), (21, 21));
        let later = begin + Duration::from_secs(1);
        assert_eq!(spare("a", later), 20);
        let all: usize = (0..100)
            .map(|number| spare(&format!("c{number}"), later))
            .sum();
        assert!((170..=201).contains(&all), "{all}");
        assert_eq!(spare("d", later), 0, "the hub has none left");
    }

    #[tokio::test(start_paused = true)]
    async fn busy_hub_and_large_objects_have_no_spare_writes() {
        let (reserves, from, now) = (WriteReserves::default(), cluster("a"), Instant::now());
        assert!(!reserves.take_spare(&from, 100, BUSY, now));
        assert!(!reserves.take_spare(&from, ONE_AT_A_TIME + 1, 0, now));
        assert!(reserves.take_spare(&from, ONE_AT_A_TIME, BUSY - 1, now));
    }

    #[tokio::test(start_paused = true)]
    async fn object_above_the_limit_of_the_decoder_costs_no_more() {
        let (reserves, from, now) = (WriteReserves::default(), cluster("a"), Instant::now());
        reserves.charge(&from, usize::MAX, now);
        assert_eq!(reserves.wait(&from, 30 << 20, now), None);
    }

    #[tokio::test(start_paused = true)]
    async fn statuses_after_a_connect_are_written_at_once() {
        let resource = r#"{"group":"apps","kind":"Deployment","name":"a","namespace":"b","status":"Synced","version":"v1"},"#;
        let status = resource.repeat(12_000 / resource.len());
        let memory = protocol::payload::estimate_of(status.as_bytes());
        let (reserves, from, now) = (WriteReserves::default(), cluster("a"), Instant::now());
        for _ in 0..1000 {
            assert_eq!(reserves.wait(&from, memory, now), None);
            reserves.charge(&from, memory, now);
        }
    }
}
