//! The registration agent's report about its cluster: that it joined, is available, and its properties.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::Result;
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Node, apimachinery::pkg::api::resource::Quantity};
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams, PostParams},
};
use serde_json::{Value, json};

use super::{Spoke, keep};
use crate::{
    client,
    condition::{self, Condition},
    control::Again,
    kinds::{
        CLUSTER_CLAIM, LEASE, MANAGED_CLUSTER,
        words::{CLOCK_SYNCED, CLUSTER_LEASE},
    },
    tasks::Tasks,
};

/// Label of claims that stay on the spoke.
const SPOKE_ONLY: &str = "open-cluster-management.io/spoke-only";
/// The most claims besides the reserved ones.
const MOST_CUSTOM: usize = 20;
const RESERVED: [&str; 4] = [
    "id.k8s.io",
    "kubeversion.open-cluster-management.io",
    "platform.open-cluster-management.io",
    "product.open-cluster-management.io",
];

/// How often the health of the spoke's own API server is checked.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// The pause before a failed renewal is retried.
const RENEW_AGAIN: Duration = Duration::from_millis(500);

pub(super) fn start(spoke: &Spoke, tasks: &mut Tasks) {
    for cache in [&spoke.on_hub, &spoke.claims] {
        let own = spoke.clone();
        keep(tasks, "cluster status", cache, move || report(own.clone()));
    }
    tasks.spawn(renew(spoke.clone()));
}

async fn report(spoke: Spoke) -> Result<Again> {
    let Some(cluster) = spoke.on_hub.get(MANAGED_CLUSTER, &spoke.cluster) else {
        return Ok(None);
    };
    if !reports(&cluster.data) {
        return Ok(None);
    }
    let observed = observe(&spoke).await;
    condition::write_status(&MANAGED_CLUSTER.all(&spoke.hub), &cluster, |status| {
        let conditions = condition::list(status);
        let joined = Condition::of(
            "ManagedClusterJoined",
            true,
            "ManagedClusterJoined",
            "Managed cluster joined",
        );
        condition::set(conditions, &joined);
        match observed {
            Ok(observed) => {
                let available = Condition::of(
                    "ManagedClusterConditionAvailable",
                    true,
                    "ManagedClusterAvailable",
                    "Managed cluster is available",
                );
                condition::set(conditions, &available);
                observed.write(status);
            }
            Err(error) => {
                let available = Condition::of(
                    "ManagedClusterConditionAvailable",
                    false,
                    "ManagedClusterKubeAPIServerUnavailable",
                    format!("The kube-apiserver is not ok: {error}"),
                );
                condition::set(conditions, &available);
            }
        }
    })
    .await?;
    Ok(Some(LOOK_AGAIN))
}

/// Whether the agent may report: the hub accepts its cluster, and does not find its clock out of sync.
fn reports(cluster: &Value) -> bool {
    cluster["spec"]["hubAcceptsClient"] == true
        && condition::status(cluster, CLOCK_SYNCED) != Some("False")
}

/// The observed state of the spoke for the hub.
struct Observed {
    version: String,
    capacity: BTreeMap<String, Value>,
    allocatable: BTreeMap<String, Value>,
    claims: Vec<Value>,
}

impl Observed {
    fn write(self, status: &mut Value) {
        let Self {
            version,
            capacity,
            allocatable,
            claims,
        } = self;
        status["version"] = json!({ "kubernetes": version });
        for (key, amounts) in [("capacity", capacity), ("allocatable", allocatable)] {
            if !amounts.is_empty() {
                status[key] = json!(amounts);
            }
        }
        if !(claims.is_empty() && status.get("clusterClaims").is_none()) {
            status["clusterClaims"] = json!(claims);
        }
    }
}

async fn observe(spoke: &Spoke) -> Result<Observed> {
    let version = spoke.registration.apiserver_version().await?.git_version;
    let nodes = Api::<Node>::all(spoke.registration.clone())
        .list(&ListParams::default())
        .await?;
    let mut capacity = BTreeMap::new();
    let mut allocatable = BTreeMap::new();
    for status in nodes.items.into_iter().filter_map(|node| node.status) {
        add(&mut capacity, status.capacity.unwrap_or_default());
        add(&mut allocatable, status.allocatable.unwrap_or_default());
    }
    let claims = spoke.claims.list(CLUSTER_CLAIM);
    Ok(Observed {
        version,
        capacity,
        allocatable,
        claims: exposed(&claims),
    })
}

/// The lab has one node per cluster: its quantities are the cluster's.
fn add(sum: &mut BTreeMap<String, Value>, amounts: BTreeMap<String, Quantity>) {
    for (name, amount) in amounts {
        sum.entry(name).or_insert_with(|| json!(amount.0));
    }
}

/// The claims that the hub gets: the well-known ones, and so many others, in the order of their names.
fn exposed(claims: &[Arc<DynamicObject>]) -> Vec<Value> {
    let (reserved, custom): (Vec<_>, Vec<_>) = claims
        .iter()
        .filter(|claim| !claim.labels().contains_key(SPOKE_ONLY))
        .partition(|claim| RESERVED.contains(&claim.name_any().as_str()));
    let custom = custom.into_iter().take(MOST_CUSTOM);
    reserved
        .into_iter()
        .chain(custom)
        .map(claim_entry)
        .collect()
}

fn claim_entry(claim: &Arc<DynamicObject>) -> Value {
    let value = claim.data["spec"]["value"].as_str().unwrap_or_default();
    json!({ "name": claim.name_any(), "value": value })
}

/// Renews the cluster's lease once per lease duration, as long as the hub wants the cluster.
async fn renew(spoke: Spoke) {
    let api = LEASE.within(&spoke.hub, &spoke.cluster);
    loop {
        let cluster = spoke.on_hub.get(MANAGED_CLUSTER, &spoke.cluster);
        let spec = cluster.as_ref().map(|cluster| &cluster.data["spec"]);
        let is_wanted = spec.is_some_and(|spec| spec["hubAcceptsClient"] == true);
        let seconds = spec.and_then(|spec| spec["leaseDurationSeconds"].as_u64());
        let pause = match (is_wanted, seconds) {
            (true, Some(seconds)) if seconds > 0 => Duration::from_secs(seconds),
            (true, _) => Duration::from_mins(1),
            (false, _) => RENEW_AGAIN,
        };
        let renewed = if is_wanted {
            renew_once(&api).await
        } else {
            Ok(())
        };
        if let Err(error) = &renewed {
            tracing::debug!(
                cluster = spoke.cluster,
                error = client::message_of(error),
                "lease"
            );
        }
        tokio::time::sleep(if renewed.is_ok() { pause } else { RENEW_AGAIN }).await;
    }
}

/// By a whole update, as the agent may not patch leases.
async fn renew_once(api: &Api<DynamicObject>) -> Result<()> {
    let mut lease = api.get(CLUSTER_LEASE).await?;
    lease.data["spec"]["renewTime"] = json!(
        Timestamp::now()
            .strftime("%Y-%m-%dT%H:%M:%S.%6fZ")
            .to_string()
    );
    api.replace(CLUSTER_LEASE, &PostParams::default(), &lease)
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(name: &str, labels: &Value) -> Arc<DynamicObject> {
        let object =
            json!({ "metadata": { "name": name, "labels": labels }, "spec": { "value": "v" } });
        Arc::new(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn reserved_claims_come_first_and_others_are_cut() {
        let mut claims: Vec<_> = (0..22)
            .map(|number| claim(&format!("custom-{number:02}"), &json!({})))
            .collect();
        claims.push(claim("hidden", &json!({ (SPOKE_ONLY): "" })));
        claims.push(claim("id.k8s.io", &json!({})));
        let exposed = exposed(&claims);
        let names: Vec<_> = exposed.iter().map(|it| it["name"].as_str()).collect();
        assert_eq!(names.len(), 21);
        assert_eq!(names.first(), Some(&Some("id.k8s.io")));
        assert_eq!(names.last(), Some(&Some("custom-19")));
    }

    #[test]
    fn a_cluster_out_of_sync_reports_nothing() {
        let condition = |status: &str| json!([{ "type": CLOCK_SYNCED, "status": status }]);
        for (accepts, conditions, wanted) in [
            (true, json!([]), true),
            (true, condition("True"), true),
            (true, condition("False"), false),
            (false, condition("True"), false),
        ] {
            let cluster = json!({
                "spec": { "hubAcceptsClient": accepts },
                "status": { "conditions": conditions },
            });
            assert_eq!(reports(&cluster), wanted, "{cluster}");
        }
    }
}
