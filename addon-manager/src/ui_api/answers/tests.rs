use std::time::Duration;

use diagnosis::testing::{at, now};
use futures::FutureExt as _;
use serde_json::json;
use tokio::time::advance;

use super::*;
use crate::ui_api::{
    pages::MOST,
    testing::{World, application, cluster, path},
};

fn asked(world: &World) -> usize {
    world.hub.change(|state| state.asked)
}

#[tokio::test(start_paused = true)]
async fn answer_is_reused_for_two_seconds_and_follows_changes_after() {
    let world = World::new();
    world.hub.put(application("argocd", "one", "paris"));
    let first = world.fleet().await;
    assert_eq!(first["clusters"][0]["applications"]["total"], 1);
    world.hub.put(application("argocd", "two", "paris"));
    advance(Duration::from_millis(1900)).await;
    let before = asked(&world);
    assert_eq!(world.fleet().await, first);
    assert_eq!(asked(&world), before);
    advance(Duration::from_millis(100)).await;
    let later = world.fleet().await;
    assert_eq!(later["clusters"][0]["applications"]["total"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_pages_at_the_same_time_cost_one_computation() {
    let world = World::new();
    let pages = (0..1000).map(|_| world.fleet());
    futures::future::join_all(pages).await;
    assert_eq!(asked(&world), 1);
}

#[tokio::test]
async fn replica_that_does_not_serve_has_no_facts() {
    let world = World::new();
    for route in [Route::Fleet, cluster("paris"), path("argocd", "one")] {
        world.serving.send_replace(false);
        let (status, answer) = world.ask(&route).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(answer["error"].as_str().unwrap().contains("does not serve"));
        world.serving.send_replace(true);
        world.hub.change(|state| state.synced = false);
        let (status, answer) = world.ask(&route).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(
            answer["next"].as_str().unwrap().contains("wait"),
            "{answer}"
        );
        world.hub.change(|state| state.synced = true);
    }
}

#[tokio::test]
async fn unknown_clusters_and_applications_are_not_found() {
    let world = World::new();
    for route in [cluster("oslo"), path("argocd", "none")] {
        let (status, answer) = world.ask(&route).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{answer}");
    }
}

#[tokio::test]
async fn ended_session_is_seen_at_once() {
    let world = World::new();
    let ended = at("2026-11-22T11:59:50Z");
    world.sessions.send_modify(|sessions| {
        let report = Arc::make_mut(sessions).get_mut("rome").unwrap();
        let report = Arc::make_mut(report);
        (report.connected, report.since) = (false, ended);
    });
    let answer = world.fleet().await;
    let states = [0, 1].map(|it| answer["clusters"][it]["connected"]["state"].clone());
    assert_eq!(states, ["yes", "no"]);
    assert_eq!(answer["clusters"][1]["connected"]["since"], json!(ended));
}

#[tokio::test]
async fn label_without_effect_has_a_row() {
    let world = World::new();
    world
        .hub
        .enrol("siena", &json!({ crate::keys::MODE: "manged" }), &[]);
    let siena = ClusterName::new("siena").unwrap();
    world.hub.change(|state| state.addons.remove(&siena));
    let answer = world.fleet().await;
    assert_eq!(answer["clusters"][2]["name"], "siena");
    assert_eq!(answer["clusters"][2]["lastError"]["reason"], "UnknownMode");
}

#[tokio::test(start_paused = true)]
async fn cluster_has_its_troubles_and_its_last_minutes() {
    let world = World::new();
    for number in 0..102 {
        let mut sick = application("argocd", &format!("sick-{number:03}"), "paris");
        sick["status"]["health"]["status"] = json!("Degraded");
        world.hub.put(sick);
    }
    world.answers.end_minute().await;
    world.clock.set(now() + Duration::from_mins(1));
    world.hub.change(|state| {
        let traffic = principal::Traffic {
            sessions: 1,
            reports: 7,
        };
        state.traffic.insert("paris".to_owned(), traffic);
    });
    world.answers.end_minute().await;
    let (_, answer) = world.ask(&cluster("paris")).await;
    assert_eq!(answer["troubles"].as_array().unwrap().len(), TROUBLES);
    assert_eq!(answer["troubles"][0]["name"], "sick-000");
    assert_eq!(answer["troublesCut"], true);
    assert_eq!(answer["history"].as_array().unwrap().len(), 2);
    assert_eq!(answer["history"][1]["reports"], 7);
    assert_eq!(answer["history"][1]["connected"], true);
    let (_, rome) = world.ask(&cluster("rome")).await;
    assert_eq!(
        (&rome["troubles"], &rome["troublesCut"]),
        (&json!([]), &json!(false))
    );
}

#[tokio::test]
async fn history_ends_when_another_replica_serves() {
    let world = World::new();
    world.answers.end_minute().await;
    world.serving.send_replace(false);
    world.answers.end_minute().await;
    world.serving.send_replace(true);
    let (_, answer) = world.ask(&cluster("paris")).await;
    assert_eq!(answer["history"], json!([]));
}

#[tokio::test]
async fn path_names_the_older_namesake() {
    let world = World::new();
    world.hub.put(application("argocd", "shop", "paris"));
    let mut younger = application("paris", "shop", "paris");
    younger["metadata"]["creationTimestamp"] = json!("2026-11-21T08:00:00Z");
    world.hub.put(younger);
    let (status, answer) = world.ask(&path("paris", "shop")).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert_eq!(
        (&answer["cluster"], &answer["verdict"]),
        (&json!("paris"), &json!("bad"))
    );
    assert!(
        answer["hops"][1]["what"]
            .as_str()
            .unwrap()
            .contains("namespace argocd")
    );
    assert_eq!(answer["connection"]["state"], "yes");
}

#[tokio::test]
async fn path_does_not_wait_for_answers_about_clusters() {
    let world = World::new();
    world.hub.put(application("argocd", "shop", "paris"));
    let _computing = world.answers.remembered.lock().await;
    let (route, headers) = (path("argocd", "shop"), http::HeaderMap::new());
    let answered = world.answers.answer(&route, &headers).now_or_never();
    assert_eq!(answered.unwrap().status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn remembered_answers_are_bounded_and_forgotten() {
    let world = World::new();
    for number in 0..MOST + 50 {
        let name = format!("app-{number}");
        world.hub.put(application("argocd", &name, "paris"));
        let (status, _) = world.ask(&path("argocd", &name)).await;
        assert_eq!(status, StatusCode::OK);
    }
    let kept = async || {
        let remembered = world.answers.remembered.lock().await;
        (
            lock(&world.answers.pages).0.len(),
            remembered.fleet.is_some(),
        )
    };
    world.fleet().await;
    assert_eq!(kept().await, (MOST, true));
    advance(FORGET).await;
    world.answers.end_minute().await;
    assert_eq!(kept().await, (0, false));
}
