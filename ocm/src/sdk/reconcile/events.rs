//! What people are told of a cluster in Events: why nothing is done, and what has turned.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use tracing::warn;

use super::changes::ConditionChange;
use crate::{
    api::addon::ManagedClusterAddOn,
    name::ClusterName,
    sdk::{Addon, Target, drive::Hub, event::NewEvent, settled::Waiting},
};

/// Tells people that hooks were not waited for any longer; the add-on itself is about to go.
pub(super) async fn give_up<A: Addon>(
    hub: &Hub<A>,
    cluster: &ClusterName,
    addon: &ManagedClusterAddOn,
    pending: &str,
    now: Timestamp,
) {
    warn!(%cluster, pending, "pre-delete hooks timed out");
    let note = format!("pre-delete hooks timed out; the add-on is removed without them: {pending}");
    let stated = ("PreDeleteHookGivenUp", note.as_str());
    warn_about(hub, regarding(hub, cluster, Some(addon)), stated, now).await;
}

/// Warns in an Event, unless that was said.
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

/// Says in an Event what a person has to do before works can be made.
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

/// Tells in Events what has turned. Only what was written is told, so a restart repeats nothing.
pub(super) async fn notify<A: Addon>(
    hub: &Hub<A>,
    target: Target<'_>,
    updates: &[ConditionChange],
    now: Timestamp,
) {
    let reporter = hub.addon.name().as_str();
    for updates in updates {
        let emitting = NewEvent {
            regarding: regarding(hub, target.name, Some(target.addon)),
            warning: updates.warning,
            reason: &updates.reason,
            note: &updates.note,
        };
        hub.events
            .notify(&hub.client, reporter, emitting, now, &hub.metrics)
            .await;
    }
}
