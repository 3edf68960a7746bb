//! The counted Applications of a cluster as cells of a table. Pure.

use std::collections::BTreeMap;

use diagnosis::status::{HealthStatus, SyncStatus, Tally};
use jiff::Timestamp;
use serde::Serialize;

use crate::output::{NOTHING, age, or_nothing, word};

/// How many there are, and how many of them have a condition of ours.
pub(super) fn all(tally: &Tally) -> String {
    match tally.troubled() {
        0 => tally.total().to_string(),
        troubled => format!("{} ({troubled} in trouble)", tally.total()),
    }
}

/// How far the cluster is behind: how many, and for how long.
pub(super) fn lag(tally: &Tally, now: Timestamp) -> String {
    match (tally.behind(), tally.behind_since()) {
        (0, _) => NOTHING.to_owned(),
        (behind, None) => behind.to_string(),
        (behind, Some(since)) => format!("{behind} ({})", age(since, now)),
    }
}

/// All that is not as it should be, in words.
pub(super) fn detail(tally: &Tally) -> String {
    let mut parts = others(tally.sync(), SyncStatus::Synced, "sync");
    parts.extend(others(tally.health(), HealthStatus::Healthy, "health"));
    if tally.troubled() > 0 {
        let troubled = tally.troubled();
        parts.push(format!("{troubled} with a condition of the add-on"));
    }
    or_nothing((!parts.is_empty()).then(|| parts.join(", ")))
}

fn others<K: Copy + PartialEq + Serialize>(
    counts: &BTreeMap<K, u32>,
    good: K,
    kind: &str,
) -> Vec<String> {
    let others = counts.iter().filter(|(status, _)| **status != good);
    let parts = others.map(|(status, count)| match word(status).as_str() {
        "Unknown" => format!("{count} of unknown {kind}"),
        word => format!("{count} {word}"),
    });
    parts.collect()
}
