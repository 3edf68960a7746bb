//! Messages that cause work: writes to the hub's API, messages back, and memory for lists.

use anyhow::{Context as _, Result};
use protocol::{
    Event, Kind, Mode, ObjectKey, Verb,
    payload::{ErrorReport, RequestUpdate, SpokeInfo, SyncedResourceList},
    wire::cloudevents::CloudEvent,
};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::Observed;
use crate::{
    bench::{
        applications,
        hostile::attacker::{Attacker, MARK, about, raw, report},
    },
    raw_client::Stream,
};

/// The number of mirrors for which the principal answers each resync request.
const MIRRORS: u64 = 100;

fn mirror(name: &str, version: u64) -> CloudEvent {
    raw(mirror_with(name, version, "[]"))
}

/// An Application of an autonomous cluster, with this text as its `spec.info`.
pub(super) fn mirror_with(name: &str, version: u64, info: &str) -> Event {
    let body = json!({
        "metadata": {
            "namespace": "argocd", "name": name, "uid": format!("{MARK}-{name}"),
            "resourceVersion": version.to_string(),
        },
        "spec": {
            "project": "default",
            "source": {"repoURL": "https://git.example.com/x.git", "path": ".",
                       "targetRevision": format!("v{version}")},
            "destination": {"server": "https://kubernetes.default.svc", "namespace": "default"},
            "info": null,
        },
    });
    let body = body
        .to_string()
        .replace("\"info\":null", &format!("\"info\":{info}"));
    let key = ObjectKey::new(Kind::Application, "argocd", name);
    let verb = Verb::Create;
    let uid = format!("{MARK}-{name}");
    Event::about(&key, verb, &uid, &version.to_string(), body.into())
}

/// Each request is for the list of all mirrors, and the attacker alternates its connections.
pub(super) async fn resync_requests(attacker: &Attacker, until: Instant) -> Result<Observed> {
    let mut stream = attacker.session().await?;
    let next = |number| (number < MIRRORS).then(|| mirror(&format!("m{number}"), 1));
    let _made = stream.flood(until, next).await;
    // All are applied when this is answered.
    stream.send_event(None, None).await?;
    let next = |_| Some(raw(Event::request_resource_resync()));
    let flood = stream.flood(until, next).await;
    let left = stream.read(until).await;
    Ok(Observed::Count(flood.replies + left.replies))
}

/// Sends an inventory with this number of entries and the right checksum, and waits until the principal has judged it.
async fn inventory(
    attacker: &Attacker,
    until: Instant,
    count: u64,
    entry: impl Fn(u64) -> RequestUpdate,
) -> Result<Observed> {
    let mut stream = attacker.session().await?;
    let mut lines = Vec::new();
    let next = |number| {
        (number < count).then(|| {
            let entry = entry(number);
            lines.push(format!("{}/{}/{}", entry.kind, entry.name, entry.uid));
            raw(Event::request_update(&entry))
        })
    };
    let flood = stream.flood(until, next).await;
    lines.sort_unstable();
    let checksum = Sha256::digest(lines.concat()).to_vec();
    if flood.end.is_none() {
        end(&mut stream, checksum).await?;
    }
    Ok(flood.into())
}

async fn end(stream: &mut Stream, checksum: Vec<u8>) -> Result<()> {
    let end = Event::request_synced_resource_list(&SyncedResourceList {
        checksum: Some(checksum),
        ..SyncedResourceList::default()
    });
    let id = end.event_id.clone();
    let ended = stream.send_event(Some(raw(end)), Some(&id)).await;
    ended.map(drop).context("end the inventory")
}

pub(super) async fn unknown_kinds(attacker: &Attacker, until: Instant) -> Result<Observed> {
    let entry = |number| RequestUpdate {
        name: format!("n{number}"),
        namespace: "argocd".to_owned(),
        uid: format!("{MARK}-{number}"),
        kind: format!("Kind{number}"),
        ..RequestUpdate::default()
    };
    inventory(attacker, until, 10_000, entry).await
}

pub(super) async fn many_names(attacker: &Attacker, until: Instant) -> Result<Observed> {
    let long = "n".repeat(230);
    let entry = |number| RequestUpdate {
        name: format!("{long}{number}"),
        namespace: "argocd".to_owned(),
        uid: format!("{long}{number}"),
        kind: Kind::Application.as_str().to_owned(),
        ..RequestUpdate::default()
    };
    inventory(attacker, until, 100_000, entry).await
}

pub(super) async fn statuses(attacker: &Attacker, until: Instant) -> Result<Observed> {
    let own = attacker.own().await?;
    let next = |number| {
        let report = report(&own, number);
        Some(raw(about(&own, Verb::StatusUpdate, number, &report)))
    };
    Ok(attacker.session().await?.flood(until, next).await.into())
}

pub(super) async fn errors(attacker: &Attacker, until: Instant) -> Result<Observed> {
    let own = attacker.own().await?;
    let next = |number: u64| {
        let error = ErrorReport {
            resource_name: own.name.clone(),
            resource_namespace: own.namespace.clone(),
            message: format!("{MARK}-{}", number % 2),
            contest: None,
        };
        Some(raw(Event::error(Kind::Application, &error)))
    };
    Ok(attacker.session().await?.flood(until, next).await.into())
}

/// Acknowledgements that refuse the project of all clusters, each with another reason than the one before.
pub(super) async fn refusals(attacker: &Attacker, until: Instant) -> Result<Observed> {
    // By the namespace of Argo CD on either side.
    let projects = ["argocd", attacker.argocd.as_str()]
        .map(|namespace| format!("AppProject/{namespace}/{}", applications::PROJECT));
    let next = |number: u64| {
        let mut ack = Event::ping().ack();
        let reason = format!("{MARK}-{}", number / 2 % 2);
        let [ours, theirs] = &projects;
        let project = if number.is_multiple_of(2) {
            ours
        } else {
            theirs
        };
        let extensions = [("refused", reason), ("about", project.clone())];
        let extensions = extensions.map(|(name, value)| (name.to_owned(), value));
        ack.extensions.extend(extensions);
        Some(raw(ack))
    };
    Ok(attacker.session().await?.flood(until, next).await.into())
}

pub(super) async fn facts(attacker: &Attacker, until: Instant) -> Result<Observed> {
    let next = |number: u64| {
        let facts = SpokeInfo {
            server_version: Some(format!("v1.{}", number % 2)),
            applications_count: Some(number),
            ..SpokeInfo::default()
        };
        Some(raw(Event::spoke_info(&facts)))
    };
    Ok(attacker.session().await?.flood(until, next).await.into())
}

pub(super) async fn mirrors(attacker: &Attacker, until: Instant) -> Result<Observed> {
    debug_assert_eq!(attacker.mode, Mode::Autonomous);
    let mut stream = attacker.session().await?;
    let next = |number| Some(mirror("flap", number));
    Ok(stream.flood(until, next).await.into())
}
