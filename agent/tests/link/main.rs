//! The agent's sessions and tunnels in one process: real TLS and gRPC to a scripted principal, real HTTP
//! to an API server in memory.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail as tests do"
)]

mod agent_tunnel;
mod api;
mod applications;
mod cache;
mod deletions;
mod objects;
mod operate;
mod policies;
mod principal;
mod questions;
mod sessions;
mod spoke;
mod terminals;
mod trust;
mod wait;

use std::sync::Arc;

use agent::session::LinkState;
use api::{Api, World};
use argocd::{Meta, keys};
use bytes::Bytes;
use principal::{Conversation, Manner, PRINCIPAL_UID, Principal};
use protocol::payload::{self, RequestUpdate};
use protocol::{Event, Kind, ObjectKey, Verb};
use serde_json::{Value, json};
use spoke::{Setup, Spoke};
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
    scene_with(world, manner, Setup::default()).await
}

async fn scene_with(world: Arc<World>, manner: Manner, setup: Setup) -> Scene {
    runtime::install_crypto_provider();
    let authority = Authority::new();
    let principal = Principal::start(&authority, manner).await;
    scene_of(world, authority, principal, setup).await
}

async fn scene_of(
    world: Arc<World>,
    authority: Authority,
    principal: Principal,
    setup: Setup,
) -> Scene {
    let api = Api::start(world).await;
    let material = authority.material("spoke1", &authority.pem());
    let spoke = Spoke::start(&api, &principal, material, setup);
    Scene {
        authority,
        api,
        principal,
        spoke,
    }
}

/// A scene and its first session, after the agent has sent its inventory.
async fn connected(manner: Manner) -> (Scene, Conversation) {
    connected_with(Arc::default(), manner, Setup::default()).await
}

/// A scene and its first session, of an agent with these settings, on a spoke with objects.
async fn connected_with(world: Arc<World>, manner: Manner, setup: Setup) -> (Scene, Conversation) {
    begun(scene_with(world, manner, setup).await).await
}

/// A scene and its first session, with a principal that issues this access token.
async fn connected_to(manner: Manner, access: &str) -> (Scene, Conversation) {
    runtime::install_crypto_provider();
    let authority = Authority::new();
    let principal = Principal::start(&authority, manner).await;
    principal.set_access_token(access);
    begun(scene_of(Arc::default(), authority, principal, Setup::default()).await).await
}

async fn begun(mut scene: Scene) -> (Scene, Conversation) {
    let mut talk = scene.principal.conversation().await;
    inventory(&mut talk).await;
    scene.spoke.is(LinkState::Up).await;
    (scene, talk)
}

/// Requests the agent's inventory.
async fn inventory(talk: &mut Conversation) -> Vec<RequestUpdate> {
    talk.emit(Event::request_resource_resync()).await;
    let mut inventory = vec![];
    loop {
        let event = talk
            .until_any(&[Verb::RequestUpdate, Verb::RequestSyncedResourceList])
            .await;
        if event.verb == Verb::RequestSyncedResourceList {
            return inventory;
        }
        inventory.push(payload::decode("request-update", &event.payload).unwrap());
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
