//! Mirrored `AppProjects` of two clusters never share a name on the hub.

use std::sync::Arc;

use argocd::{Meta, mirror};
use principal::{Fleet, Mode};
use protocol::{Event, Kind, ObjectKey, Target, Verb};
use serde_json::Value;

use crate::{
    agent::Agent,
    world::{World, enrolled, open_project},
};

/// Enrols these clusters, all autonomous except `x`.
fn enrol(world: &World, clusters: &[&str]) {
    let mut fleet = Fleet::clone(&enrolled(clusters));
    for (name, enrolment) in &mut fleet.clusters {
        if name != "x" {
            enrolment.mode = Mode::Autonomous;
        }
    }
    world.fleet.send_replace(Arc::new(fleet));
}

async fn owner(world: &World, cluster: &str) -> Agent {
    let mut agent = Agent::owner(world, cluster).await;
    inventory(&mut agent).await;
    agent
}

async fn inventory(agent: &mut Agent) {
    agent
        .event(Target::Resync, Verb::RequestSyncedResourceList)
        .await;
}

/// The cluster reports its AppProject; the reason of a refusal, if there is one.
async fn reports(agent: &mut Agent, name: &str) -> Option<String> {
    let mut project = open_project(name);
    project["metadata"]["uid"] = format!("uid-{name}").into();
    project["metadata"]["resourceVersion"] = "5".into();
    let meta = Meta::of(&project);
    let key = ObjectKey::new(Kind::AppProject, meta.namespace(), meta.name());
    let body = serde_json::to_vec(&project).unwrap();
    let version = meta.resource_version();
    let event = Event::about(&key, Verb::Create, meta.uid(), version, body.into());
    let ack = agent.send_and_ack(event).await;
    ack.extensions
        .contains_key("refused")
        .then(|| ack.extensions["refused"].clone())
}

fn holder(project: Option<Value>) -> Option<String> {
    mirror::cluster_of(&project?).map(str::to_owned)
}

#[tokio::test]
async fn project_name_goes_to_the_longest_cluster_name() {
    let world = World::with(&["a"]).await;
    enrol(&world, &["a"]);
    let mut a = owner(&world, "a").await;
    assert_eq!(reports(&mut a, "b-team").await, None);
    let shown = |world: &World| holder(world.hub.project("argocd", "a-b-team"));
    assert_eq!(shown(&world).as_deref(), Some("a"));

    enrol(&world, &["a", "a-b"]);
    let mut a_b = owner(&world, "a-b").await;
    assert_eq!(reports(&mut a_b, "team").await, None);
    assert_eq!(shown(&world).as_deref(), Some("a-b"));
    assert!(reports(&mut a, "b-team").await.is_some());
    assert_eq!(shown(&world).as_deref(), Some("a-b"));
    world
        .reported("the reason", |reports| {
            let unmirrored = reports["a"].unmirrored.as_ref();
            unmirrored.is_some_and(|it| it.names[0].contains("belongs to cluster a-b"))
        })
        .await;

    enrol(&world, &["a"]);
    inventory(&mut a).await;
}

#[tokio::test]
async fn restricted_project_of_a_managed_cluster_is_no_mirror() {
    let world = World::with(&["x"]).await;
    enrol(&world, &["cluster"]);
    let mut agent = owner(&world, "cluster").await;
    assert_eq!(reports(&mut agent, "x").await, None);
    enrol(&world, &["cluster", "x"]);
    world
        .until("the mirror is gone", |hub| {
            hub.project("argocd", "cluster-x").is_none()
        })
        .await;
    assert!(reports(&mut agent, "x").await.is_some());
    assert_eq!(reports(&mut agent, "y").await, None);
    enrol(&world, &["cluster"]);
    inventory(&mut agent).await;
    assert_eq!(reports(&mut agent, "x").await, None);
}
