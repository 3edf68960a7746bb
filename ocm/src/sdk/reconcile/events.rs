//! Events of a cluster: why the add-on is not deployed, and changes of its conditions.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use tracing::warn;

use super::changes::ConditionChange;
use crate::{
    api::addon::ManagedClusterAddOn,
    name::ClusterName,
    sdk::{Addon, Target, drive::Hub, event::NewEvent, settled::Waiting},
};

/// Warns that pre-delete hooks timed out; the add-on is removed without them.
pub(super) async fn give_up<A: Addon>(
    hub: &Hub<A>,
    cluster: &ClusterName,
    addon: &ManagedClusterAddOn,
    pending: &str,
    now: Timestamp,
) {
    warn!(%cluster, pending, "pre-delete hooks timed out");
    let note = format!("pre-delete hooks timed out; the add-on is removed without them: {pending}");
    let event = ("PreDeleteHookGivenUp", note.as_str());
    warn_about(hub, regarding(hub, cluster, Some(addon)), event, now).await;
}

/// Writes a warning Event, unless it was written before.
pub(super) async fn warn_about<A: Addon>(
    hub: &Hub<A>,
    regarding: ObjectReference,
    (reason, note): (&'static str, &str),
    now: Timestamp,
) {
    let emitting = NewEvent {
        regarding,
        warning: true,
        reason,
        note,
    };
    let reporter = hub.addon.name().as_str();
    hub.events
        .emit(&hub.client, reporter, emitting, now, &hub.metrics)
        .await;
}

/// Writes an Event if an administrator must act before the works can change.
pub(super) async fn explain<A: Addon>(
    hub: &Hub<A>,
    target: Target<'_>,
    waiting: &Waiting,
    now: Timestamp,
) {
    let Some(reason) = waiting.needs_a_person() else {
        return;
    };
    let note = format!("the removal of the add-on waits: {waiting}");
    let about = regarding(hub, target.name, Some(target.addon));
    warn_about(hub, about, (reason, &note), now).await;
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
    now: Timestamp,
) {
    let reporter = hub.addon.name().as_str();
    for update in updates {
        let emitting = NewEvent {
            regarding: regarding(hub, target.name, Some(target.addon)),
            warning: update.warning,
            reason: &update.reason,
            note: &update.note,
        };
        hub.events
            .notify(&hub.client, reporter, emitting, now, &hub.metrics)
            .await;
    }
}
