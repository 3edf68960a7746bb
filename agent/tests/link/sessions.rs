//! Starts, failures and ends of sessions.

use std::collections::HashMap;
use std::sync::Arc;

use agent::session::LinkState;
use argocd::Meta;
use bytes::Bytes;
use protocol::payload::{self, SpokeInfo};
use protocol::wire::cloudevents::CloudEvent;
use protocol::wire::cloudevents::cloud_event::Data;
use protocol::{Event, Verb};
use serde_json::json;
use tonic::Status;

use super::api::{Api, World};
use super::principal::{Manner, NONCE, PRINCIPAL_UID, Principal};
use super::spoke::{Setup, Spoke};
use super::trust::Authority;
use super::{APPS, about, app, connected, inventory, scene, wait};

#[tokio::test]
async fn garbage_ends_neither_the_session_nor_the_agent() {
    let (scene, mut talk) = connected(Manner::Ours).await;
    talk.emit_raw(None).await;
    talk.emit_raw(Some(CloudEvent::default())).await;
    let nameless = CloudEvent {
        attributes: HashMap::new(),
        ..about_raw("x")
    };
    talk.emit_raw(Some(nameless)).await;

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
        talk.emit(event).await;
        let answer = talk.acknowledged(&id).await;
        assert!(answer.extensions.contains_key("refused"), "{answer:?}");
    }
    talk.deliver(about(Verb::Create, &app("good", "1", "main")))
        .await;
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
async fn agent_unknown_to_its_api_gives_up_the_session() {
    let (mut scene, talk) = connected(Manner::Ours).await;
    scene.api.world.forget_clients(true);
    talk.emit(about(Verb::Create, &app("one", "1", "main")))
        .await;
    scene.spoke.is(LinkState::Down).await;
    assert!(scene.api.world.writes().is_empty());

    scene.api.world.forget_clients(false);
    let mut again = scene.principal.conversation().await;
    again
        .emit(about(Verb::Create, &app("one", "1", "main")))
        .await;
    again.acknowledged("one_hub-one_1").await;
    assert_eq!(scene.api.world.writes(), ["create one"]);
}

#[tokio::test]
async fn after_a_reconnect_the_agent_sends_its_inventory() {
    let (mut scene, mut talk) = connected(Manner::Ours).await;
    let wanted = app("one", "5", "main");
    talk.deliver(about(Verb::Create, &wanted)).await;
    talk.end(Status::unavailable("going away")).await;
    drop(talk);

    let mut again = scene.principal.conversation().await;
    again.until(Verb::StatusUpdate).await;
    let inventory = inventory(&mut again).await;
    let [only] = inventory.as_slice() else {
        panic!("{inventory:?}")
    };
    assert_eq!((only.name.as_str(), only.uid.as_str()), ("one", "hub-one"));
    assert_eq!(
        only.digest.as_deref(),
        Some(argocd::digest::agreed(&wanted).as_str())
    );
}

#[tokio::test]
async fn the_agent_reconnects_to_a_restarted_principal() {
    let (mut scene, talk) = connected(Manner::Ours).await;
    scene.principal.stop();
    drop(talk);
    scene.spoke.is(LinkState::Down).await;
    let address = scene.principal.address;
    scene.principal = Principal::start_at(&scene.authority, Manner::Ours, address).await;
    let mut again = scene.principal.conversation().await;
    inventory(&mut again).await;
    scene.spoke.is(LinkState::Up).await;
}

#[tokio::test]
async fn a_go_principal_gets_the_first_message_without_a_request() {
    let mut scene = scene(Manner::Go).await;
    let mut talk = scene.principal.conversation().await;
    // The first message went to the principal before it opened the stream.
    talk.deliver(about(Verb::Create, &app("one", "5", "main")))
        .await;
    scene.spoke.is(LinkState::Up).await;
    let here = scene.api.world.object(APPS, "one").unwrap();
    assert_eq!(Meta::of(&here).principal_uid(), Some(PRINCIPAL_UID));
    assert_eq!(Meta::of(&here).namespace(), "argocd");
}

#[tokio::test]
async fn trusted_cas_are_reported_without_reconnect() {
    let (mut scene, mut talk) = connected(Manner::Ours).await;
    talk.deliver(about(Verb::Create, &app("one", "5", "main")))
        .await;
    let other = Authority::new();
    let both = format!("{}{}", scene.authority.pem(), other.pem());
    scene
        .spoke
        .material
        .send_replace(scene.authority.material("spoke1", &both));
    let trusted = |event: &Event| {
        let info: SpokeInfo = payload::decode("spoke", &event.payload).unwrap();
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
    assert_eq!(inventory(&mut again).await.len(), 1);
}

#[tokio::test]
async fn a_principal_with_an_untrusted_certificate_is_rejected() {
    runtime::install_crypto_provider();
    let (ours, theirs) = (Authority::new(), Authority::new());
    let api = Api::start(Arc::new(World::default())).await;
    let principal = Principal::start(&theirs, Manner::Ours).await;
    let spoke = Spoke::start(
        &api,
        &principal,
        ours.material("spoke1", &ours.pem()),
        Setup::default(),
    );
    let refused = async {
        while spoke.metrics.link_ends.counted("TlsFailed") < 2 {
            tokio::task::yield_now().await;
        }
    };
    wait::soon("two refusals", refused).await;
    assert!(principal.authenticated.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_silent_principal_times_out() {
    let (mut scene, mut talk) = connected(Manner::Ours).await;
    // It reads everything and sends nothing, as behind a proxy that lost the connection.
    talk.closed().await;
    scene.spoke.is(LinkState::Down).await;
}

#[tokio::test]
async fn a_stopped_agent_closes_its_stream() {
    let (scene, mut talk) = connected(Manner::Ours).await;
    scene.spoke.stop();
    talk.closed().await;
}

#[tokio::test]
async fn certificate_proof_is_sent_only_on_request() {
    let (scene, _talk) = connected(Manner::Proxied).await;
    let asked = scene.principal.asked_first();
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
    let asked = scene.principal.asked_first();
    assert_eq!(asked.proof, None);
}
