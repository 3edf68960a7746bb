//! A Go agent takes what it hears as it comes: it removes what it holds as it holds it, makes what is being deleted, and
//! refuses a command on what it has not heard of yet.

use argocd::keys;
use principal::store::Watched;
use protocol::{Event, Kind, Target, Verb};
use serde_json::json;

use crate::{
    agent::{Agent, body, replica, report, resync_entry},
    world::{World, application},
};

const APPLICATION: Target = Target::Object(Kind::Application);

fn cascading(name: &str) -> serde_json::Value {
    let mut app = application("a", name);
    let finalizers = json!([keys::RESOURCES_FINALIZER, "hub.example/archive"]);
    argocd::patch::merge(
        &mut app,
        &json!({ "metadata": { "finalizers": finalizers } }),
    );
    app
}

#[tokio::test]
async fn go_agent_receives_orphan_before_application_deletion() {
    let world = World::with(&["a"]).await;
    let (mut agent, ..) = Agent::go(&world, "a").await;
    agent.holds(&[]).await;
    for name in ["kept", "waiting"] {
        world.create(cascading(name));
        let came = agent.event(APPLICATION, Verb::Create).await;
        // The hub's own would never end there.
        assert_eq!(
            body(&came)["metadata"]["finalizers"],
            json!([keys::RESOURCES_FINALIZER])
        );
    }
    let spared = json!({ "metadata": { "finalizers": [] } });
    world.edit("a", "kept", &spared);
    world.hub.delete(Watched::Application, "a", "kept");
    let last = loop {
        let event = agent.about("kept").await;
        if event.verb != Verb::SpecUpdate {
            break event.verb;
        }
        assert!(body(&event)["metadata"]["finalizers"].is_null());
    };
    assert_eq!(last, Verb::Delete);

    // While it waits for its workload, the agent gets the deletion once and no later change.
    world.hub.delete(Watched::Application, "a", "waiting");
    let deleting = agent.event(APPLICATION, Verb::SpecUpdate).await;
    assert!(!body(&deleting)["metadata"]["deletionTimestamp"].is_null());
    let hub = world.hub.application("a", "waiting").unwrap();
    let copy = replica(&hub, &json!({}));
    agent.send_and_ack(report(Verb::Delete, &copy)).await;
    let archiving = json!({ "metadata": { "finalizers": ["hub.example/other"] } });
    world.edit("a", "waiting", &archiving);
    world.edit("a", "waiting", &spared);
    world.create(application("a", "later"));
    agent.about("later").await;
    let events = agent.unread(Kind::Application);
    let sent = events.iter().filter(|event| event.verb != Verb::Delete);
    assert_eq!(sent.count(), 0, "it would recreate it: {events:?}");
}

#[tokio::test]
async fn a_sync_waits_until_a_go_agent_has_its_application() {
    let world = World::with(&["a"]).await;
    let mut app = application("a", "app");
    app["operation"] = json!({ "sync": { "revision": "abc" } });
    world.create(app);
    let (mut agent, ..) = Agent::go(&world, "a").await;
    agent.holds(&[]).await;
    assert_eq!(agent.about("app").await.verb, Verb::Create);
    let asked = agent.about("app").await;
    assert_eq!(asked.verb, Verb::SetOperation);
    assert_eq!(body(&asked)["operation"]["sync"]["revision"], "abc");
}

/// Before 0.9 the agent takes the body as the new state of the Application.
#[tokio::test]
async fn a_sync_is_part_of_an_update_before_0_9() {
    let world = World::with(&["a"]).await;
    let mut app = application("a", "app");
    app["metadata"]["finalizers"] = json!(["hub.example/other"]);
    app["operation"] = json!({ "sync": { "revision": "abc" } });
    world.create(app);
    let (mut agent, ..) = Agent::go_of(&world, "a", "0.8.1").await;
    agent.holds(&[]).await;
    let created = agent.about("app").await;
    assert_eq!(created.verb, Verb::Create);
    let asked = agent.about("app").await;
    assert_eq!(asked.verb, Verb::SpecUpdate);
    assert_eq!(body(&asked)["operation"]["sync"]["revision"], "abc");
    assert_eq!(body(&asked)["spec"], body(&created)["spec"]);
    assert_eq!(body(&asked)["metadata"]["finalizers"], json!([]));
}

#[tokio::test]
async fn deletion_unknown_to_go_agent_completes_without_event() {
    let world = World::with(&["a"]).await;
    for name in ["there", "unheard"] {
        world.create(cascading(name));
        world.hub.delete(Watched::Application, "a", name);
    }
    let uid = world.hub.application("a", "there").unwrap()["metadata"]["uid"].clone();
    let (mut agent, ..) = Agent::go(&world, "a").await;
    let there = resync_entry(Kind::Application, "there", uid.as_str().unwrap(), None);
    agent.holds(&[there]).await;
    let deleting = agent.event(APPLICATION, Verb::Create).await;
    assert_eq!(deleting.object().unwrap().name, "there");
    let finalizers = |world: &World, name: &str| {
        let app = world.hub.application("a", name).unwrap();
        app["metadata"]["finalizers"].clone()
    };
    let is_released = |_: &_| finalizers(&world, "unheard") == json!(["hub.example/archive"]);
    world.until("it is released", is_released).await;
    assert_eq!(
        finalizers(&world, "there"),
        json!([keys::RESOURCES_FINALIZER, "hub.example/archive"])
    );
    let unheard = agent.unread(Kind::Application);
    let is_unheard = |event: &&Event| event.object().is_some_and(|key| key.name == "unheard");
    assert!(!unheard.into_iter().any(|event| is_unheard(&event)));
}
