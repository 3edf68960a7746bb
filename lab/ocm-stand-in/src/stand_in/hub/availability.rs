//! Marks a cluster as Unknown when it does not renew its lease, and taints clusters that are not Available.

use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
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
        words::{CLUSTER_LEASE, CLUSTER_NAME},
    },
};

const AVAILABLE: &str = "ManagedClusterConditionAvailable";
const UNAVAILABLE_TAINT: &str = "cluster.open-cluster-management.io/unavailable";
const UNREACHABLE_TAINT: &str = "cluster.open-cluster-management.io/unreachable";
/// A lease expires after this many of its durations.
const TIME_LIMIT: i64 = 5;
const DEFAULT_LEASE_SECONDS: i64 = 60;

pub(super) async fn pass(hub: Hub) -> Result<Again> {
    let clusters = hub.cache.list(MANAGED_CLUSTER);
    for_each(clusters, async |cluster| {
        taint(&hub, &cluster).await?;
        watch_lease(&hub, &cluster).await
    })
    .await
}

async fn watch_lease(hub: &Hub, cluster: &DynamicObject) -> Result<Again> {
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
    let left = left(cluster, &lease, Timestamp::now());
    if left.is_none() {
        mark_unknown(hub, cluster).await?;
    } else {
        mark_clock(hub, cluster).await?;
    }
    // Unknown already: a renewed lease wakes this controller.
    Ok(left)
}

/// How long the lease is still valid; none when it has expired.
fn left(cluster: &DynamicObject, lease: &DynamicObject, now: Timestamp) -> Option<Duration> {
    let seconds = match cluster.data["spec"]["leaseDurationSeconds"].as_i64() {
        Some(seconds) if seconds > 0 => seconds,
        Some(_) | None => DEFAULT_LEASE_SECONDS,
    };
    let renewed: Timestamp = lease.data["spec"]["renewTime"].as_str()?.parse().ok()?;
    let ends = renewed + jiff::SignedDuration::from_secs(TIME_LIMIT * seconds);
    Duration::try_from(ends.duration_since(now))
        .ok()
        .filter(|left| !left.is_zero())
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

/// A lease that is neither old nor from the future shows that the clocks agree.
async fn mark_clock(hub: &Hub, cluster: &DynamicObject) -> Result<()> {
    condition::write_status(&MANAGED_CLUSTER.all(&hub.client), cluster, |status| {
        let wanted = Condition::of(
            "ManagedClusterConditionClockSynced",
            true,
            "ManagedClusterClockSynced",
            "The clock of the managed cluster is synced with the hub.",
        );
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
