//! What an agent says that has a session and means no good, or is broken: it gets nothing by that, a metric counts it,
//! and the report of its cluster says so to a person. Nobody else is slower for it.

use bytes::Bytes;
use futures::{FutureExt as _, future::BoxFuture};
use protocol::{Event, Kind, ObjectKey, Target, Verb};
use serde_json::{Value, json};

use crate::{
    agent::{Agent, Caller, replica, report, request},
    world::{World, application},
};

const REFUSED: &str = "argocd_principal_events_refused_total";
const APPLICATION: Target = Target::Object(Kind::Application);

fn status(body: impl Into<Bytes>, version: &str) -> Event {
    let key = ObjectKey::new(Kind::Application, "argocd", "app");
    Event::about(&key, Verb::StatusUpdate, "local", version, body.into())
}

/// A world with one delivered Application, and its agent.
fn delivered() -> BoxFuture<'static, (World, Agent, Value)> {
    let preparing = async {
        let world = World::with(&["a", "ab"]).await;
        world.create(application("a", "app"));
        let mut agent = Agent::empty(&world, "a").await;
        agent.event(APPLICATION, Verb::Create).await;
        let hub = world.hub.application("a", "app").unwrap();
        (world, agent, hub)
    };
    preparing.boxed()
}

#[tokio::test]
async fn bodies_that_are_no_json_change_nothing_and_a_person_is_told() {
    let (world, mut agent, hub) = delivered().await;
    let deep = [b"[".repeat(5000), b"]".repeat(5000)].concat();
    let bodies: [&[u8]; 7] = [
        b"{\"metadata\":{\"name\":\"\xff\xfe\"}}",
        b"{\"metadata\":{\"name\":\"\\ud800\"}}",
        b"{\"status\":NaN}",
        b"{} {}",
        b"{\"a\":1,}",
        b"\x00",
        &deep,
    ];
    for (number, body) in bodies.iter().enumerate() {
        let answer = agent
            .notify(status(body.to_vec(), &format!("bad-{number}")))
            .await;
        let why: Vec<&String> = answer.extensions.values().collect();
        assert!(why.iter().any(|it| it.contains("decode")), "{why:?}");
    }
    world
        .counted(&format!(
            "{REFUSED}{{reason=\"malformed\"}} {}",
            bodies.len()
        ))
        .await;
    world
        .reported("misconduct", |reports| {
            let stated = reports["a"].misconduct.as_deref().unwrap_or_default();
            stated.contains("invalid messages") && reports["a"].connected
        })
        .await;
    assert_eq!(world.hub.application("a", "app"), Some(hub));
}

#[tokio::test]
async fn bytes_that_are_no_text_where_the_wire_has_text_end_their_own_session_only() {
    let world = World::with(&["a", "ab"]).await;
    let mut other = Agent::empty(&world, "ab").await;
    let caller = Caller::new(&world, &world.certificate("a")).await;
    let tokens = caller.authenticate(request()).await.unwrap();
    // Field 1, the event, with the bytes of no text as its field 1, the id.
    caller
        .says_bytes(&tokens.access_token, vec![0x0a, 0x02, 0xff, 0xfe])
        .await;
    world
        .reported("the end", |reports| {
            let of_a = reports.get("a");
            of_a.is_some_and(|it| !it.connected && it.last_error.is_some())
        })
        .await;
    world.create(application("ab", "app"));
    other.event(APPLICATION, Verb::Create).await;
    Agent::empty(&world, "a").await;
}

#[tokio::test]
async fn of_a_key_that_is_there_twice_the_last_counts_and_unknown_ones_survive() {
    let (world, mut agent, hub) = delivered().await;
    let uid = hub["metadata"]["uid"].as_str().unwrap();
    let body = format!(
        r#"{{"apiVersion":"argoproj.io/v1alpha1","kind":"Application","fromTheFuture":1,
        "metadata":{{"namespace":"argocd","name":"app","name":"app","uid":"local",
        "annotations":{{"{source}":"forged","{source}":"{uid}"}}}},
        "status":{{"sync":{{"status":"OutOfSync"}}}},
        "status":{{"sync":{{"status":"Synced","fromTheFuture":{{"x":[1,null]}}}}}}}}"#,
        source = argocd::keys::SOURCE_UID,
    );
    agent.notify(status(body, "1")).await;
    world
        .until("shown", |hub| {
            let app = hub.application("a", "app").unwrap_or_default();
            app["status"]["sync"]
                == json!({ "status": "Synced", "fromTheFuture": { "x": [1, null] } })
        })
        .await;
    let app = world.hub.application("a", "app").unwrap();
    assert_eq!(app.get("fromTheFuture"), None, "only a status is taken");
}

#[tokio::test]
async fn what_a_status_forges_besides_is_not_taken() {
    let (world, mut agent, hub) = delivered().await;
    let forged = replica(
        &hub,
        &json!({
            "metadata": {
                "uid": "forged", "resourceVersion": "999999", "generation": 9,
                "labels": { "cluster": "ab" }, "finalizers": ["forged"],
                "deletionTimestamp": "2026-01-01T00:00:00Z",
                "ownerReferences": [{ "kind": "ApplicationSet", "name": "x", "uid": "x" }],
                "annotations": { "forged": "true", argocd::keys::IGNORE_SYNC: "true" },
            },
            "spec": { "project": "forged", "destination": { "name": "ab" } },
            "operation": { "sync": { "revision": "forged" } },
            "status": { "health": { "status": "Healthy" } },
        }),
    );
    agent.notify(report(Verb::StatusUpdate, &forged)).await;
    world
        .until("shown", |hub| {
            let app = hub.application("a", "app").unwrap_or_default();
            app["status"]["health"]["status"] == "Healthy"
        })
        .await;
    let app = world.hub.application("a", "app").unwrap();
    assert_eq!(app["spec"], hub["spec"]);
    for field in [
        "uid",
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
        "deletionTimestamp",
    ] {
        assert_eq!(
            app["metadata"].get(field),
            hub["metadata"].get(field),
            "{field}"
        );
    }
}

#[tokio::test]
async fn a_uid_of_another_clusters_object_opens_nothing() {
    let (world, _agent, hub) = delivered().await;
    let mut other = Agent::empty(&world, "ab").await;
    let stolen = replica(
        &hub,
        &json!({ "status": { "health": { "status": "Degraded" } } }),
    );
    for (verb, version) in [(Verb::StatusUpdate, "7"), (Verb::Delete, "8")] {
        let mut stated = stolen.clone();
        stated["metadata"]["resourceVersion"] = version.into();
        other.notify(report(verb, &stated)).await;
    }
    world
        .counted(&format!("{REFUSED}{{reason=\"not_theirs\"}} 1"))
        .await;
    assert_eq!(world.hub.application("a", "app"), Some(hub));
}

#[tokio::test]
async fn what_is_acknowledged_and_was_never_said_is_counted_and_ends_no_wait() {
    let (world, mut agent, _hub) = delivered().await;
    for number in 0..50 {
        agent
            .emit(status("{}", &format!("never-{number}")).ack())
            .await;
    }
    world
        .counted("argocd_principal_stray_acknowledgements_total 50")
        .await;
    world.edit(
        "a",
        "app",
        &json!({ "spec": { "source": { "path": "new" } } }),
    );
    agent.event(APPLICATION, Verb::SpecUpdate).await;
    assert!(world.handle.sessions.borrow()["a"].connected);
}

#[tokio::test]
async fn what_an_agent_may_not_say_is_told_to_a_person() {
    let (world, mut agent, hub) = delivered().await;
    let theirs = replica(&hub, &json!({ "spec": { "project": "mine" } }));
    for verb in [Verb::Create, Verb::SpecUpdate, Verb::SetOperation] {
        agent.notify(report(verb, &theirs)).await;
    }
    world
        .reported("misconduct", |reports| {
            let stated = reports["a"].misconduct.as_deref().unwrap_or_default();
            stated.contains("does not allow")
        })
        .await;
    assert_eq!(world.hub.application("a", "app"), Some(hub));
}

#[tokio::test]
async fn what_a_cluster_refuses_is_told_until_it_works() {
    let (world, mut agent, hub) = delivered().await;
    let failure = protocol::payload::ErrorReport {
        resource_name: "app".to_owned(),
        resource_namespace: "a".to_owned(),
        message: "no room".to_owned(),
        contest: None,
    };
    agent
        .notify(Event::error(Kind::Application, &failure))
        .await;
    world
        .reported("refused", |reports| {
            let refused = reports["a"].refused.as_ref();
            refused.is_some_and(|it| it.count == 1 && it.names == ["Application/a/app"])
        })
        .await;
    let healthy = replica(
        &hub,
        &json!({ "status": { "health": { "status": "Healthy" } } }),
    );
    agent.notify(report(Verb::StatusUpdate, &healthy)).await;
    world
        .reported("all is well", |reports| reports["a"].refused.is_none())
        .await;
}
