//! What a spoke holds and the hub does not know goes, but never by mistake.

use std::sync::Arc;

use principal::{BlockedDeletion, Fleet, store::Watched};
use protocol::{
    Event, Kind, Target, Verb,
    payload::{RequestUpdate, SyncedResourceList},
};
use tokio::sync::watch;

use crate::{
    agent::{Agent, retained},
    world::{World, application, enrolled},
};

fn unknown(count: usize) -> Vec<RequestUpdate> {
    (0..count)
        .map(|number| {
            let name = format!("old-{number:02}");
            retained(Kind::Application, &name, &format!("uid-{name}"), None)
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

/// Deletes are said before everything that comes later, so this one shows that they were all.
async fn all_was_sent(world: &World, agent: &mut Agent, name: &str) {
    world.create(application("a", name));
    agent.about(name).await;
}

fn reply(world: &World) -> Option<BlockedDeletion> {
    world.handle.sessions.borrow()["a"].blocked_deletion.clone()
}

fn confirming(digest: &str) -> Arc<Fleet> {
    let mut fleet = Fleet::clone(&enrolled(&["a"]));
    fleet.clusters.get_mut("a").unwrap().confirm_delete = Some(digest.to_owned());
    Arc::new(fleet)
}

#[tokio::test]
async fn nothing_goes_before_the_last_word_or_on_a_list_that_is_cut() {
    let world = World::with(&["a"]).await;
    let mut agent = Agent::of(&world, "a").await;
    agent
        .event(Target::Resync, Verb::RequestResourceResync)
        .await;
    let objects = unknown(2);
    agent.notify(Event::request_update(&objects[0])).await;
    all_was_sent(&world, &mut agent, "one").await;
    assert_eq!(deletes(&agent), 0, "it may have more to say");
    agent.ends(&objects).await;
    all_was_sent(&world, &mut agent, "two").await;
    assert_eq!(deletes(&agent), 0, "one of the list was not named");
    agent.notify(Event::request_update(&objects[1])).await;
    agent.ends(&objects).await;
    assert_eq!(agent.about("old-00").await.verb, Verb::Delete);
    assert_eq!(agent.about("old-01").await.verb, Verb::Delete);
}

#[tokio::test]
async fn an_end_that_cannot_be_read_is_none() {
    let world = World::with(&["a"]).await;
    let mut agent = Agent::of(&world, "a").await;
    agent
        .event(Target::Resync, Verb::RequestResourceResync)
        .await;
    let mut end = Event::request_synced_resource_list(&SyncedResourceList::default());
    end.payload = "{\"checksum\": 7}".into();
    agent.notify(Event::request_update(&unknown(1)[0])).await;
    agent.notify(end).await;
    all_was_sent(&world, &mut agent, "one").await;
    assert_eq!(deletes(&agent), 0);
}

#[tokio::test]
async fn a_mass_delete_is_held_until_a_person_has_confirmed_this_very_list() {
    let world = World::with(&["a"]).await;
    let mut agent = Agent::of(&world, "a").await;
    agent.holds(&unknown(11)).await;
    world
        .reported("held", |reports| reports["a"].blocked_deletion.is_some())
        .await;
    let first = reply(&world).unwrap();
    assert_eq!((first.count, first.names.len()), (11, 11));
    assert_eq!(first.names[0], "Application argocd/old-00");
    all_was_sent(&world, &mut agent, "one").await;
    assert_eq!(deletes(&agent), 0);

    world.fleet.send_replace(confirming("another"));
    all_was_sent(&world, &mut agent, "two").await;
    assert_eq!((deletes(&agent), reply(&world)), (0, Some(first.clone())));
    drop(agent);
    world
        .reported("lost", |reports| !reports["a"].connected)
        .await;
    assert_eq!(reply(&world), Some(first.clone()), "it is still held");

    let mut agent = Agent::of(&world, "a").await;
    agent.holds(&unknown(11)).await;
    all_was_sent(&world, &mut agent, "three").await;
    assert_eq!((deletes(&agent), reply(&world)), (0, Some(first.clone())));
    world.fleet.send_replace(confirming(&first.digest));
    for object in unknown(11) {
        assert_eq!(agent.about(&object.name).await.verb, Verb::Delete);
    }
    world
        .reported("done", |reports| reports["a"].blocked_deletion.is_none())
        .await;
}

#[tokio::test]
async fn an_enrolment_that_begins_anew_begins_with_a_first_session() {
    let world = World::with(&["a"]).await;
    let mut before = Agent::empty(&world, "a").await;
    let mut fleet = Fleet::clone(&enrolled(&["a"]));
    fleet.clusters.get_mut("a").unwrap().fresh = true;
    world.fleet.send_replace(Arc::new(fleet));
    before.end().await;
    let mut agent = Agent::of(&world, "a").await;
    agent.holds(&unknown(1)).await;
    all_was_sent(&world, &mut agent, "one").await;
    assert_eq!(deletes(&agent), 0);
}

#[tokio::test]
async fn the_fleet_is_followed_when_nothing_tells_of_the_replica_any_more() {
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
        holds.push(retained(Kind::Application, &name, uid, None));
    }
    holds
}

/// The hub is put back to a state without them: nobody sees them go, but the next list lacks them.
fn lose(world: &World, objects: &[RequestUpdate]) {
    world.hub.break_watches(true);
    for object in objects {
        world.hub.delete(Watched::Application, "a", &object.name);
    }
    world.hub.break_watches(false);
}

#[tokio::test]
async fn a_hub_that_is_put_back_while_it_is_watched_does_not_get_round_the_brake() {
    let world = World::with(&["a"]).await;
    let mut agent = Agent::empty(&world, "a").await;
    let holds = delivered(&world, &mut agent, 12).await;
    lose(&world, &holds[..11]);
    agent.holds(&holds).await;
    world
        .reported("held", |reports| reports["a"].blocked_deletion.is_some())
        .await;
    all_was_sent(&world, &mut agent, "one").await;
    assert_eq!((deletes(&agent), reply(&world).unwrap().count), (0, 11));
}

#[tokio::test]
async fn a_deletion_that_nobody_saw_is_found_by_a_comparison_at_once() {
    let world = World::with(&["a"]).await;
    let mut agent = Agent::empty(&world, "a").await;
    let holds = delivered(&world, &mut agent, 2).await;
    lose(&world, &holds[..1]);
    agent.holds(&holds).await;
    assert_eq!(agent.about("app-00").await.verb, Verb::Delete);
    all_was_sent(&world, &mut agent, "one").await;
    assert_eq!(deletes(&agent), 0, "the other one stays");
}
