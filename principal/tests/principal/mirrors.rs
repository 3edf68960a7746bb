//! What an autonomous cluster owns is shown on the hub and held there; nothing that it says leaves its place.

use argocd::{Meta, command, keys, mirror};
use principal::store::{Memory, Watched};
use protocol::{Event, Kind, ObjectKey, Target, Verb, payload::RequestUpdate};
use serde_json::{Value, json};

use crate::{
    agent::{Agent, body, report},
    world::{World, application, autonomous},
};

mod isolation;

const APPLICATION: Target = Target::Object(Kind::Application);

/// An Application as it is on the spoke.
fn source(name: &str, version: u64, change: &Value) -> Value {
    let mut source = application("argocd", name);
    argocd::patch::merge(
        &mut source,
        &json!({ "metadata": { "uid": format!("spoke-{name}"), "resourceVersion": version.to_string() } }),
    );
    argocd::patch::merge(&mut source, change);
    source
}

fn about(kind: Kind, verb: Verb, object: &Value) -> Event {
    let meta = Meta::of(object);
    let key = ObjectKey::new(kind, meta.namespace(), meta.name());
    let body = serde_json::to_vec(object).unwrap();
    Event::about(&key, verb, meta.uid(), meta.resource_version(), body.into())
}

async fn world() -> World {
    let world = World::with(&["a", "ab"]).await;
    world.fleet.send_replace(autonomous(&["a", "ab"]));
    world
}

/// The agent of the autonomous cluster, with one Application that the hub shows.
async fn shown(world: &World) -> Agent {
    let mut agent = Agent::owner(world, "a").await;
    agent
        .event(Target::Resync, Verb::RequestSyncedResourceList)
        .await;
    agent
        .send_and_ack(report(Verb::Create, &source("app", 1, &json!({}))))
        .await;
    agent
}

fn synced() -> Value {
    json!({ "status": { "sync": { "status": "Synced" } } })
}

fn the_mirror(hub: &Memory) -> Option<Value> {
    hub.application("a", "app")
}

#[tokio::test]
async fn autonomous_objects_are_mirrored_into_the_cluster_namespace() {
    let world = world().await;
    let mut agent = shown(&world).await;
    let mirror = the_mirror(&world.hub).unwrap();
    assert!(mirror::is_of(&mirror, "a"));
    assert_eq!(mirror["spec"]["project"], "a-default");
    assert_eq!(mirror["spec"]["destination"]["name"], "a");
    agent
        .send_and_ack(report(Verb::SpecUpdate, &source("app", 2, &synced())))
        .await;
    let mirror = the_mirror(&world.hub).unwrap();
    assert_eq!(mirror["status"]["sync"]["status"], "Synced");
    let writes = world.hub.writes();
    agent
        .send_and_ack(report(Verb::SpecUpdate, &source("app", 3, &synced())))
        .await;
    assert_eq!(world.hub.writes(), writes, "the same again costs no write");
    agent
        .send_and_ack(report(Verb::Delete, &source("app", 3, &json!({}))))
        .await;
    world
        .until("the mirror is gone", |hub| the_mirror(hub).is_none())
        .await;
    assert!(
        agent.unread(Kind::Application).is_empty(),
        "mirrors are not sent back"
    );
}

#[tokio::test]
async fn edited_or_deleted_mirror_is_restored() {
    let world = world().await;
    let agent = shown(&world).await;
    let edit = json!({ "spec": { "source": { "path": "edited" } } });
    world.edit("a", "app", &edit);
    world
        .until("it is healed", |hub| {
            the_mirror(hub).is_some_and(|app| app["spec"]["source"]["path"] == ".")
        })
        .await;
    // No agent has to be connected for that.
    drop(agent);
    world
        .reported("lost", |reports| !reports["a"].connected)
        .await;
    let cascade = json!({ "metadata": { "finalizers": [keys::RESOURCES_FINALIZER] } });
    world.edit("a", "app", &cascade);
    let before = the_mirror(&world.hub).unwrap();
    world.hub.delete(Watched::Application, "a", "app");
    world
        .until("it is made again", |hub| {
            the_mirror(hub).is_some_and(|app| {
                app["metadata"]["uid"] != before["metadata"]["uid"]
                    && app["metadata"]["deletionTimestamp"].is_null()
            })
        })
        .await;
    let again = the_mirror(&world.hub).unwrap();
    assert_eq!(again["spec"], before["spec"]);
    assert!(mirror::is_of(&again, "a"));
}

#[tokio::test]
async fn mirror_command_is_sent_to_its_cluster_and_ends_there() {
    let world = world().await;
    let mut agent = shown(&world).await;
    let operation = json!({ "sync": { "revision": "v1" } });
    world.edit("a", "app", &json!({ "operation": operation }));
    let asked = agent.event(APPLICATION, Verb::SetOperation).await;
    let sync = asked.event_id.clone();
    assert_eq!(body(&asked)["operation"], operation);
    assert_eq!(Meta::of(&body(&asked)).source_uid(), Some("spoke-app"));

    let late = source("app", 2, &synced());
    agent.send_and_ack(report(Verb::SpecUpdate, &late)).await;
    let mirror = the_mirror(&world.hub).unwrap();
    assert_eq!(mirror["operation"], operation, "not taken yet");

    let command::Take::Set(patch) = command::take(&late, &asked.event_id, &operation) else {
        panic!("it was not taken before");
    };
    let mut taken = patch.applied_to(&late);
    taken["operation"] = Value::Null;
    taken["metadata"]["resourceVersion"] = "3".into();
    taken["status"]["operationState"] = json!({
        "phase": "Succeeded", "operation": operation,
        "startedAt": "2026-01-01T00:00:01Z", "finishedAt": "2026-01-01T00:00:02Z",
    });
    agent.send_and_ack(report(Verb::SpecUpdate, &taken)).await;
    let done = the_mirror(&world.hub).unwrap();
    assert!(done.get("operation").is_none_or(Value::is_null), "{done:#}");
    assert_eq!(done["status"]["operationState"]["phase"], "Succeeded");
    assert!(Meta::of(&done).annotation(keys::LAST_COMMAND).is_none());

    world.edit(
        "a",
        "app",
        &json!({ "metadata": { "annotations": { keys::REFRESH: "hard" } } }),
    );
    let asked = agent.event(APPLICATION, Verb::SpecUpdate).await;
    let refreshed = command::take_refresh(&taken, &body(&asked)).unwrap();
    let mut refreshed = refreshed.applied_to(&taken);
    refreshed["metadata"]["annotations"][keys::REFRESH] = Value::Null;
    agent
        .send_and_ack(report(Verb::SpecUpdate, &refreshed))
        .await;
    let done = the_mirror(&world.hub).unwrap();
    assert!(Meta::of(&done).annotation(keys::REFRESH).is_none());
    let repeats: Vec<_> = agent
        .unread(Kind::Application)
        .into_iter()
        .map(|event| event.event_id.clone())
        .collect();
    assert_eq!(
        repeats,
        [sync],
        "sent again with the same id to a cluster that had not taken it"
    );
}

#[tokio::test]
async fn command_is_not_sent_to_a_recreated_application() {
    let world = world().await;
    let mut agent = shown(&world).await;
    let asked = json!({
        "operation": { "sync": { "revision": "v1" } },
        "metadata": { "annotations": { keys::REFRESH: "hard" } },
    });
    world.edit("a", "app", &asked);
    agent.event(APPLICATION, Verb::SetOperation).await;
    let successor = json!({ "metadata": { "uid": "another" } });
    agent
        .send_and_ack(report(Verb::Create, &source("app", 2, &successor)))
        .await;
    let mirror = the_mirror(&world.hub).unwrap();
    assert_eq!(Meta::of(&mirror).source_uid(), Some("another"));
    assert!(mirror.get("operation").is_none_or(Value::is_null));
    assert!(Meta::of(&mirror).annotation(keys::REFRESH).is_none());
}

#[tokio::test]
async fn mirror_deleted_on_both_sides_is_not_restored() {
    let world = world().await;
    let mut agent = shown(&world).await;
    // Its mirror cannot be made again yet.
    world.hub.set_outage(true);
    world.hub.delete(Watched::Application, "a", "app");
    world
        .until("it is seen to be gone", |hub| the_mirror(hub).is_none())
        .await;
    drop(agent);
    world
        .reported("lost", |reports| !reports["a"].connected)
        .await;
    agent = Agent::owner(&world, "a").await;
    let asked = agent.event(Target::Resync, Verb::RequestUpdate).await;
    let asked: RequestUpdate = protocol::payload::decode("question", &asked.payload).unwrap();
    assert_eq!(
        (asked.name.as_str(), asked.uid.as_str()),
        ("app", "spoke-app")
    );
}

#[tokio::test]
async fn resync_sends_mirror_checksums_and_agent_returns_differences() {
    let world = world().await;
    let agent = shown(&world).await;
    drop(agent);
    world
        .reported("lost", |reports| !reports["a"].connected)
        .await;
    let mut agent = Agent::owner(&world, "a").await;
    let claim = agent.event(Target::Resync, Verb::RequestUpdate).await;
    let claim: RequestUpdate = serde_json::from_slice(&claim.payload).unwrap();
    let digest = mirror::wire_digest(&source("app", 9, &json!({})));
    assert_eq!(
        (claim.name.as_str(), claim.uid.as_str(), claim.digest),
        ("app", "spoke-app", Some(digest))
    );
    agent
        .event(Target::Resync, Verb::RequestSyncedResourceList)
        .await;
    let stub = json!({ "metadata": { "name": "app", "namespace": "a", "uid": "spoke-app" } });
    agent
        .send_and_ack(about(Kind::Application, Verb::Delete, &stub))
        .await;
    world
        .until("the mirror is gone", |hub| the_mirror(hub).is_none())
        .await;
}

#[tokio::test]
async fn mass_deletion_of_mirrors_waits_for_confirmation() {
    let world = world().await;
    let mut agent = Agent::owner(&world, "a").await;
    let names: Vec<String> = (0..11).map(|number| format!("app-{number:02}")).collect();
    for name in &names {
        agent
            .send_and_ack(report(Verb::Create, &source(name, 1, &json!({}))))
            .await;
    }
    for name in &names {
        let stub = json!({ "metadata": { "name": name, "namespace": "a", "uid": format!("spoke-{name}") } });
        agent
            .send_and_ack(about(Kind::Application, Verb::Delete, &stub))
            .await;
    }
    world
        .reported("held", |reports| reports["a"].blocked_deletion.is_some())
        .await;
    let blocked = world.handle.sessions.borrow()["a"]
        .blocked_deletion
        .clone()
        .unwrap();
    assert_eq!((blocked.count, blocked.mirrors), (11, true));
    assert!(
        names
            .iter()
            .all(|name| world.hub.application("a", name).is_some())
    );
    // One that the cluster has after all stays, despite the confirmation.
    agent
        .send_and_ack(report(Verb::SpecUpdate, &source(&names[0], 2, &json!({}))))
        .await;
    let mut fleet = principal::Fleet::clone(&autonomous(&["a", "ab"]));
    fleet.clusters.get_mut("a").unwrap().confirm_delete = Some(blocked.digest);
    world.fleet.send_replace(std::sync::Arc::new(fleet));
    world
        .until("they are gone", |hub| {
            names[1..]
                .iter()
                .all(|name| hub.application("a", name).is_none())
        })
        .await;
    assert!(world.hub.application("a", &names[0]).is_some());
}
