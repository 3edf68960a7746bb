//! Mirrors of one cluster neither reach nor crowd out other objects of the hub.

use super::*;
use crate::world::enrolled;

#[tokio::test]
async fn cluster_writes_only_into_its_own_namespace() {
    let world = world().await;
    world.create(application("a", "mine"));
    world.create(application("ab", "app"));
    let mut team = crate::world::open_project("a-team");
    team["spec"]["description"] = "the hub's own".into();
    world.hub.put(Watched::AppProject, team);
    let mut agent = shown(&world).await;
    let poison = json!({ "metadata": {
        "namespace": "ab", "ownerReferences": [{ "uid": "x" }],
        "annotations": { keys::MIRRORED_FROM: "ab", keys::SOURCE_UID: "other", keys::PRINCIPAL_UID: "x" },
        "labels": { keys::IGNORE_SYNC: "true" },
    } });
    agent
        .send_and_ack(report(Verb::SpecUpdate, &source("app", 2, &poison)))
        .await;
    let mirror = the_mirror(&world.hub).unwrap();
    assert_eq!(Meta::of(&mirror).source_uid(), Some("spoke-app"));
    assert!(Meta::of(&mirror).annotation(keys::PRINCIPAL_UID).is_none());
    assert!(!Meta::of(&mirror).is_ignored());
    let other = world.hub.application("ab", "app").unwrap();
    assert!(!mirror::is_mirror(&other));

    let refused = agent
        .send_and_ack(report(Verb::Create, &source("mine", 1, &json!({}))))
        .await;
    assert!(
        refused.extensions["refused"].contains("not its mirror"),
        "{refused:?}"
    );
    assert!(!mirror::is_mirror(
        &world.hub.application("a", "mine").unwrap()
    ));
    let refused = agent
        .send_and_ack(report(Verb::Create, &source("b/../ab", 1, &json!({}))))
        .await;
    assert!(refused.extensions.contains_key("refused"));
    let mut project = crate::world::open_project("team");
    project["metadata"]["uid"] = "p".into();
    agent
        .send_and_ack(about(Kind::AppProject, Verb::Create, &project))
        .await;
    let kept = world.hub.project("argocd", "a-team").unwrap();
    assert_eq!(kept["spec"]["description"], "the hub's own");
    world
        .reported("reported", |reports| {
            reports["a"]
                .unmirrored
                .as_ref()
                .is_some_and(|it| it.count >= 2)
        })
        .await;
    for verb in [Verb::StatusUpdate, Verb::SetOperation] {
        let refused = agent
            .send_and_ack(report(verb, &source("app", 9, &json!({}))))
            .await;
        assert!(refused.extensions.contains_key("refused"), "{verb}");
    }
}

#[tokio::test]
async fn mirrored_project_has_the_cluster_prefix_and_stays_private() {
    let world = world().await;
    let mut managed = Agent::empty(&world, "ab").await;
    let mut agent = shown(&world).await;
    let mut project = crate::world::open_project("team");
    project["metadata"]["uid"] = "p".into();
    project["metadata"]["resourceVersion"] = "5".into();
    agent
        .send_and_ack(about(Kind::AppProject, Verb::Create, &project))
        .await;
    let mirror = world.hub.project("argocd", "a-team").unwrap();
    assert_eq!(mirror["spec"]["sourceNamespaces"], json!(["a"]));
    assert_eq!(
        mirror["spec"]["destinations"],
        json!([{ "name": "a", "namespace": "*" }])
    );
    let mut edited = mirror.clone();
    edited["spec"]["sourceNamespaces"] = json!(["*"]);
    world.hub.put(Watched::AppProject, edited);
    world
        .until("it is healed", |hub| {
            let project = hub.project("argocd", "a-team");
            project.is_some_and(|it| it["spec"]["sourceNamespaces"] == json!(["a"]))
        })
        .await;
    world.create(application("ab", "later"));
    managed.about("later").await;
    let events = managed.unread(Kind::AppProject);
    let names: Vec<_> = events
        .iter()
        .filter_map(|event| event.object().map(|key| key.name))
        .collect();
    assert_eq!(names, ["default"]);
    agent
        .send_and_ack(about(Kind::AppProject, Verb::Delete, &project))
        .await;
    world
        .until("it is gone", |hub| {
            hub.project("argocd", "a-team").is_none()
        })
        .await;
}

#[tokio::test]
async fn mirrors_of_an_unenrolled_cluster_stay_untouched() {
    let world = world().await;
    let mut agent = shown(&world).await;
    world.fleet.send_replace(enrolled(&["ab"]));
    agent.end().await;
    world.edit(
        "a",
        "app",
        &json!({ "spec": { "source": { "path": "edited" } } }),
    );
    world.create(application("a", "another"));
    let mut ab = Agent::empty(&world, "ab").await;
    world.create(application("ab", "later"));
    ab.about("later").await;
    let left = the_mirror(&world.hub).unwrap();
    assert_eq!(left["spec"]["source"]["path"], "edited");

    world.fleet.send_replace(enrolled(&["a", "ab"]));
    let mut managed = Agent::empty(&world, "a").await;
    managed.about("another").await;
    let events = managed.unread(Kind::Application);
    assert!(events.is_empty(), "a mirror is not delivered: {events:#?}");
}

#[tokio::test]
async fn mirrors_of_a_cluster_are_limited_by_its_quota() {
    let world = world().await;
    let mut agent = shown(&world).await;
    let big = json!({ "status": { "summary": { "images": ["x".repeat(60_000)] } } });
    agent
        .send_and_ack(report(Verb::SpecUpdate, &source("app", 2, &big)))
        .await;
    assert!(the_mirror(&world.hub).unwrap()["status"]["summary"].is_object());
    for number in 0..20 {
        let name = format!("app-{number}");
        agent
            .send_and_ack(report(Verb::Create, &source(&name, 1, &json!({}))))
            .await;
    }
    world
        .reported("reported", |reports| reports["a"].unmirrored.is_some())
        .await;
    let unmirrored = world.handle.sessions.borrow()["a"]
        .unmirrored
        .clone()
        .unwrap();
    assert!(
        unmirrored.names[0].contains("limit of 16 mirrored objects"),
        "{unmirrored:?}"
    );
    assert!(world.hub.application("a", "app-14").is_some());
    assert!(world.hub.application("a", "app-15").is_none());
    world
        .counted("argocd_principal_events_refused_total{reason=\"budget\"} 5")
        .await;
}
