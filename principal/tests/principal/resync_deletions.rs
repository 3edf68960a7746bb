//! Objects of a spoke that the hub does not know are deleted, but never by mistake.

use std::sync::Arc;

use principal::{BlockedDeletion, Fleet, store::Watched};
use protocol::{
    Event, Kind, Target, Verb,
    payload::{RequestUpdate, SyncedResourceList},
};
use tokio::sync::watch;

use crate::{
    agent::{Agent, resync_entry},
    world::{World, application, enrolled},
};

fn unknown(count: usize) -> Vec<RequestUpdate> {
    (0..count)
        .map(|number| {
            let name = format!("old-{number:02}");
            resync_entry(Kind::Application, &name, &format!("uid-{name}"), None)
        })
        .collect()
}

fn deletes(agent: &Agent) -> usize {
    let events = agent.unread(Kind::Application);
    events
        .iter()
        .filter(|event| event.verb == Verb::Delete)
        .count()
}

/// Deletes are sent before all later events, so this one proves that there are no more.
async fn wait_for_marker(world: &World, agent: &mut Agent, name: &str) {
    world.create(application("a", name));
    agent.about(name).await;
}

fn pending_deletion(world: &World) -> Option<BlockedDeletion> {
    world.handle.sessions.borrow()["a"].blocked_deletion.clone()
}

fn confirming(digest: &str) -> Arc<Fleet> {
    let mut fleet = Fleet::clone(&enrolled(&["a"]));
    fleet.clusters.get_mut("a").unwrap().confirm_delete = Some(digest.to_owned());
    Arc::new(fleet)
}

#[tokio::test]
async fn truncated_or_unfinished_resync_deletes_nothing() {
    let world = World::with(&["a"]).await;
    let mut agent = Agent::of(&world, "a").await;
    agent
        .event(Target::Resync, Verb::RequestResourceResync)
        .await;
    let objects = unknown(2);
    agent.send_and_ack(Event::request_update(&objects[0])).await;
    wait_for_marker(&world, &mut agent, "one").await;
    assert_eq!(deletes(&agent), 0, "it may have more to say");
    agent.ends(&objects).await;
    wait_for_marker(&world, &mut agent, "two").await;
    assert_eq!(deletes(&agent), 0, "one of the list was not named");
    agent.send_and_ack(Event::request_update(&objects[1])).await;
    agent.ends(&objects).await;
    assert_eq!(agent.about("old-00").await.verb, Verb::Delete);
    assert_eq!(agent.about("old-01").await.verb, Verb::Delete);
}

#[tokio::test]
async fn unreadable_resync_end_deletes_nothing() {
    let world = World::with(&["a"]).await;
    let mut agent = Agent::of(&world, "a").await;
    agent
        .event(Target::Resync, Verb::RequestResourceResync)
        .await;
    let mut end = Event::request_synced_resource_list(&SyncedResourceList::default());
    end.payload = "{\"checksum\": 7}".into();
    agent
        .send_and_ack(Event::request_update(&unknown(1)[0]))
        .await;
    agent.send_and_ack(end).await;
    wait_for_marker(&world, &mut agent, "one").await;
    assert_eq!(deletes(&agent), 0);
}

#[tokio::test]
async fn mass_delete_waits_for_confirmation_of_its_exact_list() {
    let world = World::with(&["a"]).await;
    let mut agent = Agent::of(&world, "a").await;
    agent.holds(&unknown(11)).await;
    world
        .reported("held", |reports| reports["a"].blocked_deletion.is_some())
        .await;
    let first = pending_deletion(&world).unwrap();
    assert_eq!((first.count, first.names.len()), (11, 11));
    assert_eq!(first.names[0], "Application argocd/old-00");
    wait_for_marker(&world, &mut agent, "one").await;
    assert_eq!(deletes(&agent), 0);

    world.fleet.send_replace(confirming("another"));
    wait_for_marker(&world, &mut agent, "two").await;
    assert_eq!(
        (deletes(&agent), pending_deletion(&world)),
        (0, Some(first.clone()))
    );
    drop(agent);
    world
        .reported("lost", |reports| !reports["a"].connected)
        .await;
    assert_eq!(
        pending_deletion(&world),
        Some(first.clone()),
        "it is still held"
    );

    let mut agent = Agent::of(&world, "a").await;
    agent.holds(&unknown(11)).await;
    wait_for_marker(&world, &mut agent, "three").await;
    assert_eq!(
        (deletes(&agent), pending_deletion(&world)),
        (0, Some(first.clone()))
    );
    world.fleet.send_replace(confirming(&first.digest));
    for object in unknown(11) {
        assert_eq!(agent.about(&object.name).await.verb, Verb::Delete);
    }
    world
        .reported("done", |reports| reports["a"].blocked_deletion.is_none())
        .await;
}

#[tokio::test]
async fn new_enrolment_begins_with_a_first_session() {
    let world = World::with(&["a"]).await;
    let mut before = Agent::empty(&world, "a").await;
    let mut fleet = Fleet::clone(&enrolled(&["a"]));
    fleet.clusters.get_mut("a").unwrap().fresh = true;
    world.fleet.send_replace(Arc::new(fleet));
    before.end().await;
    let mut agent = Agent::of(&world, "a").await;
    agent.holds(&unknown(1)).await;
    wait_for_marker(&world, &mut agent, "one").await;
    assert_eq!(deletes(&agent), 0);
}

#[tokio::test]
async fn fleet_is_followed_after_the_replica_feed_closes() {
    let mut world = World::with(&["a"]).await;
    world.active = watch::Sender::new(true);
    tokio::task::yield_now().await;
    let mut agent = Agent::empty(&world, "a").await;
    world.fleet.send_replace(enrolled(&["ab"]));
    agent.end().await;
    Agent::empty(&world, "ab").await;
}

/// Creates so many, which the agent gets, and which it would name.
async fn delivered(world: &World, agent: &mut Agent, count: usize) -> Vec<RequestUpdate> {
    let mut holds = vec![];
    for number in 0..count {
        let name = format!("app-{number:02}");
        world.create(application("a", &name));
        agent.about(&name).await;
        let there = world.hub.application("a", &name).unwrap();
        let uid = there["metadata"]["uid"].as_str().unwrap();
        holds.push(resync_entry(Kind::Application, &name, uid, None));
    }
    holds
}

/// The hub is restored to a state without them: there are no delete events, but the next list does not have them.
fn lose(world: &World, objects: &[RequestUpdate]) {
    world.hub.break_watches(true);
    for object in objects {
        world.hub.delete(Watched::Application, "a", &object.name);
    }
    world.hub.break_watches(false);
}

#[tokio::test]
async fn hub_restore_during_watch_does_not_bypass_the_brake() {
    let world = World::with(&["a"]).await;
    let mut agent = Agent::empty(&world, "a").await;
    let holds = delivered(&world, &mut agent, 12).await;
    lose(&world, &holds[..11]);
    agent.holds(&holds).await;
    world
        .reported("held", |reports| reports["a"].blocked_deletion.is_some())
        .await;
    wait_for_marker(&world, &mut agent, "one").await;
    assert_eq!(
        (deletes(&agent), pending_deletion(&world).unwrap().count),
        (0, 11)
    );
}

#[tokio::test]
async fn unobserved_deletion_is_found_by_the_next_comparison() {
    let world = World::with(&["a"]).await;
    let mut agent = Agent::empty(&world, "a").await;
    let holds = delivered(&world, &mut agent, 2).await;
    lose(&world, &holds[..1]);
    agent.holds(&holds).await;
    assert_eq!(agent.about("app-00").await.verb, Verb::Delete);
    wait_for_marker(&world, &mut agent, "one").await;
    assert_eq!(deletes(&agent), 0, "the other one stays");
}
