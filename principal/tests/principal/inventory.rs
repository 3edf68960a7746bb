//! Pages read the objects, deliveries and sessions of the principal, with agents that speak the wire by hand.

use std::collections::BTreeMap;

use principal::{Changes, Cursor, Delivery};
use protocol::{Event, Kind, Target, Verb};
use serde_json::{Value, json};

use crate::{
    agent::{Agent, replica, report},
    world::{World, application, bounded},
};

const APPLICATION: Target = Target::Object(Kind::Application);

fn compared(revision: &str, source: &Value) -> Value {
    let compared = json!({ "source": source });
    json!({ "status": { "sync": { "status": "Synced", "revision": revision, "comparedTo": compared } } })
}

/// Waits until the newest delivery of `a/app` is so.
async fn newest(world: &World, context: &str, fits: impl Fn(&Delivery) -> bool) -> Delivery {
    let looking = async {
        loop {
            let all = world.handle.inventory.deliveries("a", "app");
            if let Some(found) = all.into_iter().next().filter(&fits) {
                return found;
            }
            tokio::task::yield_now().await;
        }
    };
    bounded(context, looking).await
}

/// Edits the revision of `a/app` and returns the Application.
fn edit(world: &World, revision: &str) -> Value {
    let source = json!({ "targetRevision": revision });
    world.edit("a", "app", &json!({ "spec": { "source": source } }));
    world.hub.application("a", "app").unwrap()
}

fn version(application: &Value) -> &str {
    application["metadata"]["resourceVersion"].as_str().unwrap()
}

/// The steps of a delivery that reached its end, in their order.
fn is_in_order(delivery: &Delivery) -> bool {
    let steps = [
        Some(delivery.written),
        delivery.sent,
        delivery.acknowledged,
        delivery.reported,
    ];
    steps.iter().all(Option::is_some) && steps.is_sorted()
}

async fn delivered_change_has_each_step(world: &World, agent: &mut Agent) {
    world.create(application("a", "app"));
    agent.event(APPLICATION, Verb::Create).await;
    let hub = edit(world, "v2");
    agent.event(APPLICATION, Verb::SpecUpdate).await;
    let delivery = newest(world, "acknowledged", |it| it.acknowledged.is_some()).await;
    assert_eq!(delivery.version, version(&hub));
    assert_eq!((delivery.reported, delivery.is_operation), (None, false));
    let old = json!({ "repoURL": "https://example.com/repo.git", "path": "." });
    agent
        .send_and_ack(report(
            Verb::StatusUpdate,
            &replica(&hub, &compared("one", &old)),
        ))
        .await;
    let delivery = newest(world, "the same", |_| true).await;
    assert_eq!(
        delivery.reported, None,
        "the report is about the older source"
    );
    let new = hub["spec"]["source"].clone();
    agent
        .send_and_ack(report(
            Verb::StatusUpdate,
            &replica(&hub, &compared("two", &new)),
        ))
        .await;
    let delivery = newest(world, "reported", |it| it.reported.is_some()).await;
    assert!(is_in_order(&delivery), "{delivery:?}");
    assert_eq!(delivery.version, version(&hub));
    assert_eq!(world.handle.inventory.deliveries("a", "app").len(), 2);
}

#[tokio::test]
async fn change_is_written_sent_acknowledged_and_reported_in_order() {
    let world = World::with(&["a"]).await;
    let mut agent = Agent::empty(&world, "a").await;
    delivered_change_has_each_step(&world, &mut agent).await;
}

#[tokio::test]
async fn change_on_a_cluster_of_a_go_agent_has_the_same_steps() {
    let world = World::with(&["a"]).await;
    let (mut agent, ..) = Agent::go(&world, "a").await;
    delivered_change_has_each_step(&world, &mut agent).await;
}

#[tokio::test]
async fn sync_of_a_user_is_a_delivery_too() {
    let world = World::with(&["a"]).await;
    let mut agent = Agent::empty(&world, "a").await;
    world.create(application("a", "app"));
    agent.event(APPLICATION, Verb::Create).await;
    let operation = json!({ "operation": { "sync": { "revision": "x" } } });
    world.edit("a", "app", &operation);
    let command: Event = agent.event(APPLICATION, Verb::SetOperation).await;
    let delivery = newest(&world, "acknowledged", |it| {
        it.is_operation && it.acknowledged.is_some()
    })
    .await;
    assert!(command.event_id.contains(&delivery.version));
}

#[tokio::test]
async fn change_without_a_session_waits_and_is_sent_later() {
    let world = World::with(&["a"]).await;
    world.create(application("a", "app"));
    let waiting = newest(&world, "written", |_| true).await;
    assert_eq!((waiting.sent, waiting.acknowledged), (None, None));
    let mut agent = Agent::empty(&world, "a").await;
    agent.event(APPLICATION, Verb::Create).await;
    let delivery = newest(&world, "acknowledged", |it| it.acknowledged.is_some()).await;
    assert_eq!(delivery.version, waiting.version);
}

#[tokio::test]
async fn pages_follow_the_reports_of_agents() {
    let world = World::with(&["a", "b"]).await;
    let inventory = &world.handle.inventory;
    let mut agent = Agent::empty(&world, "a").await;
    world.create(application("a", "app"));
    agent.event(APPLICATION, Verb::Create).await;
    let all: Changes = inventory.changes(Cursor::default(), 100).unwrap();
    assert!(all.from_start);
    assert_eq!(all.applications.len(), 1);
    let hub = world.hub.application("a", "app").unwrap();
    let status = json!({ "status": { "health": { "status": "Healthy" } } });
    agent
        .send_and_ack(report(Verb::StatusUpdate, &replica(&hub, &status)))
        .await;
    let changes = inventory.changes(all.cursor, 100).unwrap();
    assert!(!changes.from_start && !changes.more);
    assert_eq!(changes.applications.len(), 1);
    assert_eq!(
        changes.applications[0]["status"]["health"]["status"],
        "Healthy"
    );
    let known = inventory.application("a", "app").unwrap();
    assert_eq!(known, changes.applications[0]);
    assert_eq!(inventory.namesakes("app", 5), [known]);
    assert!(inventory.project("default").is_some());

    let traffic = inventory.traffic();
    let counts: BTreeMap<_, _> = traffic
        .iter()
        .map(|(cluster, it)| (cluster.as_str(), (it.sessions, it.reports)))
        .collect();
    assert_eq!(counts, BTreeMap::from([("a", (1, 1))]));
    assert!(world.handle.sessions.borrow()["a"].connected);
    drop(agent);
    let mut sessions = world.handle.sessions.clone();
    let ended = sessions.wait_for(|sessions| !sessions["a"].connected);
    assert!(bounded("the end of the session", ended).await.is_ok());
    assert_eq!(inventory.traffic(), traffic, "totals outlive a session");
}
