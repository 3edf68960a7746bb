//! Deletions by the hub and on the spoke.

use argocd::{Meta, keys};
use protocol::Verb;
use serde_json::{Value, json};

use super::principal::{Manner, PRINCIPAL_UID};
use super::{APPS, about, app, connected};

#[tokio::test]
async fn a_deletion_on_the_hub_cascades_and_its_end_is_reported() {
    let (scene, mut talk) = connected(Manner::Ours).await;
    talk.deliver(about(Verb::Create, &app("one", "5", "main")))
        .await;
    let mut going = app("one", "6", "main");
    going["metadata"]["deletionTimestamp"] = "2026-11-20T10:00:00Z".into();
    talk.deliver(about(Verb::SpecUpdate, &going)).await;
    let here = scene.api.world.object(APPS, "one").unwrap();
    assert!(
        Meta::of(&here).is_deleting(),
        "it waits for Argo CD to remove its resources"
    );

    scene
        .api
        .world
        .edit(APPS, "one", |app| app["metadata"]["finalizers"] = json!([]));
    let gone = talk.until(Verb::Delete).await;
    let body: Value = serde_json::from_slice(&gone.payload).unwrap();
    assert_eq!(Meta::of(&body).source_uid(), Some("hub-one"));
    assert_eq!(scene.api.world.object(APPS, "one"), None);
}

#[tokio::test]
async fn a_created_object_can_be_deleted_before_the_watch_reports_it() {
    for (verb, gone) in [(Verb::SpecUpdate, false), (Verb::Delete, true)] {
        let (scene, mut talk) = connected(Manner::Ours).await;
        let world = &scene.api.world;
        world.pause_watches(true);
        talk.deliver(about(Verb::Create, &app("one", "5", "main")))
            .await;
        let mut going = app("one", "6", "main");
        going["metadata"]["deletionTimestamp"] = "2026-11-20T10:00:00Z".into();
        talk.deliver(about(verb, &going)).await;
        let here = world.object(APPS, "one");
        assert_eq!(here.is_none(), gone);
        assert!(here.is_none_or(|here| Meta::of(&here).is_deleting()));
    }
}

#[tokio::test]
async fn a_deleting_object_is_not_deleted_again_while_the_watch_is_late() {
    let (scene, mut talk) = connected(Manner::Ours).await;
    let world = &scene.api.world;
    talk.deliver(about(Verb::Create, &app("one", "5", "main")))
        .await;
    world.pause_watches(true);
    for version in ["6", "7"] {
        let mut going = app("one", version, "main");
        going["metadata"]["deletionTimestamp"] = "2026-11-20T10:00:00Z".into();
        talk.deliver(about(Verb::SpecUpdate, &going)).await;
    }
    let deletes = world
        .writes()
        .iter()
        .filter(|it| *it == "delete one")
        .count();
    assert_eq!(deletes, 1, "{:?}", world.writes());
}

#[tokio::test]
async fn a_delete_by_the_hub_applies_to_the_replica_of_that_name() {
    let (scene, mut talk) = connected(Manner::Ours).await;
    talk.deliver(about(Verb::Create, &app("one", "5", "main")))
        .await;
    // The hub deleted, recreated and deleted the object before it sent any of that.
    let mut successor = app("one", "9", "main");
    successor["metadata"]["uid"] = "hub-two".into();
    let delete = about(Verb::Delete, &successor);
    talk.emit(delete.clone()).await;
    talk.acknowledged(&delete.event_id).await;
    let world = &scene.api.world;
    world
        .until("the end", APPS, "one", |app| app.is_none())
        .await;
    // The agent removes the finalizer first: no user requested the deletion of the workload.
    assert_eq!(world.writes(), ["create one", "patch one", "delete one"]);
}

#[tokio::test]
async fn an_object_that_no_watch_has_reported_is_not_reported_as_gone() {
    let (scene, mut talk) = connected(Manner::Ours).await;
    let world = &scene.api.world;
    world.pause_watches(true);
    // Another agent of this cluster created it, and our watches do not report it.
    let mut copy = app("one", "5", "main");
    copy["metadata"] = json!({
        "name": "one", "namespace": "argocd",
        "annotations": { keys::SOURCE_UID: "hub-one", keys::PRINCIPAL_UID: PRINCIPAL_UID },
    });
    world.make(APPS, copy);
    let mut going = app("one", "6", "main");
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    // No Argo CD runs that would remove the finalizer.
    going["metadata"]["finalizers"] = json!([]);
    talk.emit(about(Verb::SpecUpdate, &going)).await;
    talk.deliver(about(Verb::Create, &app("two", "7", "main")))
        .await;

    world.pause_watches(false);
    talk.until(Verb::Delete).await;
    assert_eq!(world.object(APPS, "one"), None);
}

/// Upstream's agent recreated such an Application forever: argocd-agent#1056.
#[tokio::test]
async fn concurrent_deletion_on_both_sides_converges() {
    for watched in [true, false] {
        let (scene, mut talk) = connected(Manner::Ours).await;
        talk.deliver(about(Verb::Create, &app("one", "5", "main")))
            .await;
        let world = &scene.api.world;
        talk.until(Verb::StatusUpdate).await;
        world.pause_watches(!watched);
        world.edit(APPS, "one", |app| {
            app["metadata"]["deletionTimestamp"] = "2026-11-20T10:00:00Z".into();
            if !watched {
                app["metadata"]["finalizers"] = json!([]);
            }
        });
        let mut going = app("one", "6", "main");
        going["metadata"]["deletionTimestamp"] = "2026-11-20T10:00:00Z".into();
        talk.emit(about(Verb::SpecUpdate, &going)).await;
        if watched {
            talk.acknowledged("one_hub-one_6").await;
            world.edit(APPS, "one", |app| app["metadata"]["finalizers"] = json!([]));
        } else {
            let tried = world.until_written("delete one", 1);
            talk.listens_until(tried).await;
            world.pause_watches(false);
        }
        let gone = talk.until(Verb::Delete).await;
        let body: Value = serde_json::from_slice(&gone.payload).unwrap();
        assert_eq!(Meta::of(&body).source_uid(), Some("hub-one"));
        // The agent handles the next message after all effects of the deletion.
        talk.deliver(about(Verb::Create, &app("two", "7", "main")))
            .await;
        assert_eq!(world.object(APPS, "one"), None);
        let makes = world.writes();
        let makes = makes.iter().filter(|write| *write == "create one");
        assert_eq!(makes.count(), 1);
    }
}
