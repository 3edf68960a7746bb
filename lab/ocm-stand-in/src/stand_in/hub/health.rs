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

const AVAILABLE: &str = "ManagedClusterConditionAvailable";
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
    let Some(lost) = condition::find(&cluster.data, AVAILABLE)
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

/// One label per add-on of a cluster that has reported; removes the labels of deleted add-ons.
async fn label(hub: &Hub, cluster: &DynamicObject) -> Result<()> {
    if cluster.metadata.deletion_timestamp.is_some()
        || condition::find(&cluster.data, AVAILABLE).is_none()
    {
        return Ok(());
    }
    let add_ons = hub
        .cache
        .within(MANAGED_CLUSTER_ADD_ON, &cluster.name_any());
    let wanted: BTreeMap<String, &str> = add_ons.iter().filter_map(|it| feature(it)).collect();
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

/// The label for an add-on; none once it is being deleted.
fn feature(add_on: &DynamicObject) -> Option<(String, &'static str)> {
    let is_deleting = add_on.metadata.deletion_timestamp.is_some();
    let key = format!("{FEATURE}{}", add_on.name_any());
    (!is_deleting).then(|| (key, word(&add_on.data)))
}

fn word(add_on: &Value) -> &'static str {
    match condition::status(add_on, "Available") {
        Some("True") => "available",
        Some("False") => "unhealthy",
        Some(_) | None => "unreachable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deleted_add_on_has_no_feature_label() {
        let mut add_on: DynamicObject = serde_json::from_value(json!({
            "metadata": { "name": "a" },
            "status": { "conditions": [{ "type": "Available", "status": "True" }] },
        }))
        .unwrap();
        let label = format!("{FEATURE}a");
        assert_eq!(feature(&add_on), Some((label, "available")));
        add_on.metadata.deletion_timestamp =
            serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        assert_eq!(feature(&add_on), None);
    }
}
