//! Copies the Unknown state of a lost cluster to its add-ons, and labels a cluster with the state of its add-ons.

use std::collections::BTreeMap;

use anyhow::Result;
use kube::{ResourceExt, api::DynamicObject};
use serde_json::{Value, json};

use super::{Hub, for_each};
use crate::{
    condition::{self, Condition},
    control::Again,
    kinds::{MANAGED_CLUSTER, MANAGED_CLUSTER_ADD_ON},
};

const FEATURE: &str = "feature.open-cluster-management.io/addon-";

pub(super) async fn pass(hub: Hub) -> Result<Again> {
    let clusters = hub.cache.list(MANAGED_CLUSTER);
    for_each(clusters, async |cluster| {
        label(&hub, &cluster).await?;
        copy_unknown(&hub, &cluster).await?;
        Ok(None)
    })
    .await
}

/// An Unknown cluster makes all its add-ons Unknown, for the same reason.
async fn copy_unknown(hub: &Hub, cluster: &DynamicObject) -> Result<()> {
    let Some(lost) = condition::find(&cluster.data, "ManagedClusterConditionAvailable")
        .filter(|available| available["status"] == "Unknown")
    else {
        return Ok(());
    };
    let text = |key: &str| lost[key].as_str().unwrap_or_default().to_owned();
    let wanted = Condition::new("Available", "Unknown", text("reason"), text("message"));
    let name = cluster.name_any();
    let api = MANAGED_CLUSTER_ADD_ON.within(&hub.client, &name);
    for add_on in hub.cache.within(MANAGED_CLUSTER_ADD_ON, &name) {
        condition::write_status(&api, &add_on, |status| {
            condition::set(condition::list(status), &wanted);
        })
        .await?;
    }
    Ok(())
}

/// One label per add-on of the cluster; removes the labels of deleted add-ons.
async fn label(hub: &Hub, cluster: &DynamicObject) -> Result<()> {
    if cluster.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let wanted: BTreeMap<String, &str> = hub
        .cache
        .within(MANAGED_CLUSTER_ADD_ON, &cluster.name_any())
        .iter()
        .map(|add_on| {
            (
                format!("{FEATURE}{}", add_on.name_any()),
                word(&add_on.data),
            )
        })
        .collect();
    let has: BTreeMap<&String, &String> = cluster
        .labels()
        .iter()
        .filter(|(key, _)| key.starts_with(FEATURE))
        .collect();
    let mut change: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    for (key, value) in &wanted {
        if has.get(key).map(|has| has.as_str()) != Some(*value) {
            change.insert(key, Some(value));
        }
    }
    for key in has.keys().filter(|key| !wanted.contains_key(**key)) {
        change.insert(key, None);
    }
    if change.is_empty() {
        return Ok(());
    }
    let patch = json!({ "metadata": { "labels": change } });
    condition::write_object(&MANAGED_CLUSTER.all(&hub.client), cluster, patch).await
}

fn word(add_on: &Value) -> &'static str {
    match condition::status(add_on, "Available") {
        Some("True") => "available",
        Some("False") => "unhealthy",
        Some(_) | None => "unreachable",
    }
}
