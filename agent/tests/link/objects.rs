//! Objects of the hub, their commands and their statuses.

use std::sync::Arc;

use agent::session::LinkState;
use argocd::{Meta, keys};
use live::cluster_info::Census;
use protocol::payload::{self, ArgoCd, SpokeInfo};
use protocol::{Event, Target, Verb};
use serde_json::{Value, json};

use super::api::{Api, World};
use super::principal::Manner;
use super::spoke::Setup;
use super::{APPS, about, app, connected, connected_with, inventory, revision, scene_in};

#[tokio::test]
async fn an_application_of_the_hub_is_created_and_its_status_reported() {
    let (scene, mut talk) = connected(Manner::Ours).await;
    assert_eq!(talk.authorization, "header.payload.signature");
    let asked = scene.principal.asked_first();
    assert_eq!(
        (asked.method.as_str(), asked.mode.as_str()),
        ("mtls", "managed")
    );
    assert_eq!(
        (asked.version.as_str(), asked.agent_namespace.as_str()),
        ("9.8.7", "argocd")
    );

    talk.emit(about(Verb::Create, &app("one", "5", "main")))
        .await;
    talk.acknowledged("one_hub-one_5").await;
    let here = scene.api.world.object(APPS, "one").unwrap();
    assert_eq!(Meta::of(&here).source_uid(), Some("hub-one"));
    assert_eq!(Meta::of(&here).namespace(), "argocd");

    scene.api.world.edit(APPS, "one", |app| {
        app["status"] = json!({ "health": "Healthy" });
    });
    let reported = talk
        .until_fits(Verb::StatusUpdate, |event| {
            let body: Value = serde_json::from_slice(&event.payload).unwrap();
            body["status"]["health"] == "Healthy" && Meta::of(&body).source_uid() == Some("hub-one")
        })
        .await;
    assert_eq!(reported.subject.as_deref(), Some("argocd/one"));
    assert_eq!(scene.api.world.writes(), ["create one"]);
}

#[tokio::test]
async fn plugin_environment_is_written_verbatim() {
    let (scene, mut talk) = connected(Manner::Ours).await;
    let plugin = json!({
        "name": "ksops",
        "env": [{ "name": "SOPS_AGE_KEY_FILE", "value": "/keys/age.txt" }, { "name": "EMPTY", "value": "" }],
        "parameters": [{ "name": "files", "array": ["secret.enc.yaml", ""] }, { "name": "none", "map": {} }],
    });
    let mut wanted = app("one", "5", "main");
    wanted["spec"]["source"]["plugin"] = plugin.clone();
    talk.deliver(about(Verb::Create, &wanted)).await;
    let here = scene.api.world.object(APPS, "one").unwrap();
    let source = |app: &Value| app["spec"]["source"].to_string();
    assert_eq!(source(&here), source(&wanted));
    wanted = app("one", "6", "main");
    wanted["spec"]["sources"] = json!([{ "repoURL": "git://repo", "plugin": plugin }]);
    talk.deliver(about(Verb::SpecUpdate, &wanted)).await;
    let here = scene.api.world.object(APPS, "one").unwrap();
    let sources = |app: &Value| app["spec"]["sources"].to_string();
    assert_eq!(
        (source(&here), sources(&here)),
        (source(&wanted), sources(&wanted))
    );
    assert_eq!(scene.api.world.writes(), ["create one", "patch one"]);
}

#[tokio::test]
async fn a_local_edit_is_reverted_and_a_deleted_application_recreated() {
    let (scene, mut talk) = connected(Manner::Ours).await;
    talk.deliver(about(Verb::Create, &app("one", "5", "main")))
        .await;
    let world = &scene.api.world;
    world.edit(APPS, "one", |app| {
        app["spec"]["source"]["targetRevision"] = "hacked".into();
    });
    world
        .until("the revert", APPS, "one", |app| {
            revision(app) == Some("main")
        })
        .await;
    world.remove(APPS, "one");
    let there = world.until("the return", APPS, "one", |app| app.is_some());
    talk.listens_until(there).await;
}

fn argocd(event: &Event) -> Option<ArgoCd> {
    let info: SpokeInfo = payload::decode("spoke", &event.payload).unwrap();
    info.argo_cd
}

#[tokio::test]
async fn a_missing_argo_cd_is_reported_and_its_installation_resumes_work() {
    let world = Arc::new(World::default());
    world.serve(false);
    let mut scene = scene_in(world, Manner::Ours).await;
    let mut talk = scene.principal.conversation().await;
    let info = talk.until(Verb::ClusterInfoUpdate).await;
    assert_eq!(argocd(&info), Some(ArgoCd::Missing));
    inventory(&mut talk).await;
    scene.spoke.is(LinkState::Up).await;
    talk.emit(about(Verb::Create, &app("one", "5", "main")))
        .await;

    let world = &scene.api.world;
    world.serve(true);
    let info = talk
        .until_fits(Verb::ClusterInfoUpdate, |event| {
            argocd(event) == Some(ArgoCd::Installed)
        })
        .await;
    assert_eq!(info.target, Target::ClusterInfo);
    // Its acknowledgement may have arrived before.
    let there = world.until("the Application", APPS, "one", |app| app.is_some());
    talk.listens_until(there).await;

    // An administrator removes it with all Applications, and installs it again.
    world.serve(false);
    talk.until_fits(Verb::ClusterInfoUpdate, |event| {
        argocd(event) == Some(ArgoCd::Missing)
    })
    .await;
    world.serve(true);
    world
        .until("the return", APPS, "one", |app| app.is_some())
        .await;
}

#[tokio::test]
async fn cluster_stats_reach_both_kinds_of_principal() {
    let counted = |applications| Census {
        applications,
        apis: 50,
        resources: 300,
        server_version: Some("1.36".to_owned()),
    };
    let (scene, mut talk) = connected(Manner::Ours).await;
    for applications in [1, 2] {
        scene.spoke.census.send_replace(Some(counted(applications)));
        let event = talk
            .until_fits(Verb::ClusterInfoUpdate, |event| {
                let info: SpokeInfo = payload::decode("spoke", &event.payload).unwrap();
                info.applications_count == Some(applications)
            })
            .await;
        let info: SpokeInfo = payload::decode("spoke", &event.payload).unwrap();
        assert_eq!(info.argo_cd, Some(ArgoCd::Installed), "in one message");
        assert_eq!(info.server_version.as_deref(), Some("1.36"));
    }

    let (scene, mut talk) = connected(Manner::Go).await;
    scene.spoke.census.send_replace(Some(counted(1)));
    let event = talk.until(Verb::ClusterInfoUpdate).await;
    assert_eq!(
        event.payload.as_ref(),
        br#"{"applicationsCount":1,"apisCount":50,"resourcesCount":300}"#
    );
}

#[tokio::test]
async fn a_sync_that_is_sent_twice_runs_once() {
    let (scene, mut talk) = connected(Manner::Ours).await;
    talk.deliver(about(Verb::Create, &app("one", "5", "main")))
        .await;
    let mut command = app("one", "6", "main");
    command["operation"] = json!({ "sync": { "revision": "main" } });
    let command = about(Verb::SetOperation, &command);
    talk.emit(command.clone()).await;
    talk.acknowledged(&command.event_id).await;
    let world = &scene.api.world;
    // Argo CD takes the operation and finishes it.
    world.edit(APPS, "one", |app| {
        drop(app.as_object_mut().unwrap().remove("operation"));
    });
    let writes = world.writes().len();
    talk.until_fits(Verb::StatusUpdate, |event| {
        !String::from_utf8_lossy(&event.payload).contains("\"operation\":")
    })
    .await;
    talk.emit(command.clone()).await;
    talk.acknowledged(&command.event_id).await;
    assert_eq!(world.writes().len(), writes, "{:?}", world.writes());
}

#[tokio::test]
async fn watches_resume_after_a_restart_of_the_api_server() {
    let (mut scene, mut talk) = connected(Manner::Ours).await;
    talk.deliver(about(Verb::Create, &app("one", "5", "main")))
        .await;
    let (world, address) = (Arc::clone(&scene.api.world), scene.api.address);
    scene.api.stop().await;
    // Meanwhile the hub sends a change, and a user edits the replica.
    talk.emit(about(Verb::SpecUpdate, &app("one", "6", "next")))
        .await;
    world.edit(APPS, "one", |app| app["spec"]["project"] = "hacked".into());
    scene.api = Api::start_at(Arc::clone(&world), address).await;
    talk.acknowledged("one_hub-one_6").await;
    world
        .until("the last state of the hub", APPS, "one", |app| {
            revision(app) == Some("next") && app.unwrap()["spec"]["project"] == "default"
        })
        .await;
}

#[tokio::test]
async fn a_stale_patch_does_not_change_a_replaced_object() {
    for values in [json!({}), json!({ "key": null })] {
        let (scene, mut talk) = connected(Manner::Ours).await;
        talk.deliver(about(Verb::Create, &app("one", "5", "main")))
            .await;
        let world = &scene.api.world;
        world
            .until("the watch", APPS, "one", |app| app.is_some())
            .await;
        talk.until(Verb::StatusUpdate).await;

        world.pause_watches(true);
        world.replace(APPS, "one");
        let mut next = app("one", "6", "next");
        next["spec"]["source"]["helm"] = json!({ "valuesObject": values });
        talk.emit(about(Verb::SpecUpdate, &next)).await;
        world.until_written("patch one", 2).await;
        let here = world.object(APPS, "one");
        assert_eq!(
            revision(here.as_ref()),
            Some("main"),
            "a stale patch counts"
        );

        world.pause_watches(false);
        let answer = talk.acknowledged("one_hub-one_6").await;
        assert_eq!(answer.extensions.get("refused"), None);
        let here = world.object(APPS, "one");
        assert_eq!(revision(here.as_ref()), Some("next"));
    }
}

#[tokio::test]
async fn an_application_is_refreshed_when_its_missing_project_appears() {
    let (scene, mut talk) = connected(Manner::Ours).await;
    talk.deliver(about(Verb::Create, &app("one", "5", "main")))
        .await;
    let world = &scene.api.world;
    let missing = json!([{
        "type": "InvalidSpecError",
        "message": "Application referencing project default which does not exist",
    }]);
    world.edit(APPS, "one", |app| {
        app["status"] = json!({ "conditions": missing });
    });
    talk.until(Verb::StatusUpdate).await;
    let asked = |app: Option<&Value>| {
        app.and_then(|app| Meta::of(app).annotation(keys::REFRESH)) == Some("normal")
    };
    let is_asked = || asked(world.object(APPS, "one").as_ref());
    assert!(!is_asked(), "the project does not exist");
    world.make(
        "appprojects",
        json!({ "metadata": { "name": "default", "namespace": "argocd" }, "spec": {} }),
    );
    world.until("the refresh", APPS, "one", asked).await;
}

#[tokio::test]
async fn an_object_deleted_before_the_watch_reported_it_is_recreated() {
    let (scene, mut talk) = connected(Manner::Ours).await;
    let world = &scene.api.world;
    world.pause_watches(true);
    talk.deliver(about(Verb::Create, &app("one", "5", "main")))
        .await;
    world.remove(APPS, "one");
    world.forget_history();
    world.pause_watches(false);
    let there = world.until("the return", APPS, "one", |app| app.is_some());
    talk.listens_until(there).await;
    assert_eq!(world.writes(), ["create one", "create one"]);
}

/// `--label-selector` restricts watches, not the objects that the hub may deliver.
#[tokio::test]
async fn objects_outside_the_label_selector_do_not_count_as_gone() {
    let mut setup = Setup::default();
    setup.scope.label_selector = "team=a".to_owned();
    let (scene, mut talk) = connected_with(Arc::default(), Manner::Ours, setup).await;
    let world = &scene.api.world;
    talk.deliver(about(Verb::Create, &app("one", "5", "main")))
        .await;
    let mut seen = app("seen", "6", "main");
    seen["metadata"]["labels"] = json!({ "team": "a" });
    talk.deliver(about(Verb::Create, &seen)).await;
    for round in ["first", "second", "third"] {
        world.forget_history();
        world.edit(APPS, "seen", |app| {
            app["status"] = json!({ "health": round });
        });
        // The next list or a later event reports this object; no list has the other one.
        talk.until_fits(Verb::StatusUpdate, |event| {
            String::from_utf8_lossy(&event.payload).contains(round)
        })
        .await;
    }
    talk.emit(about(Verb::SpecUpdate, &app("one", "10", "next")))
        .await;
    let answer = talk.acknowledged("one_hub-one_10").await;
    assert_eq!(answer.extensions.get("refused"), None);
    let here = world.object(APPS, "one");
    assert_eq!(revision(here.as_ref()), Some("next"));
    let makes = world.writes();
    let makes = makes.iter().filter(|write| *write == "create one");
    assert_eq!(makes.count(), 1);
}
