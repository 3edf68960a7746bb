//! Marks a cluster as Unknown when it does not renew its lease, or as out of sync when it renews by another clock, and
//! taints clusters that are not Available.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};
use kube::{
    ResourceExt,
    api::{DynamicObject, PostParams},
};
use serde_json::{Value, json};

use super::{Hub, for_each};
use crate::{
    condition::{self, Condition},
    control::Again,
    kinds::{
        LEASE, MANAGED_CLUSTER,
        words::{CLOCK_SYNCED, CLUSTER_LEASE, CLUSTER_NAME},
    },
};

const AVAILABLE: &str = "ManagedClusterConditionAvailable";
const UNAVAILABLE_TAINT: &str = "cluster.open-cluster-management.io/unavailable";
const UNREACHABLE_TAINT: &str = "cluster.open-cluster-management.io/unreachable";
/// A lease expires after this many of its durations.
const TIME_LIMIT: i64 = 5;
const DEFAULT_LEASE_SECONDS: i64 = 60;
/// Annotation of a ManagedCluster whose clock is not compared.
const SKIP_CLOCK: &str = "registration.open-cluster-management.io/skip-clock-sync-check";

/// The time of the last renewal that was seen of each cluster's lease.
#[derive(Debug, Default)]
pub(super) struct Renewals {
    /// Guards the map only; never locked over an await.
    seen: Mutex<HashMap<String, Timestamp>>,
}

impl Renewals {
    /// Whether a lease was renewed since it was seen last. The first sight of it is no renewal.
    fn is_new(&self, cluster: &str, renewed: Timestamp) -> bool {
        let before = self
            .seen
            .lock()
            .expect("no panic under the lock")
            .insert(cluster.to_owned(), renewed);
        before.is_some_and(|before| before != renewed)
    }
}

pub(super) async fn pass(hub: Hub, renewals: Arc<Renewals>) -> Result<Again> {
    let clusters = hub.cache.list(MANAGED_CLUSTER);
    for_each(clusters, async |cluster| {
        taint(&hub, &cluster).await?;
        watch_lease(&hub, &renewals, &cluster).await
    })
    .await
}

async fn watch_lease(hub: &Hub, renewals: &Renewals, cluster: &DynamicObject) -> Result<Again> {
    if condition::find(&cluster.data, "HubAcceptedManagedCluster").is_none() {
        return Ok(None);
    }
    let name = cluster.name_any();
    let Some(lease) = hub.cache.get_within(LEASE, &name, CLUSTER_LEASE) else {
        if cluster.metadata.deletion_timestamp.is_some() {
            mark_unknown(hub, cluster).await?;
        } else {
            create_lease(hub, &name).await?;
        }
        return Ok(None);
    };
    let now = Timestamp::now();
    let left = left(cluster, &lease, now);
    if let Some(renewed) = renewed(&lease)
        && renewals.is_new(&name, renewed)
    {
        mark_clock(hub, cluster, is_synced(cluster, renewed, now)).await?;
    }
    if left.is_none() {
        mark_unknown(hub, cluster).await?;
    }
    // Unknown already: a renewed lease wakes this controller.
    Ok(left)
}

/// After this time without a renewal a cluster is lost.
fn limit(cluster: &DynamicObject) -> SignedDuration {
    let seconds = match cluster.data["spec"]["leaseDurationSeconds"].as_i64() {
        Some(seconds) if seconds > 0 => seconds,
        Some(_) | None => DEFAULT_LEASE_SECONDS,
    };
    SignedDuration::from_secs(TIME_LIMIT * seconds)
}

fn renewed(lease: &DynamicObject) -> Option<Timestamp> {
    lease.data["spec"]["renewTime"].as_str()?.parse().ok()
}

/// How long the lease is still valid; none when it has expired.
fn left(cluster: &DynamicObject, lease: &DynamicObject, now: Timestamp) -> Option<Duration> {
    let ends = renewed(lease)? + limit(cluster);
    Duration::try_from(ends.duration_since(now))
        .ok()
        .filter(|left| !left.is_zero())
}

/// Whether a renewal that has just arrived is neither old nor from the future.
fn is_synced(cluster: &DynamicObject, renewed: Timestamp, now: Timestamp) -> bool {
    let skips = cluster.annotations().get(SKIP_CLOCK);
    skips.is_some_and(|value| value == "true") || now.duration_since(renewed).abs() < limit(cluster)
}

async fn create_lease(hub: &Hub, cluster: &str) -> Result<()> {
    let lease: DynamicObject = serde_json::from_value(json!({
        "apiVersion": LEASE.api_version(),
        "kind": LEASE.name,
        "metadata": { "name": CLUSTER_LEASE, "labels": { CLUSTER_NAME: cluster } },
        "spec": {
            "holderIdentity": CLUSTER_LEASE,
            "renewTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
        },
    }))?;
    let api = LEASE.within(&hub.client, cluster);
    condition::tolerate_staleness(api.create(&PostParams::default(), &lease).await)
}

/// Reports whether the clocks agree. The registration agent writes no status while they do not.
async fn mark_clock(hub: &Hub, cluster: &DynamicObject, is_synced: bool) -> Result<()> {
    let (reason, message) = if is_synced {
        (
            "ManagedClusterClockSynced",
            "The clock of the managed cluster is synced with the hub.",
        )
    } else {
        (
            "ManagedClusterClockOutOfSync",
            "The clock of hub and agent is out of sync. This may cause the Unknown status and affect agent functionalities.",
        )
    };
    condition::write_status(&MANAGED_CLUSTER.all(&hub.client), cluster, |status| {
        let wanted = Condition::of(CLOCK_SYNCED, is_synced, reason, message);
        condition::set(condition::list(status), &wanted);
    })
    .await
}

async fn mark_unknown(hub: &Hub, cluster: &DynamicObject) -> Result<()> {
    if condition::status(&cluster.data, AVAILABLE) == Some("Unknown") {
        return Ok(());
    }
    condition::write_status(&MANAGED_CLUSTER.all(&hub.client), cluster, |status| {
        let wanted = Condition::new(
            AVAILABLE,
            "Unknown",
            "ManagedClusterLeaseUpdateStopped",
            "Registration agent stopped updating its lease.",
        );
        condition::set(condition::list(status), &wanted);
    })
    .await
}

async fn taint(hub: &Hub, cluster: &DynamicObject) -> Result<()> {
    let before = cluster.data["spec"]["taints"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let Some(after) = tainted(&before, condition::status(&cluster.data, AVAILABLE)) else {
        return Ok(());
    };
    // Leave no empty list: a cluster that never had a taint looks the same.
    let patch = json!({ "spec": { "taints": (!after.is_empty()).then_some(after) } });
    condition::write_object(&MANAGED_CLUSTER.all(&hub.client), cluster, patch).await
}

/// The taints for an availability; none if they are right already.
fn tainted(before: &[Value], available: Option<&str>) -> Option<Vec<Value>> {
    let wanted = match available {
        Some("True") => None,
        Some("False") => Some(UNAVAILABLE_TAINT),
        Some(_) | None => Some(UNREACHABLE_TAINT),
    };
    let is_ours =
        |taint: &Value| taint["key"] == UNAVAILABLE_TAINT || taint["key"] == UNREACHABLE_TAINT;
    let has: Vec<&Value> = before.iter().filter(|taint| is_ours(taint)).collect();
    let is_right = match (has.as_slice(), wanted) {
        ([], None) => true,
        ([one], Some(wanted)) => one["key"] == wanted,
        _ => false,
    };
    if is_right {
        return None;
    }
    let mut after: Vec<Value> = before
        .iter()
        .filter(|taint| !is_ours(taint))
        .cloned()
        .collect();
    after.extend(wanted.map(|key| json!({ "key": key, "effect": "NoSelect" })));
    Some(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_lease_is_valid_for_five_of_its_durations() {
        let cluster = object(json!({ "metadata": {}, "spec": { "leaseDurationSeconds": 2 } }));
        let lease = object(
            json!({ "metadata": {}, "spec": { "renewTime": "2026-01-01T00:00:00.000000Z" } }),
        );
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert_eq!(
            left(&cluster, &lease, at("2026-01-01T00:00:09Z")),
            Some(Duration::from_secs(1))
        );
        assert_eq!(left(&cluster, &lease, at("2026-01-01T00:00:10Z")), None);
    }

    #[test]
    fn clocks_disagree_when_a_renewal_is_old_or_from_the_future() {
        let mut cluster = object(json!({
            "metadata": { "name": "c" }, "spec": { "leaseDurationSeconds": 2 },
        }));
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        for (renewed, wanted) in [
            ("2026-01-01T00:00:50Z", false),
            ("2026-01-01T00:00:51Z", true),
            ("2026-01-01T00:01:09Z", true),
            ("2026-01-01T00:01:10Z", false),
        ] {
            let at = renewed.parse().unwrap();
            assert_eq!(is_synced(&cluster, at, now), wanted, "{renewed}");
        }
        let skip = [(SKIP_CLOCK.to_owned(), "true".to_owned())];
        cluster.metadata.annotations = Some(skip.into());
        assert!(is_synced(&cluster, Timestamp::UNIX_EPOCH, now));
    }

    #[test]
    fn only_a_change_of_the_time_is_a_renewal() {
        let renewals = Renewals::default();
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let (first, second) = (at("2026-01-01T00:00:00Z"), at("2026-01-01T00:00:10Z"));
        assert!(!renewals.is_new("c", first), "it may be old");
        assert!(!renewals.is_new("c", first));
        assert!(renewals.is_new("c", second));
        assert!(!renewals.is_new("other", second));
    }

    #[test]
    fn taints_follow_availability_and_foreign_taints_stay() {
        let foreign = json!({ "key": "mine", "effect": "NoSelect" });
        let lost = tainted(std::slice::from_ref(&foreign), Some("Unknown")).unwrap();
        assert_eq!(lost.len(), 2);
        assert_eq!(lost[1]["key"], UNREACHABLE_TAINT);
        assert_eq!(tainted(&lost, Some("Unknown")), None);
        let broken = tainted(&lost, Some("False")).unwrap();
        assert_eq!(broken[1]["key"], UNAVAILABLE_TAINT);
        assert_eq!(tainted(&broken, Some("True")), Some(vec![foreign]));
    }
}
