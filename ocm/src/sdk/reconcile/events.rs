//! Events of a cluster: why the add-on is not deployed, and changes of its conditions.

use k8s_openapi::api::core::v1::ObjectReference;

use super::changes::ConditionChange;
use crate::{
    api::addon::ManagedClusterAddOn,
    name::ClusterName,
    sdk::{Addon, Target, drive::Hub, event::NewEvent, settled::Waiting},
};

/// Writes an Event if an administrator must act before the works can change.
pub(super) async fn explain<A: Addon>(hub: &Hub<A>, target: Target<'_>, waiting: &Waiting) {
    if let Some(reason) = waiting.needs_a_person() {
        let note = format!("the removal of the add-on waits: {waiting}");
        let about = regarding(hub, target.name, Some(target.addon));
        hub.events.warn(about, reason, &note).await;
    }
}

pub(super) fn regarding<A: Addon>(
    hub: &Hub<A>,
    cluster: &ClusterName,
    addon: Option<&ManagedClusterAddOn>,
) -> ObjectReference {
    ObjectReference {
        api_version: Some(hub.version.api_version()),
        kind: Some("ManagedClusterAddOn".to_owned()),
        namespace: Some(cluster.to_string()),
        name: Some(hub.addon.name().to_string()),
        uid: addon.and_then(|addon| addon.metadata.uid.clone()),
        ..ObjectReference::default()
    }
}

/// Writes an Event for each change of a written condition, so a restart repeats none.
pub(super) async fn notify<A: Addon>(
    hub: &Hub<A>,
    target: Target<'_>,
    updates: &[ConditionChange],
) {
    for update in updates {
        let emitting = NewEvent {
            regarding: regarding(hub, target.name, Some(target.addon)),
            warning: update.warning,
            reason: &update.reason,
            note: &update.note,
        };
        hub.events.notify(emitting).await;
    }
}
