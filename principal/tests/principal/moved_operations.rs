//! An operation that a cluster left on the hub is no command for the next cluster of the Application.

use principal::store::{Memory, Watched};
use protocol::{Kind, Target, Verb};
use serde_json::{Value, json};

use crate::{
    agent::{Agent, replica, report},
    world::{World, application},
};

const APPLICATION: Target = Target::Object(Kind::Application);

fn operation() -> Value {
    json!({ "sync": { "manifests": ["kind: Secret"], "prune": true } })
}

/// An operation that Argo CD processed, with the `.operation` still set.
fn left(phase: &str) -> Value {
    json!({
        "operation": operation(),
        "status": { "operationState": {
            "phase": phase, "operation": operation(), "startedAt": "2026-01-01T00:00:00Z",
        } },
    })
}

/// Moves the Application to `b` on a restarted principal, and returns the verbs that `b` received.
async fn move_to_b(hub: Memory) -> Vec<Verb> {
    let world = World::on(hub, &["a", "b"]).await;
    world.edit(
        "argocd",
        "app",
        &json!({ "spec": { "destination": { "name": "b" } } }),
    );
    let mut agent = Agent::empty(&world, "b").await;
    let mut verbs = vec![agent.about("app").await.verb];
    let app = world.hub.application("argocd", "app").unwrap();
    let fresh = replica(
        &app,
        &json!({ "status": { "sync": { "status": "OutOfSync" } } }),
    );
    agent.send_and_ack(report(Verb::StatusUpdate, &fresh)).await;
    let app = world.hub.application("argocd", "app").unwrap();
    assert_eq!(app.get("operation").filter(|it| !it.is_null()), None);
    // A later event shows that no command came before it.
    let mut marker = application("argocd", "marker");
    marker["spec"]["destination"]["name"] = "b".into();
    world.create(marker);
    agent.about("marker").await;
    let unread = agent.unread(Kind::Application);
    verbs.extend(unread.into_iter().map(|event| event.verb));
    verbs
}

fn app_on_a() -> Value {
    let mut app = application("argocd", "app");
    app["spec"]["destination"]["name"] = "a".into();
    app
}

#[tokio::test]
async fn operation_that_a_cluster_left_does_not_move_with_the_application() {
    let hub = Memory::new();
    {
        let world = World::on(hub.clone(), &["a", "b"]).await;
        world.create(app_on_a());
        let mut agent = Agent::empty(&world, "a").await;
        agent.event(APPLICATION, Verb::Create).await;
        for phase in ["Running", "Succeeded"] {
            let app = world.hub.application("argocd", "app").unwrap();
            agent
                .send_and_ack(report(Verb::StatusUpdate, &replica(&app, &left(phase))))
                .await;
        }
    }
    assert_eq!(Box::pin(move_to_b(hub)).await, [Verb::Create]);
}

#[tokio::test]
async fn mirrored_operation_of_an_earlier_version_does_not_move() {
    for phase in ["Running", "Succeeded", "Terminating"] {
        let hub = Memory::new();
        let mut app = app_on_a();
        argocd::patch::merge(&mut app, &left(phase));
        if phase == "Terminating" {
            argocd::patch::merge(
                &mut app,
                &json!({ "status": { "operationState": { "startedAt": null } } }),
            );
        }
        hub.put(Watched::Application, app);
        assert_eq!(Box::pin(move_to_b(hub)).await, [Verb::Create], "{phase}");
    }
}
