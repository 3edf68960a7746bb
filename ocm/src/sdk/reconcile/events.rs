//! What people are told of a cluster in Events: why nothing is done, and what has turned.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use tracing::warn;

use super::changes::News;
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
    let said = ("PreDeleteHookGivenUp", note.as_str());
    warn_about(hub, regarding(hub, cluster, Some(addon)), said, now).await;
}

/// Warns in an Event, unless that was said.
pub(super) async fn warn_about<A: Addon>(
    hub: &Hub<A>,
    regarding: ObjectReference,
    (reason, note): (&'static str, &str),
    now: Timestamp,
) {
    let saying = NewEvent {
        regarding,
        warning: true,
        reason,
        note,
    };
    let reporter = hub.addon.name().as_str();
    hub.events
        .say(&hub.client, reporter, saying, now, &hub.metrics)
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
pub(super) async fn tell<A: Addon>(
    hub: &Hub<A>,
    target: Target<'_>,
    news: &[News],
    now: Timestamp,
) {
    let reporter = hub.addon.name().as_str();
    for news in news {
        let saying = NewEvent {
            regarding: regarding(hub, target.name, Some(target.addon)),
            warning: news.warning,
            reason: &news.reason,
            note: &news.note,
        };
        hub.events
            .tell(&hub.client, reporter, saying, now, &hub.metrics)
            .await;
    }
}
