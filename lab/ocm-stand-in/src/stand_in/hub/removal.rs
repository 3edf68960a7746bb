//! Empties the namespace of a deleted ManagedCluster in order: add-ons, then works. Beside that its rights go: those of the
//! registration agent at once, so that nothing renews its lease, and the work agent's with the last work.

use std::sync::Arc;

use anyhow::Result;
use kube::{
    ResourceExt,
    api::{DeleteParams, DynamicObject},
};
use serde_json::json;

use super::{Hub, clusters};
use crate::{
    condition::{self, Condition},
    control::Again,
    kinds::{Kind, MANAGED_CLUSTER, MANAGED_CLUSTER_ADD_ON, MANIFEST_WORK},
    stand_in::times,
};

const PRIORITY: &str = "open-cluster-management.io/cleanup-priority";

/// One step of the removal; the next one follows when the deleted objects are really gone.
pub(super) async fn remove(hub: &Hub, cluster: &DynamicObject) -> Result<Again> {
    let name = cluster.name_any();
    let api = MANAGED_CLUSTER.all(&hub.client);
    let has_no_rights = clusters::revoke(hub, &name, true).await?;
    for kind in [MANAGED_CLUSTER_ADD_ON, MANIFEST_WORK] {
        let remaining = hub.cache.within(kind, &name);
        if remaining.is_empty() {
            continue;
        }
        delete_first(hub, kind, &name, &remaining).await?;
        let pending = remaining
            .iter()
            .filter(|one| !one.finalizers().is_empty())
            .count();
        let message = format!(
            "The resource {} is remaining, the remaining count is {}, the finalizer pending count is {pending}",
            kind.plural,
            remaining.len(),
        );
        condition::write_status(&api, cluster, |status| {
            let wanted = Condition::of("Deleting", false, "ResourceRemaining", message);
            condition::set(condition::list(status), &wanted);
        })
        .await?;
        return Ok(Some(times::REMOVAL));
    }
    if !has_no_rights {
        // The last work went meanwhile; the change of the copies runs the next step.
        return Ok(Some(times::REMOVAL));
    }
    let ours = [clusters::RESOURCES_FINALIZER, clusters::RIGHTS_FINALIZER];
    let kept: Vec<&String> = cluster
        .finalizers()
        .iter()
        .filter(|has| !ours.contains(&has.as_str()))
        .collect();
    if kept.len() < cluster.finalizers().len() {
        let patch = json!({ "metadata": { "finalizers": kept } });
        condition::write_object(&api, cluster, patch).await?;
    }
    Ok(None)
}

/// Deletes those of lowest cleanup priority that are not being deleted yet.
async fn delete_first(
    hub: &Hub,
    kind: Kind,
    namespace: &str,
    objects: &[Arc<DynamicObject>],
) -> Result<()> {
    let priority = |object: &DynamicObject| {
        let text = object.annotations().get(PRIORITY);
        text.and_then(|text| text.parse::<u8>().ok())
            .filter(|p| *p <= 100)
            .unwrap_or(0)
    };
    let first = objects
        .iter()
        .map(|object| priority(object))
        .min()
        .unwrap_or(0);
    let api = kind.within(&hub.client, namespace);
    for object in objects {
        if priority(object) == first && object.metadata.deletion_timestamp.is_none() {
            let deleted = api
                .delete(&object.name_any(), &DeleteParams::default())
                .await;
            condition::tolerate_staleness(deleted)?;
        }
    }
    Ok(())
}
