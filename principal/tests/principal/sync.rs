//! What the hub has reaches the spoke, and what the spoke reports reaches the hub.

use argocd::{global_projects::GlobalProjects, keys};
use principal::store::{Memory, Watched};
use protocol::{Event, Kind, Target, Verb};
use serde_json::{Value, json};

use crate::{
    agent::{Agent, body, replica, report, resync_entry},
    world::{World, application, open_project},
};

const APPLICATION: Target = Target::Object(Kind::Application);

fn synced(revision: &str) -> Value {
    json!({ "status": { "sync": { "status": "Synced", "revision": revision }, "health": { "status": "Healthy" } } })
}

fn revision(application: &Value) -> Option<&str> {
    application
        .pointer("/status/sync/revision")
        .and_then(Value::as_str)
}

#[tokio::test]
async fn application_is_delivered_and_its_status_returns() {
    let world = World::with(&["a"]).await;
    let mut agent = Agent::empty(&world, "a").await;
    world.create(application("a", "app"));
    let hub = world.hub.application("a", "app").unwrap();
    let came = agent.event(APPLICATION, Verb::Create).await;
    assert_eq!(came.principal_uid.as_deref(), Some("principal-uid"));
    assert_eq!(body(&came)["spec"], hub["spec"]);
    assert!(body(&came).get("status").is_none());

    agent
        .send_and_ack(report(Verb::StatusUpdate, &replica(&hub, &synced("one"))))
        .await;
    let shown = world.hub.application("a", "app").unwrap();
    assert_eq!(shown["status"]["sync"]["revision"], "one");
    assert_eq!(shown["spec"], hub["spec"]);

    agent
        .send_and_ack(report(Verb::StatusUpdate, &replica(&hub, &synced("one"))))
        .await;
    assert_eq!(world.hub.writes(), 1, "the same again costs no write");

    world.edit(
        "a",
        "app",
        &json!({ "spec": { "source": { "targetRevision": "v2" } } }),
    );
    let edited = agent.event(APPLICATION, Verb::SpecUpdate).await;
    assert_eq!(body(&edited)["spec"]["source"]["targetRevision"], "v2");
    assert!(
        agent.unread(Kind::Application).is_empty(),
        "our own writes are not sent back"
    );
}

#[tokio::test]
async fn application_is_delivered_only_to_its_destination() {
    let world = World::with(&["a", "ab"]).await;
    let mut a = Agent::empty(&world, "a").await;
    let mut ab = Agent::empty(&world, "ab").await;
    let mut named = application("argocd", "app");
    named["spec"]["destination"]["name"] = "ab".into();
    world.create(named);
    let came = ab.event(APPLICATION, Verb::Create).await;
    assert_eq!(came.subject.as_deref(), Some("argocd/app"));
    world.edit(
        "argocd",
        "app",
        &json!({ "spec": { "destination": { "name": "a" } } }),
    );
    assert_eq!(ab.about("app").await.verb, Verb::Delete);
    assert_eq!(a.about("app").await.verb, Verb::Create);
}

#[tokio::test]
async fn project_is_sent_before_its_applications_and_filtered_by_cluster() {
    let world = World::with(&["a"]).await;
    let mut project = open_project("team");
    project["spec"]["destinations"] = json!([
        { "name": "a", "namespace": "*" }, { "name": "b", "namespace": "*" },
    ]);
    world.hub.put(Watched::AppProject, project);
    let mut app = application("a", "app");
    app["spec"]["project"] = "team".into();
    world.create(app);
    let mut agent = Agent::empty(&world, "a").await;
    agent.event(APPLICATION, Verb::Create).await;
    let before: Vec<String> = agent
        .unread(Kind::AppProject)
        .into_iter()
        .filter_map(|event| event.object().map(|key| key.name))
        .collect();
    assert_eq!(before, ["default", "team"]);
    let team = agent.about("team").await;
    assert_eq!(
        body(&team)["spec"]["destinations"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test]
async fn global_project_that_arrives_last_is_sent_in_the_projects_it_selects() {
    let world = World::with(&["a"]).await;
    let mut agent = Agent::empty(&world, "a").await;
    let mut project = open_project("team");
    world.hub.put(Watched::AppProject, project.clone());
    agent.about("team").await;
    let setting = "- projectName: guard\n  labelSelector: {matchLabels: {tier: gold}}\n";
    let config = json!({ "data": { "globalProjects": setting } });
    let globals = GlobalProjects::of(&config).unwrap();
    world.hub.set_global_projects(globals);
    project["metadata"]["labels"] = json!({ "tier": "gold" });
    world.hub.put(Watched::AppProject, project);
    let labelled = agent.about("team").await;
    assert_eq!(body(&labelled)["metadata"]["labels"]["tier"], "gold");
    let denied = json!([{ "group": "", "kind": "Secret" }]);
    let mut guard = open_project("guard");
    guard["spec"] = json!({ "namespaceResourceBlacklist": denied });
    world.hub.put(Watched::AppProject, guard);
    let restricted = agent.about("team").await;
    assert_eq!(
        body(&restricted)["spec"]["namespaceResourceBlacklist"],
        denied
    );
}

#[tokio::test]
async fn a_deletion_waits_for_the_spoke_and_then_ends() {
    let world = World::with(&["a"]).await;
    let mut app = application("a", "app");
    app["metadata"]["finalizers"] = json!([keys::RESOURCES_FINALIZER, "other.example/hold"]);
    world.create(app);
    let mut agent = Agent::empty(&world, "a").await;
    let hub = world.hub.application("a", "app").unwrap();
    agent.event(APPLICATION, Verb::Create).await;

    let copy = replica(&hub, &json!({}));
    agent.send_and_ack(report(Verb::Delete, &copy)).await;
    let kept = world.hub.application("a", "app").unwrap();
    assert_eq!(
        kept["metadata"]["finalizers"],
        hub["metadata"]["finalizers"]
    );
    agent.event(APPLICATION, Verb::SpecUpdate).await;

    world.hub.delete(Watched::Application, "a", "app");
    let deleting = agent.event(APPLICATION, Verb::SpecUpdate).await;
    assert!(
        body(&deleting)["metadata"]
            .get("deletionTimestamp")
            .is_some()
    );
    let mut gone = report(Verb::Delete, &copy);
    gone.event_id.push('2');
    agent.send_and_ack(gone).await;
    let released = world.hub.application("a", "app").unwrap();
    assert_eq!(
        released["metadata"]["finalizers"],
        json!(["other.example/hold"])
    );
}

#[tokio::test]
async fn deletion_without_finalizers_is_sent_as_a_stub() {
    let world = World::with(&["a"]).await;
    world.create(application("a", "app"));
    let mut agent = Agent::empty(&world, "a").await;
    agent.event(APPLICATION, Verb::Create).await;
    world.hub.delete(Watched::Application, "a", "app");
    let stub = agent.event(APPLICATION, Verb::Delete).await;
    assert_eq!(body(&stub)["metadata"]["name"], "app");
    assert!(body(&stub).get("spec").is_none());
}

#[tokio::test]
async fn resync_confirms_equal_objects_and_sends_only_differences() {
    let world = World::with(&["a"]).await;
    for name in ["right", "stale", "missing"] {
        world.create(application("a", name));
    }
    let mut first = Agent::empty(&world, "a").await;
    let mut digests = std::collections::BTreeMap::new();
    for name in ["right", "stale", "missing", "default"] {
        let came = first.about(name).await;
        digests.insert(name, argocd::digest::agreed(&body(&came)));
    }
    drop(first);
    world
        .reported("lost", |reports| !reports["a"].connected)
        .await;
    world.edit(
        "a",
        "stale",
        &json!({ "spec": { "source": { "path": "new" } } }),
    );

    let uid = |name: &str| {
        let app = world.hub.application("a", name).unwrap();
        app["metadata"]["uid"].as_str().unwrap().to_owned()
    };
    let holding = |name: &str| {
        resync_entry(
            Kind::Application,
            name,
            &uid(name),
            digests.get(name).cloned(),
        )
    };
    let project = digests.get("default").cloned();
    let holds = [
        resync_entry(Kind::AppProject, "default", "project", project),
        holding("right"),
        holding("stale"),
        resync_entry(Kind::Application, "unknown", "uid-of-none", None),
    ];
    let mut second = Agent::of(&world, "a").await;
    second.holds(&holds).await;
    assert_eq!(second.about("unknown").await.verb, Verb::Delete);
    assert_eq!(
        body(&second.about("stale").await)["spec"]["source"]["path"],
        "new"
    );
    assert_eq!(second.about("missing").await.verb, Verb::Create);
    // What comes after everything of the resync shows that there was no more.
    world.create(application("a", "later"));
    second.about("later").await;
    assert!(
        second.unread(Kind::Application).is_empty(),
        "{:?}",
        second.unread(Kind::Application)
    );
}

#[tokio::test]
async fn statuses_are_coalesced_while_the_hub_api_is_down() {
    let world = World::with(&["a"]).await;
    world.create(application("a", "app"));
    let mut agent = Agent::empty(&world, "a").await;
    let hub = world.hub.application("a", "app").unwrap();
    agent.event(APPLICATION, Verb::Create).await;
    world.hub.set_outage(true);
    for number in 0..100 {
        let mut copy = replica(&hub, &synced(&number.to_string()));
        copy["metadata"]["resourceVersion"] = number.to_string().into();
        agent.send(report(Verb::StatusUpdate, &copy)).await;
    }
    world.hub.set_outage(false);
    world
        .until("the last status", |memory| {
            memory.application("a", "app").as_ref().and_then(revision) == Some("99")
        })
        .await;
    assert!(world.hub.writes() < 50, "{} writes", world.hub.writes());
}

#[tokio::test]
async fn sync_is_sent_once_and_shown_until_it_ends() {
    let world = World::with(&["a"]).await;
    world.create(application("a", "app"));
    let mut agent = Agent::empty(&world, "a").await;
    let hub = world.hub.application("a", "app").unwrap();
    agent.event(APPLICATION, Verb::Create).await;

    let operation = json!({ "sync": { "revision": "x" } });
    world.edit("a", "app", &json!({ "operation": operation }));
    let command = agent.event(APPLICATION, Verb::SetOperation).await;
    assert_eq!(body(&command)["operation"], operation);

    // A status from before the command arrived neither clears nor changes it.
    agent
        .send_and_ack(report(
            Verb::StatusUpdate,
            &replica(&hub, &synced("before")),
        ))
        .await;
    assert_eq!(
        world.hub.application("a", "app").unwrap()["operation"],
        operation
    );
    let again = agent.event(APPLICATION, Verb::SetOperation).await;
    assert_eq!(again.event_id, command.event_id, "it is the same command");

    let taken = format!("{} {}", command.event_id, argocd::digest::short(&operation));
    let ended = json!({
        "metadata": { "resourceVersion": "2", "annotations": { keys::LAST_COMMAND: taken } },
        "status": { "operationState": {
            "phase": "Succeeded", "operation": operation,
            "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:01Z",
        } },
    });
    agent
        .send_and_ack(report(Verb::StatusUpdate, &replica(&hub, &ended)))
        .await;
    let shown = world.hub.application("a", "app").unwrap();
    assert!(shown.get("operation").is_none());
    assert_eq!(shown["status"]["operationState"]["phase"], "Succeeded");
    world.create(application("a", "later"));
    agent.about("later").await;
    assert!(
        agent.unread(Kind::Application).is_empty(),
        "{:?}",
        agent.unread(Kind::Application)
    );
}

#[tokio::test]
async fn spoke_failure_is_a_condition_until_resolved() {
    let world = World::with(&["a"]).await;
    world.create(application("a", "app"));
    let mut agent = Agent::empty(&world, "a").await;
    let hub = world.hub.application("a", "app").unwrap();
    agent.event(APPLICATION, Verb::Create).await;
    let failure = protocol::payload::ErrorReport {
        resource_name: "app".to_owned(),
        resource_namespace: "a".to_owned(),
        message: "no room".to_owned(),
        contest: None,
    };
    agent
        .send_and_ack(Event::error(Kind::Application, &failure))
        .await;
    let condition = |memory: &Memory| {
        let app = memory.application("a", "app").unwrap();
        let message = app
            .pointer("/status/conditions/0/message")
            .and_then(Value::as_str);
        message.map(str::to_owned)
    };
    world
        .until("reported", |m| {
            condition(m).as_deref() == Some("cluster a reports: no room")
        })
        .await;
    agent
        .send_and_ack(report(Verb::StatusUpdate, &replica(&hub, &synced("one"))))
        .await;
    world.until("resolved", |m| condition(m).is_none()).await;
    assert_eq!(
        revision(&world.hub.application("a", "app").unwrap()),
        Some("one")
    );
}

#[tokio::test]
async fn sync_requested_during_principal_downtime_is_sent_after_report() {
    let hub = Memory::new();
    let mut asked = application("a", "app");
    asked["operation"] = json!({ "sync": { "revision": "x" } });
    hub.put(Watched::Application, asked);
    let world = World::on(hub, &["a"]).await;
    let app = world.hub.application("a", "app").unwrap();
    let mut agent = Agent::empty(&world, "a").await;
    agent.event(APPLICATION, Verb::Create).await;
    agent
        .send_and_ack(report(Verb::StatusUpdate, &replica(&app, &synced("one"))))
        .await;
    let command = agent.event(APPLICATION, Verb::SetOperation).await;
    assert_eq!(body(&command)["operation"], app["operation"]);
    assert_eq!(
        world.hub.application("a", "app").unwrap()["operation"],
        app["operation"]
    );
}

#[tokio::test]
async fn sync_ended_during_principal_downtime_is_not_repeated() {
    let hub = Memory::new();
    let operation = json!({ "sync": { "revision": "x" } });
    let mut asked = application("a", "app");
    asked["operation"] = operation.clone();
    hub.put(Watched::Application, asked);
    let world = World::on(hub, &["a"]).await;
    let app = world.hub.application("a", "app").unwrap();
    let mut agent = Agent::empty(&world, "a").await;
    agent.event(APPLICATION, Verb::Create).await;
    let taken = format!(
        "named-by-the-last-principal {}",
        argocd::digest::short(&operation)
    );
    let ended = json!({
        "metadata": { "annotations": { keys::LAST_COMMAND: taken } },
        "status": { "operationState": {
            "phase": "Succeeded", "operation": operation,
            "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:01Z",
        } },
    });
    agent
        .send_and_ack(report(Verb::StatusUpdate, &replica(&app, &ended)))
        .await;
    assert!(
        world
            .hub
            .application("a", "app")
            .unwrap()
            .get("operation")
            .is_none()
    );
    world.create(application("a", "later"));
    agent.about("later").await;
    assert!(agent.unread(Kind::Application).is_empty());
}

#[tokio::test]
async fn sync_requested_while_disconnected_does_not_block_delivery() {
    let world = World::with(&["a"]).await;
    world.create(application("a", "app"));
    let operation = json!({ "sync": { "revision": "x" } });
    world.edit("a", "app", &json!({ "operation": operation }));
    let mut agent = Agent::empty(&world, "a").await;
    agent.event(APPLICATION, Verb::Create).await;
    agent.event(APPLICATION, Verb::SetOperation).await;
}
