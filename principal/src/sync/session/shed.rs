//! Ends the sessions that use the most memory while the program is near its limit.
//!
//! What one cluster may use is bounded without this. It is for many clusters that reach their bounds at the same time:
//! the program stays alive for the others.

use std::{fs, time::Duration};

use runtime::process::resident_kib;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{admission::registry::Registry, fleet::ClusterName};

/// The pause between two looks at the memory.
const EVERY: Duration = Duration::from_secs(1);
/// The allocator returns freed memory within this time; further sessions end only after it.
const RETURN: Duration = Duration::from_secs(10);
/// A session that uses less is not worth its end.
const LEAST: usize = 1 << 20;

/// Ends sessions while the program's resident memory is above `limit` bytes.
pub(crate) async fn keep_within(registry: Registry, limit: u64, stop: CancellationToken) {
    let mut pause = EVERY;
    while stop.run_until_cancelled(sleep(pause)).await.is_some() {
        pause = EVERY;
        let Some(excess) = resident().and_then(|used| used.checked_sub(limit)) else {
            continue;
        };
        let ended = costliest(registry.inbox_bytes(), excess);
        for (cluster, bytes) in &ended {
            let mib = bytes >> 20;
            tracing::warn!(%cluster, mib, limit, "short of memory: ending the session that uses the most");
            registry.shed(cluster, mib);
        }
        if !ended.is_empty() {
            pause = RETURN;
        }
    }
}

/// The sessions to end so that `excess` bytes become free, the costliest first.
fn costliest(mut costs: Vec<(ClusterName, usize)>, excess: u64) -> Vec<(ClusterName, usize)> {
    costs.retain(|(_, bytes)| *bytes >= LEAST);
    costs.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let mut freed = 0_u64;
    costs
        .into_iter()
        .take_while(|(_, bytes)| {
            let is_needed = freed <= excess;
            freed = freed.saturating_add(*bytes as u64);
            is_needed
        })
        .collect()
}

/// The resident memory of this process, in bytes. The kernel makes the file when it is read.
fn resident() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    Some(resident_kib(&status)?.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::name;

    const MIB: usize = 1 << 20;

    fn ended(costs: &[(&str, usize)], excess: usize) -> Vec<String> {
        let costs = costs.iter().map(|(cluster, bytes)| (name(cluster), *bytes));
        costliest(costs.collect(), excess as u64)
            .into_iter()
            .map(|(cluster, _)| cluster.to_string())
            .collect()
    }

    #[test]
    fn costliest_sessions_end_first_and_only_as_many_as_needed() {
        let costs = [("a", 2 * MIB), ("b", 64 * MIB), ("c", 40 * MIB)];
        assert_eq!(ended(&costs, 0), ["b"]);
        assert_eq!(ended(&costs, 50 * MIB), ["b"]);
        assert_eq!(ended(&costs, 64 * MIB), ["b", "c"]);
        assert_eq!(ended(&costs, 1000 * MIB), ["b", "c", "a"]);
    }

    #[test]
    fn small_sessions_do_not_end() {
        assert!(ended(&[("a", MIB - 1), ("b", 0)], 1000 * MIB).is_empty());
        assert!(ended(&[], MIB).is_empty());
    }
}
