//! Policies for local objects and for replicas of other objects.

use std::sync::Arc;

use agent::config::{Adoption, Mismatch, Recreated};
use argocd::{Meta, keys};
use protocol::payload::{self, ErrorReport};
use protocol::{Mode, Verb};
use serde_json::{Value, json};

use super::api::World;
use super::principal::Manner;
use super::spoke::Setup;
use super::{APPS, about, app, connected, connected_with, revision, scene_with};

/// The successor of the hub's Application: another one of the same name.
fn successor(version: &str) -> Value {
    let mut successor = app("one", version, "next");
    successor["metadata"]["uid"] = "hub-two".into();
    successor
}

fn source(app: Option<&Value>) -> Option<&str> {
    Meta::of(app?).source_uid()
}

#[tokio::test]
async fn predecessor_copy_is_adopted_and_recreated_only_by_policy() {
    let recreates = || {
        let mut setup = Setup::default();
        setup.policy.mismatch = Mismatch::Recreate;
        setup
    };
    let policy = |policy: &str| Some((keys::SOURCE_UID_MISMATCH_POLICY, policy.to_owned()));
    for (setup, annotation, remade) in [
        (Setup::default(), None, false),
        (recreates(), policy("upsert"), false),
        (recreates(), None, true),
        (Setup::default(), policy("recreate"), true),
    ] {
        let (scene, mut talk) = connected_with(Arc::default(), Manner::Ours, setup).await;
        talk.deliver(about(Verb::Create, &app("one", "5", "main")))
            .await;
        let world = &scene.api.world;
        let before = world.object(APPS, "one").unwrap();
        let mut next = successor("6");
        if let Some((key, value)) = annotation {
            next["metadata"]["annotations"] = json!({ key: value });
        }
        talk.deliver(about(Verb::Create, &next)).await;
        if remade {
            let here = world.object(APPS, "one").unwrap();
            assert!(
                Meta::of(&here).is_deleting(),
                "Argo CD is to remove what it deployed first"
            );
            world.edit(APPS, "one", |app| app["metadata"]["finalizers"] = json!([]));
        }
        let there = world.until("the successor", APPS, "one", |app| {
            source(app) == Some("hub-two") && revision(app) == Some("next")
        });
        talk.listens_until(there).await;
        let after = world.object(APPS, "one").unwrap();
        let same = Meta::of(&after).uid() == Meta::of(&before).uid();
        assert_eq!(same, !remade, "{:?}", world.writes());
    }
}

/// A spoke with a local Application that has this adoption policy.
fn own(adoption: Option<&str>) -> Arc<World> {
    let world = Arc::new(World::default());
    let mut own = json!({
        "metadata": { "name": "one", "namespace": "argocd", "annotations": { "local": "kept" } },
        "spec": { "project": "own", "source": { "targetRevision": "own" } },
    });
    if let Some(policy) = adoption {
        own["metadata"]["annotations"][keys::ADOPTION_POLICY] = policy.into();
    }
    world.make(APPS, own);
    world
}

#[tokio::test]
async fn a_local_application_is_adopted_in_place() {
    let mut never = Setup::default();
    never.policy.adoption = Adoption::Never;
    for (world, setup) in [(own(None), Setup::default()), (own(Some("always")), never)] {
        let (scene, mut talk) = connected_with(world, Manner::Ours, setup).await;
        let before = scene.api.world.object(APPS, "one").unwrap();
        talk.deliver(about(Verb::Create, &app("one", "5", "main")))
            .await;
        let after = scene.api.world.object(APPS, "one").unwrap();
        assert_eq!(Meta::of(&after).uid(), Meta::of(&before).uid());
        assert_eq!(source(Some(&after)), Some("hub-one"));
        assert_eq!(revision(Some(&after)), Some("main"));
        assert_eq!(Meta::of(&after).annotation("local"), Some("kept"));
        assert_eq!(scene.api.world.writes(), ["patch one"]);
    }
}

#[tokio::test]
async fn refused_adoption_is_reported_to_both_kinds_of_principal() {
    let mut never = Setup::default();
    never.policy.adoption = Adoption::Never;
    for (world, setup) in [(own(None), never), (own(Some("never")), Setup::default())] {
        let (scene, mut talk) =
            connected_with(Arc::clone(&world), Manner::Ours, setup.clone()).await;
        talk.emit(about(Verb::Create, &app("one", "5", "main")))
            .await;
        let answer = talk.acknowledged("one_hub-one_5").await;
        let refused = answer.extensions.get("refused").unwrap();
        assert!(refused.contains("set to never"), "{refused}");
        scene.spoke.stop();
        talk.closed().await;

        let mut scene = scene_with(Arc::clone(&world), Manner::Go, setup).await;
        let mut talk = scene.principal.conversation().await;
        talk.emit(about(Verb::Create, &app("one", "5", "main")))
            .await;
        let reply = talk.until(Verb::Error).await;
        let reply: ErrorReport = payload::decode("error", &reply.payload).unwrap();
        assert_eq!(
            (
                reply.resource_name.as_str(),
                reply.resource_namespace.as_str()
            ),
            ("one", "spoke1")
        );
        assert!(reply.message.contains("set to never"), "{}", reply.message);
        let here = world.object(APPS, "one").unwrap();
        assert_eq!(
            (source(Some(&here)), revision(Some(&here))),
            (None, Some("own"))
        );
        assert!(world.writes().is_empty(), "{:?}", world.writes());
    }
}

#[tokio::test]
async fn local_deletion_with_resync_policy_starts_a_sync() {
    for (recreated, syncs) in [(Recreated::Ignore, false), (Recreated::Resync, true)] {
        let mut setup = Setup::default();
        setup.policy.recreated = recreated;
        let (scene, mut talk) = connected_with(Arc::default(), Manner::Ours, setup).await;
        talk.deliver(about(Verb::Create, &app("one", "5", "main")))
            .await;
        let world = &scene.api.world;
        assert!(world.object(APPS, "one").unwrap()["operation"].is_null());
        world.remove(APPS, "one");
        let there = world.until("the return", APPS, "one", |app| app.is_some());
        talk.listens_until(there).await;
        let operation = &world.object(APPS, "one").unwrap()["operation"];
        assert_eq!(operation["sync"].is_object(), syncs, "{operation}");
    }
}

fn label(app: &mut Value, value: Option<&str>) {
    app["metadata"]["labels"] = match value {
        Some(value) => json!({ keys::IGNORE_SYNC: value }),
        None => json!({}),
    };
}

#[tokio::test]
async fn a_replica_with_the_ignore_label_is_untouched_until_its_removal() {
    let (scene, mut talk) = connected(Manner::Ours).await;
    talk.deliver(about(Verb::Create, &app("one", "5", "main")))
        .await;
    let world = &scene.api.world;
    world.edit(APPS, "one", |app| {
        label(app, Some("true"));
        app["spec"]["source"]["targetRevision"] = "mine".into();
        app["status"] = json!({ "health": "seen" });
    });
    talk.until_fits(Verb::StatusUpdate, |event| {
        String::from_utf8_lossy(&event.payload).contains("seen")
    })
    .await;
    talk.deliver(about(Verb::SpecUpdate, &app("one", "6", "next")))
        .await;
    assert_eq!(world.writes(), ["create one"]);
    world.edit(APPS, "one", |app| label(app, None));
    let again = world.until(
        "the state that the hub sent meanwhile",
        APPS,
        "one",
        |app| revision(app) == Some("next"),
    );
    talk.listens_until(again).await;
}

#[tokio::test]
async fn ignored_objects_of_autonomous_cluster_are_not_mirrored() {
    let mut setup = Setup::default();
    setup.scope.mode = Mode::Autonomous;
    let world = own(None);
    let mut scene = scene_with(Arc::clone(&world), Manner::Go, setup).await;
    let mut talk = scene.principal.conversation().await;
    let names_it =
        |event: &protocol::Event| event.object().is_some_and(|object| object.name == "one");
    talk.until_fits(Verb::Create, names_it).await;
    world.edit(APPS, "one", |app| label(app, Some("true")));
    talk.until_fits(Verb::Delete, names_it).await;
    world.edit(APPS, "one", |app| label(app, Some("false")));
    talk.until_any(&[Verb::Create, Verb::SpecUpdate]).await;
    assert!(world.writes().is_empty(), "{:?}", world.writes());
}
