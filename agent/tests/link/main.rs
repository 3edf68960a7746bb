//! The agent's whole link in one process: real TLS and gRPC to a scripted principal, real HTTP to an
//! API server in memory.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail as tests do"
)]

mod api;
mod lane;
mod principal;
mod spoke;
mod trust;
mod wait;

use std::collections::HashMap;
use std::sync::Arc;

use agent::link::LinkState;
use api::{Api, World};
use argocd::{Meta, keys};
use bytes::Bytes;
use principal::{Conversation, Manner, NONCE, PRINCIPAL_UID, Principal};
use protocol::payload::{self, ArgoCd, RequestUpdate, SpokeInfo};
use protocol::wire::cloudevents::CloudEvent;
use protocol::wire::cloudevents::cloud_event::Data;
use protocol::{Event, Kind, ObjectKey, Target, Verb};
use serde_json::{Value, json};
use spoke::Spoke;
use tonic::Status;
use trust::Authority;

const APPS: &str = "applications";

struct Scene {
    authority: Authority,
    api: Api,
    principal: Principal,
    spoke: Spoke,
}

async fn scene(manner: Manner) -> Scene {
    scene_in(Arc::default(), manner).await
}

async fn scene_in(world: Arc<World>, manner: Manner) -> Scene {
    runtime::install_crypto_provider();
    let authority = Authority::new();
    let api = Api::start(world).await;
    let principal = Principal::start(&authority, manner).await;
    let material = authority.material("spoke1", &authority.pem());
    let spoke = Spoke::start(&api, &principal, material);
    Scene {
        authority,
        api,
        principal,
        spoke,
    }
}

/// A scene and its first session, after the agent has told what it holds.
async fn connected(manner: Manner) -> (Scene, Conversation) {
    let mut scene = scene(manner).await;
    let mut talk = scene.principal.conversation().await;
    told(&mut talk).await;
    scene.spoke.is(LinkState::Up).await;
    (scene, talk)
}

/// What the agent holds, as it answers the question.
async fn told(talk: &mut Conversation) -> Vec<RequestUpdate> {
    talk.say(Event::request_resource_resync()).await;
    let mut held = vec![];
    loop {
        let event = talk
            .until_any(&[Verb::RequestUpdate, Verb::RequestSyncedResourceList])
            .await;
        if event.verb == Verb::RequestSyncedResourceList {
            return held;
        }
        held.push(payload::decode("request-update", &event.payload).unwrap());
    }
}

fn app(name: &str, version: &str, revision: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "spoke1", "uid": format!("hub-{name}"),
            "resourceVersion": version, "finalizers": [keys::RESOURCES_FINALIZER],
        },
        "spec": {
            "project": "default",
            "source": { "repoURL": "git://repo", "targetRevision": revision },
            "destination": { "name": "spoke1", "namespace": "guestbook" },
        },
    })
}

fn about(verb: Verb, app: &Value) -> Event {
    let meta = Meta::of(app);
    let key = ObjectKey::new(Kind::Application, meta.namespace(), meta.name());
    let body = Bytes::from(app.to_string());
    Event::about(&key, verb, meta.uid(), meta.resource_version(), body)
        .from_principal(PRINCIPAL_UID)
}

fn revision(app: Option<&Value>) -> Option<&str> {
    app?.pointer("/spec/source/targetRevision")?.as_str()
}

#[tokio::test]
async fn an_application_of_the_hub_appears_and_its_status_comes_back() {
    let (scene, mut talk) = connected(Manner::Ours).await;
    assert_eq!(talk.authorization, "header.payload.signature");
    let asked = scene
        .principal
        .authenticated
        .lock()
        .unwrap()
        .first()
        .cloned()
        .unwrap();
    assert_eq!(
        (asked.method.as_str(), asked.mode.as_str()),
        ("mtls", "managed")
    );
    assert_eq!(
        (asked.version.as_str(), asked.agent_namespace.as_str()),
        ("9.8.7", "argocd")
    );

    talk.say(about(Verb::Create, &app("one", "5", "main")))
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
async fn garbage_ends_neither_the_session_nor_the_agent() {
    let (scene, mut talk) = connected(Manner::Ours).await;
    talk.say_raw(None).await;
    talk.say_raw(Some(CloudEvent::default())).await;
    let nameless = CloudEvent {
        attributes: HashMap::new(),
        ..about_raw("x")
    };
    talk.say_raw(Some(nameless)).await;

    let mut broken = about(Verb::Create, &app("broken", "1", "main"));
    broken.payload = Bytes::from_static(b"{\"metadata\": [[[");
    let mut elsewhere = about(Verb::Create, &app("elsewhere", "1", "main"));
    elsewhere.subject = Some("spoke1/other".to_owned());
    let path = about(Verb::Create, &app("..", "1", "main"));
    let empty = about(
        Verb::SpecUpdate,
        &json!({ "metadata": { "name": "e", "namespace": "spoke1" } }),
    );
    for event in [broken, elsewhere, path, empty] {
        let id = event.event_id.clone();
        talk.say(event).await;
        let answer = talk.acknowledged(&id).await;
        assert!(answer.extensions.contains_key("refused"), "{answer:?}");
    }
    talk.say(about(Verb::Create, &app("good", "1", "main")))
        .await;
    talk.acknowledged("good_hub-good_1").await;
    assert_eq!(scene.api.world.writes(), ["create good"]);
}

fn about_raw(kind: &str) -> CloudEvent {
    CloudEvent {
        r#type: kind.to_owned(),
        data: Some(Data::BinaryData(Bytes::from_static(b"\0\xff"))),
        ..CloudEvent::default()
    }
}

#[tokio::test]
async fn after_a_lost_connection_the_agent_names_what_it_holds() {
    let (mut scene, mut talk) = connected(Manner::Ours).await;
    let wanted = app("one", "5", "main");
    talk.say(about(Verb::Create, &wanted)).await;
    talk.acknowledged("one_hub-one_5").await;
    talk.end(Status::unavailable("going away")).await;
    drop(talk);

    let mut again = scene.principal.conversation().await;
    again.until(Verb::StatusUpdate).await;
    let held = told(&mut again).await;
    let [only] = held.as_slice() else {
        panic!("{held:?}")
    };
    assert_eq!((only.name.as_str(), only.uid.as_str()), ("one", "hub-one"));
    assert_eq!(
        only.digest.as_deref(),
        Some(argocd::digest::agreed(&wanted).as_str())
    );
}

#[tokio::test]
async fn a_principal_that_was_away_is_found_again() {
    let (mut scene, talk) = connected(Manner::Ours).await;
    scene.principal.stop();
    drop(talk);
    scene.spoke.is(LinkState::Down).await;
    let address = scene.principal.address;
    scene.principal = Principal::start_at(&scene.authority, Manner::Ours, address).await;
    let mut again = scene.principal.conversation().await;
    told(&mut again).await;
    scene.spoke.is(LinkState::Up).await;
}

#[tokio::test]
async fn a_local_edit_is_reverted_and_a_deleted_application_comes_back() {
    let (scene, mut talk) = connected(Manner::Ours).await;
    talk.say(about(Verb::Create, &app("one", "5", "main")))
        .await;
    talk.acknowledged("one_hub-one_5").await;
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

#[tokio::test]
async fn a_deletion_on_the_hub_cascades_and_is_reported_when_it_is_done() {
    let (scene, mut talk) = connected(Manner::Ours).await;
    talk.say(about(Verb::Create, &app("one", "5", "main")))
        .await;
    talk.acknowledged("one_hub-one_5").await;
    let mut going = app("one", "6", "main");
    going["metadata"]["deletionTimestamp"] = "2026-11-20T10:00:00Z".into();
    talk.say(about(Verb::SpecUpdate, &going)).await;
    talk.acknowledged("one_hub-one_6").await;
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
async fn what_was_just_made_can_be_deleted_before_a_watch_has_told_of_it() {
    for (verb, gone) in [(Verb::SpecUpdate, false), (Verb::Delete, true)] {
        let (scene, mut talk) = connected(Manner::Ours).await;
        let world = &scene.api.world;
        world.hold_watches(true);
        talk.say(about(Verb::Create, &app("one", "5", "main")))
            .await;
        talk.acknowledged("one_hub-one_5").await;
        let mut going = app("one", "6", "main");
        going["metadata"]["deletionTimestamp"] = "2026-11-20T10:00:00Z".into();
        talk.say(about(verb, &going)).await;
        talk.acknowledged("one_hub-one_6").await;
        let here = world.object(APPS, "one");
        assert_eq!(here.is_none(), gone);
        assert!(here.is_none_or(|here| Meta::of(&here).is_deleting()));
    }
}

fn argocd(event: &Event) -> Option<ArgoCd> {
    let info: SpokeInfo = payload::decode("spoke", &event.payload).unwrap();
    info.argo_cd
}

#[tokio::test]
async fn without_argo_cd_the_agent_connects_says_so_and_goes_on_when_it_comes() {
    let world = Arc::new(World::default());
    world.serve(false);
    let mut scene = scene_in(world, Manner::Ours).await;
    let mut talk = scene.principal.conversation().await;
    let said = talk.until(Verb::ClusterInfoUpdate).await;
    assert_eq!(argocd(&said), Some(ArgoCd::Missing));
    told(&mut talk).await;
    scene.spoke.is(LinkState::Up).await;
    talk.say(about(Verb::Create, &app("one", "5", "main")))
        .await;

    let world = &scene.api.world;
    world.serve(true);
    let said = talk
        .until_fits(Verb::ClusterInfoUpdate, |event| {
            argocd(event) == Some(ArgoCd::Installed)
        })
        .await;
    assert_eq!(said.target, Target::ClusterInfo);
    // Its acknowledgement may have come before.
    let there = world.until("the Application", APPS, "one", |app| app.is_some());
    talk.listens_until(there).await;

    // It goes with all Applications, and comes back.
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
async fn a_sync_that_is_sent_twice_runs_once() {
    let (scene, mut talk) = connected(Manner::Ours).await;
    talk.say(about(Verb::Create, &app("one", "5", "main")))
        .await;
    talk.acknowledged("one_hub-one_5").await;
    let mut command = app("one", "6", "main");
    command["operation"] = json!({ "sync": { "revision": "main" } });
    let command = about(Verb::SetOperation, &command);
    talk.say(command.clone()).await;
    talk.acknowledged(&command.event_id).await;
    let world = &scene.api.world;
    // Argo CD takes it and is done with it.
    world.edit(APPS, "one", |app| {
        drop(app.as_object_mut().unwrap().remove("operation"));
    });
    let writes = world.writes().len();
    talk.until_fits(Verb::StatusUpdate, |event| {
        !String::from_utf8_lossy(&event.payload).contains("\"operation\":")
    })
    .await;
    talk.say(command.clone()).await;
    talk.acknowledged(&command.event_id).await;
    assert_eq!(world.writes().len(), writes, "{:?}", world.writes());
}

#[tokio::test]
async fn an_api_server_that_restarts_is_found_again() {
    let (mut scene, mut talk) = connected(Manner::Ours).await;
    talk.say(about(Verb::Create, &app("one", "5", "main")))
        .await;
    talk.acknowledged("one_hub-one_5").await;
    let (world, address) = (Arc::clone(&scene.api.world), scene.api.address);
    scene.api.stop().await;
    // Meanwhile the hub goes on, and somebody edits what is here.
    talk.say(about(Verb::SpecUpdate, &app("one", "6", "next")))
        .await;
    world.edit(APPS, "one", |app| app["spec"]["project"] = "hacked".into());
    scene.api = Api::start_at(Arc::clone(&world), address).await;
    talk.acknowledged("one_hub-one_6").await;
    world
        .until("the last word of the hub", APPS, "one", |app| {
            revision(app) == Some("next") && app.unwrap()["spec"]["project"] == "default"
        })
        .await;
}

#[tokio::test]
async fn a_go_principal_is_told_without_asking_and_before_it_speaks() {
    let mut scene = scene(Manner::Go).await;
    let mut talk = scene.principal.conversation().await;
    // The first message went to the principal before it opened the stream.
    talk.say(about(Verb::Create, &app("one", "5", "main")))
        .await;
    talk.acknowledged("one_hub-one_5").await;
    scene.spoke.is(LinkState::Up).await;
    let here = scene.api.world.object(APPS, "one").unwrap();
    assert_eq!(Meta::of(&here).principal_uid(), Some(PRINCIPAL_UID));
    assert_eq!(Meta::of(&here).namespace(), "argocd");
}

#[tokio::test]
async fn one_more_trusted_authority_is_told_on_the_same_connection_and_one_less_makes_a_new_one() {
    let (mut scene, mut talk) = connected(Manner::Ours).await;
    talk.say(about(Verb::Create, &app("one", "5", "main")))
        .await;
    talk.acknowledged("one_hub-one_5").await;
    let other = Authority::new();
    let both = format!("{}{}", scene.authority.pem(), other.pem());
    scene
        .spoke
        .material
        .send_replace(scene.authority.material("spoke1", &both));
    let trusted = |said: &Event| {
        let info: SpokeInfo = payload::decode("spoke", &said.payload).unwrap();
        info.trusts.map(|all| all.len())
    };
    while trusted(&talk.until(Verb::ClusterInfoUpdate).await) != Some(2) {}
    let alone = scene.authority.pem();
    scene
        .spoke
        .material
        .send_replace(scene.authority.material("spoke1", &alone));
    talk.closed().await;
    let mut again = scene.principal.conversation().await;
    assert_eq!(told(&mut again).await.len(), 1);
}

#[tokio::test]
async fn a_principal_of_another_authority_is_not_talked_to() {
    runtime::install_crypto_provider();
    let (ours, theirs) = (Authority::new(), Authority::new());
    let api = Api::start(Arc::new(World::default())).await;
    let principal = Principal::start(&theirs, Manner::Ours).await;
    let spoke = Spoke::start(&api, &principal, ours.material("spoke1", &ours.pem()));
    let refused = async {
        let labels = agent::metrics::EndLabels {
            reason: "TlsFailed",
        };
        while spoke.metrics.link_ends.get_or_create(&labels).get() < 2 {
            tokio::task::yield_now().await;
        }
    };
    wait::soon("two refusals", refused).await;
    assert!(principal.authenticated.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_silent_principal_is_left() {
    let (mut scene, mut talk) = connected(Manner::Ours).await;
    // It reads everything and says nothing, as behind a proxy that lost it.
    talk.closed().await;
    scene.spoke.is(LinkState::Down).await;
}

#[tokio::test]
async fn an_agent_that_is_asked_to_stop_says_goodbye() {
    let (scene, mut talk) = connected(Manner::Ours).await;
    scene.spoke.stop();
    talk.closed().await;
}

#[tokio::test]
async fn what_was_decided_about_an_object_is_not_done_to_one_that_replaced_it() {
    for values in [json!({}), json!({ "key": null })] {
        let (scene, mut talk) = connected(Manner::Ours).await;
        talk.say(about(Verb::Create, &app("one", "5", "main")))
            .await;
        talk.acknowledged("one_hub-one_5").await;
        let world = &scene.api.world;
        world
            .until("the watch", APPS, "one", |app| app.is_some())
            .await;
        talk.until(Verb::StatusUpdate).await;

        world.hold_watches(true);
        world.replace(APPS, "one");
        let mut next = app("one", "6", "next");
        next["spec"]["source"]["helm"] = json!({ "valuesObject": values });
        talk.say(about(Verb::SpecUpdate, &next)).await;
        world.until_written("patch one", 2).await;
        let here = world.object(APPS, "one");
        assert_eq!(
            revision(here.as_ref()),
            Some("main"),
            "a stale patch counts"
        );

        world.hold_watches(false);
        let answer = talk.acknowledged("one_hub-one_6").await;
        assert_eq!(answer.extensions.get("refused"), None);
        let here = world.object(APPS, "one");
        assert_eq!(revision(here.as_ref()), Some("next"));
    }
}

#[tokio::test]
async fn a_delete_by_the_hub_means_what_has_the_name_now() {
    let (scene, mut talk) = connected(Manner::Ours).await;
    talk.say(about(Verb::Create, &app("one", "5", "main")))
        .await;
    talk.acknowledged("one_hub-one_5").await;
    // Deleted, made again and deleted again, before any of it was said.
    let mut successor = app("one", "9", "main");
    successor["metadata"]["uid"] = "hub-two".into();
    let delete = about(Verb::Delete, &successor);
    talk.say(delete.clone()).await;
    talk.acknowledged(&delete.event_id).await;
    let world = &scene.api.world;
    world
        .until("the end", APPS, "one", |app| app.is_none())
        .await;
    // The finalizer went first: nobody asked for the workload to go.
    assert_eq!(world.writes(), ["create one", "patch one", "delete one"]);
}

#[tokio::test]
async fn what_no_watch_has_told_of_is_not_said_to_be_gone() {
    let (scene, mut talk) = connected(Manner::Ours).await;
    let world = &scene.api.world;
    world.hold_watches(true);
    // Another agent of this cluster made it, and we do not see it.
    let mut copy = app("one", "5", "main");
    copy["metadata"] = json!({
        "name": "one", "namespace": "argocd",
        "annotations": { keys::SOURCE_UID: "hub-one", keys::PRINCIPAL_UID: PRINCIPAL_UID },
    });
    world.make(APPS, copy);
    let mut going = app("one", "6", "main");
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    // Nobody plays Argo CD and takes it away.
    going["metadata"]["finalizers"] = json!([]);
    talk.say(about(Verb::SpecUpdate, &going)).await;
    talk.say(about(Verb::Create, &app("two", "7", "main")))
        .await;
    talk.acknowledged("two_hub-two_7").await;

    world.hold_watches(false);
    talk.until(Verb::Delete).await;
    assert_eq!(world.object(APPS, "one"), None);
}

#[tokio::test]
async fn what_argo_cd_saw_before_its_project_is_looked_at_again() {
    let (scene, mut talk) = connected(Manner::Ours).await;
    talk.say(about(Verb::Create, &app("one", "5", "main")))
        .await;
    talk.acknowledged("one_hub-one_5").await;
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
    assert!(!is_asked(), "the project is not here");
    world.make(
        "appprojects",
        json!({ "metadata": { "name": "default", "namespace": "argocd" }, "spec": {} }),
    );
    world.until("the question", APPS, "one", asked).await;
}

#[tokio::test]
async fn an_agent_that_is_asked_proves_the_certificate_it_has_and_else_says_nothing_of_it() {
    let (scene, _talk) = connected(Manner::Proxied).await;
    let asked = scene
        .principal
        .authenticated
        .lock()
        .unwrap()
        .first()
        .cloned()
        .unwrap();
    let proof = asked.proof.unwrap();
    assert_eq!(
        (proof.server_name.as_str(), &proof.nonce[..]),
        ("localhost", NONCE)
    );
    let material = scene.spoke.material.borrow().clone();
    let identity = material.identity.as_ref().unwrap();
    assert_eq!(&proof.chain[0][..], &identity.chain()[0][..]);
    let signed = protocol::proof::signed("localhost", PRINCIPAL_UID, NONCE);
    let algorithms = runtime::credentials::provider().signature_verification_algorithms;
    let scheme = rustls::SignatureScheme::from(u16::try_from(proof.scheme).unwrap());
    let (_, of_scheme) = algorithms
        .mapping
        .iter()
        .find(|(known, _)| *known == scheme)
        .unwrap();
    let leaf = rustls::server::ParsedCertificate::try_from(&identity.chain()[0]).unwrap();
    // The key is the end of its description: a sequence with one bit string behind the algorithm.
    let key = leaf.subject_public_key_info();
    let key = &key[key.len() - 65..];
    assert!(
        of_scheme[0]
            .verify_signature(key, &signed, &proof.signature)
            .is_ok()
    );

    let (scene, _talk) = connected(Manner::Ours).await;
    let asked = scene
        .principal
        .authenticated
        .lock()
        .unwrap()
        .first()
        .cloned()
        .unwrap();
    assert_eq!(asked.proof, None);
}
