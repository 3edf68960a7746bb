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
    kinds::{CLUSTER_CLAIM, LEASE, MANAGED_CLUSTER, words::CLUSTER_LEASE},
    tasks::Tasks,
};

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
    if cluster.data["spec"]["hubAcceptsClient"] != true {
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
        claims: claims.iter().map(claim_entry).collect(),
    })
}

/// The lab has one node per cluster: its quantities are the cluster's.
fn add(sum: &mut BTreeMap<String, Value>, amounts: BTreeMap<String, Quantity>) {
    for (name, amount) in amounts {
        sum.entry(name).or_insert_with(|| json!(amount.0));
    }
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
