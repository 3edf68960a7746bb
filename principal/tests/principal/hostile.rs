//! What an agent says that has a session and means no good, or is broken: it gets nothing by that, a metric counts it,
//! and the report of its cluster shows it to a person. No other agent is slower for it.

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
async fn invalid_json_changes_nothing_and_is_reported() {
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
            .send_and_ack(status(body.to_vec(), &format!("bad-{number}")))
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
            let message = reports["a"].misconduct.as_deref().unwrap_or_default();
            message.contains("invalid messages") && reports["a"].connected
        })
        .await;
    assert_eq!(world.hub.application("a", "app"), Some(hub));
}

#[tokio::test]
async fn invalid_utf8_ends_its_own_session_only() {
    let world = World::with(&["a", "ab"]).await;
    let mut other = Agent::empty(&world, "ab").await;
    let caller = Caller::new(&world, &world.certificate("a")).await;
    let tokens = caller.authenticate(request()).await.unwrap();
    // Field 1, the event, with the bytes of no text as its field 1, the id.
    caller
        .send_bytes(&tokens.access_token, vec![0x0a, 0x02, 0xff, 0xfe])
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
async fn last_duplicate_json_key_wins_and_unknown_keys_survive() {
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
    agent.send_and_ack(status(body, "1")).await;
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
async fn forged_fields_outside_status_are_ignored() {
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
    agent
        .send_and_ack(report(Verb::StatusUpdate, &forged))
        .await;
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
async fn uid_of_another_clusters_object_grants_no_access() {
    let (world, _agent, hub) = delivered().await;
    let mut other = Agent::empty(&world, "ab").await;
    let stolen = replica(
        &hub,
        &json!({ "status": { "health": { "status": "Degraded" } } }),
    );
    for (verb, version) in [(Verb::StatusUpdate, "7"), (Verb::Delete, "8")] {
        let mut forged = stolen.clone();
        forged["metadata"]["resourceVersion"] = version.into();
        other.send_and_ack(report(verb, &forged)).await;
    }
    world
        .counted(&format!("{REFUSED}{{reason=\"not_theirs\"}} 1"))
        .await;
    assert_eq!(world.hub.application("a", "app"), Some(hub));
}

#[tokio::test]
async fn ack_of_an_unsent_event_is_counted_and_ends_no_wait() {
    let (world, mut agent, _hub) = delivered().await;
    for number in 0..50 {
        agent
            .send(status("{}", &format!("never-{number}")).ack())
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
async fn forbidden_events_of_an_agent_are_reported() {
    let (world, mut agent, hub) = delivered().await;
    let theirs = replica(&hub, &json!({ "spec": { "project": "mine" } }));
    for verb in [Verb::Create, Verb::SpecUpdate, Verb::SetOperation] {
        agent.send_and_ack(report(verb, &theirs)).await;
    }
    world
        .reported("misconduct", |reports| {
            let message = reports["a"].misconduct.as_deref().unwrap_or_default();
            message.contains("does not allow")
        })
        .await;
    assert_eq!(world.hub.application("a", "app"), Some(hub));
}

#[tokio::test]
async fn refused_write_is_reported_until_it_succeeds() {
    let (world, mut agent, hub) = delivered().await;
    let failure = protocol::payload::ErrorReport {
        resource_name: "app".to_owned(),
        resource_namespace: "a".to_owned(),
        message: "no room".to_owned(),
        contest: None,
    };
    agent
        .send_and_ack(Event::error(Kind::Application, &failure))
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
    agent
        .send_and_ack(report(Verb::StatusUpdate, &healthy))
        .await;
    world
        .reported("all is well", |reports| reports["a"].refused.is_none())
        .await;
}
