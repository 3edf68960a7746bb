//! One session per cluster, for as long as the hub wants it.

use std::{sync::Arc, time::Duration};

use principal::{ArgoCd, Fleet, store::Memory};
use protocol::{Event, Kind, Target, Verb, payload::SpokeInfo};
use runtime::credentials::Material;
use tonic::Code;

use crate::{
    agent::{Agent, Caller, body, replica, report, request, resync_entry},
    authority::Authority,
    world::{World, application, enrolled},
};
use serde_json::json;

#[tokio::test]
async fn newer_session_replaces_the_older_which_gets_a_reason() {
    let world = World::with(&["a"]).await;
    let mut older = Agent::empty(&world, "a").await;
    let mut newer = Agent::empty(&world, "a").await;
    let status = older.end().await;
    assert_eq!(
        (status.code(), status.message()),
        (Code::Unavailable, "superseded by a newer session")
    );
    world.create(application("a", "app"));
    newer
        .event(Target::Object(Kind::Application), Verb::Create)
        .await;
    assert!(world.handle.sessions.borrow()["a"].connected);
    world
        .counted("argocd_principal_session_ends_total{reason=\"superseded\"} 1")
        .await;
    world.counted("argocd_principal_connected_agents 1").await;
}

#[tokio::test]
async fn unenrolment_ends_the_session_at_once_and_deletes_nothing() {
    let world = World::with(&["a", "ab"]).await;
    world.create(application("a", "app"));
    let mut leaving = Agent::empty(&world, "a").await;
    let mut staying = Agent::empty(&world, "ab").await;
    leaving
        .event(Target::Object(Kind::Application), Verb::Create)
        .await;
    world.fleet.send_replace(enrolled(&["ab"]));
    assert_eq!(leaving.end().await.code(), Code::Unauthenticated);
    assert!(
        leaving
            .unread(Kind::Application)
            .iter()
            .all(|event| event.verb != Verb::Delete)
    );
    world
        .reported("forgotten", |reports| !reports.contains_key("a"))
        .await;
    let caller = Caller::new(&world, &world.certificate("a")).await;
    assert_eq!(
        caller.authenticate(request()).await.unwrap_err().code(),
        Code::Unauthenticated
    );

    world.create(application("ab", "app"));
    staying
        .event(Target::Object(Kind::Application), Verb::Create)
        .await;
}

#[tokio::test]
async fn removing_a_ca_ends_the_sessions_of_its_certificates() {
    let world = World::with(&["a"]).await;
    let mut agent = Agent::empty(&world, "a").await;

    // A new serving certificate alone ends no session.
    let renewed = world.authority.server().material(&world.authority);
    world.material.send_replace(Arc::new(renewed));
    world.create(application("a", "app"));
    agent
        .event(Target::Object(Kind::Application), Verb::Create)
        .await;

    world.material.send_replace(distrusting(&world));
    assert_eq!(agent.end().await.code(), Code::Unauthenticated);
}

/// Our own certificate, and no trusted CA of clients.
fn distrusting(world: &World) -> Arc<Material> {
    let mut distrusting = world.authority.server().material(&world.authority);
    let other = Authority::new();
    distrusting.roots = other.server().material(&other).roots;
    Arc::new(distrusting)
}

#[tokio::test]
async fn connection_from_before_ca_removal_opens_no_streams() {
    let world = World::with(&["a"]).await;
    let caller = Caller::new(&world, &world.certificate("a")).await;
    let tokens = caller.authenticate(request()).await.unwrap();
    world.material.send_replace(distrusting(&world));
    let mut agent = caller.subscribe(Some(&tokens.access_token)).await.unwrap();
    assert_eq!(agent.end().await.code(), Code::Unauthenticated);
}

/// An old Pod that was left behind, or a copy of the key: both reconnect as soon as they are disconnected.
#[tokio::test]
async fn duplicate_agents_settle_on_one_session_and_are_reported() {
    let world = World::with(&["a"]).await;
    let certificate = world.certificate("a");
    let caller = Caller::new(&world, &certificate).await;
    let token = caller.authenticate(request()).await.unwrap().access_token;
    let mut sitting = caller.subscribe(Some(&token)).await.unwrap();
    for _ in 0..6 {
        let newer = caller.subscribe(Some(&token)).await.unwrap();
        let status = sitting.end().await;
        assert_eq!(status.message(), "superseded by a newer session");
        sitting = newer;
    }
    world
        .reported("a second agent", |reports| {
            let message = reports["a"].misconduct.as_deref().unwrap_or_default();
            message.contains("two agents with the same identity") && reports["a"].connected
        })
        .await;
    // When the current agent disconnects, the next one gets the slot without a retry.
    let mut waiting = caller.subscribe(Some(&token)).await.unwrap();
    drop(sitting);
    waiting.holds(&[]).await;
    world.create(application("a", "app"));
    waiting
        .event(Target::Object(Kind::Application), Verb::Create)
        .await;
}

#[tokio::test]
async fn missed_heartbeat_ends_session_unless_agent_never_sent_one() {
    let world = World::set(Memory::new(), &["a", "ab"], |settings| {
        settings.limits.silence = Duration::from_millis(200);
    })
    .await;
    let mut quiet = Agent::empty(&world, "ab").await;
    let mut beating = Agent::empty(&world, "a").await;
    for _ in 0..2 {
        let answer = beating.send_and_ack(Event::ping()).await;
        assert_eq!(answer.verb, Verb::Processed);
    }
    assert_eq!(beating.end().await.code(), Code::Ok);
    world
        .reported("why", |reports| {
            let why = reports["a"].last_error.as_deref().unwrap_or_default();
            !reports["a"].connected && why.contains("the agent timed out")
        })
        .await;
    // It was silent for longer than that, and sends no heartbeat that could be missed.
    assert!(world.handle.sessions.borrow()["ab"].connected);
    world.create(application("ab", "app"));
    quiet
        .event(Target::Object(Kind::Application), Verb::Create)
        .await;
}

#[tokio::test]
async fn cluster_name_prefix_grants_no_access() {
    let world = World::with(&["a", "ab"]).await;
    world.create(application("ab", "app"));
    let theirs = world.hub.application("ab", "app").unwrap();
    let uid = theirs["metadata"]["uid"].as_str().unwrap().to_owned();
    let mut owner = Agent::empty(&world, "ab").await;
    owner
        .event(Target::Object(Kind::Application), Verb::Create)
        .await;

    let mut a = Agent::of(&world, "a").await;
    a.holds(&[resync_entry(Kind::Application, "app", &uid, None)])
        .await;
    let stub = a.about("app").await;
    assert_eq!(stub.verb, Verb::Delete, "it should not have it");
    assert!(
        body(&stub).get("spec").is_none(),
        "and learns nothing about it"
    );

    let forged =
        json!({ "status": { "sync": { "status": "Forged" } }, "operation": { "sync": {} } });
    a.send_and_ack(report(Verb::StatusUpdate, &replica(&theirs, &forged)))
        .await;
    a.send_and_ack(report(Verb::Delete, &replica(&theirs, &json!({}))))
        .await;
    assert_eq!(world.hub.application("ab", "app").unwrap(), theirs);
    assert_eq!(world.hub.writes(), 0);
    world
        .counted("argocd_principal_events_refused_total{reason=\"not_theirs\"} 1")
        .await;
}

#[tokio::test]
async fn report_shows_lost_connection() {
    let world = World::with(&["a"]).await;
    let agent = Agent::empty(&world, "a").await;
    world
        .reported("connected", |reports| reports["a"].connected)
        .await;
    drop(agent);
    world
        .reported("lost", |reports| {
            let report = &reports["a"];
            !report.connected && report.last_error.is_some() && report.last_seen.is_some()
        })
        .await;
    assert_eq!(
        world.handle.sessions.borrow()["a"].agent_version.as_deref(),
        Some("0.9.0")
    );
}

#[tokio::test]
async fn first_session_after_enrolment_deletes_nothing() {
    let world = World::with(&["a"]).await;
    let fresh = |fresh: bool| {
        let mut fleet = Fleet::clone(&enrolled(&["a"]));
        fleet.clusters.get_mut("a").unwrap().fresh = fresh;
        Arc::new(fleet)
    };
    world.fleet.send_replace(fresh(true));
    let entries = [resync_entry(
        Kind::Application,
        "old",
        "uid-of-before",
        None,
    )];
    let mut first = Agent::of(&world, "a").await;
    first.holds(&entries).await;
    world.create(application("a", "app"));
    first.about("app").await;
    assert!(
        first
            .unread(Kind::Application)
            .iter()
            .all(|event| event.verb != Verb::Delete)
    );

    world.fleet.send_replace(fresh(false));
    let mut second = Agent::of(&world, "a").await;
    second.holds(&entries).await;
    assert_eq!(second.about("old").await.verb, Verb::Delete);
}

#[tokio::test]
async fn argo_cd_state_is_reported_and_survives_the_session() {
    let world = World::with(&["a"]).await;
    let mut agent = Agent::empty(&world, "a").await;
    let message = |argo_cd| {
        Event::spoke_info(&SpokeInfo {
            argo_cd,
            ..SpokeInfo::default()
        })
    };
    for argocd in [ArgoCd::Missing, ArgoCd::Installed, ArgoCd::Missing] {
        agent.send_and_ack(message(Some(argocd))).await;
        assert_eq!(world.handle.sessions.borrow()["a"].argocd, Some(argocd));
    }
    drop(agent);
    world
        .reported("its end", |reports| !reports["a"].connected)
        .await;
    assert_eq!(
        world.handle.sessions.borrow()["a"].argocd,
        Some(ArgoCd::Missing)
    );

    let mut agent = Agent::empty(&world, "a").await;
    let mut garbage = message(None);
    garbage.payload = "[[{".into();
    agent.send_and_ack(garbage).await;
    assert_eq!(world.handle.sessions.borrow()["a"].argocd, None);
}
