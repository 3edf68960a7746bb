//! Who asks for the tree of an Application looks at it: what its cluster noted of it comes to the hub.

use argocd::keys;
use jiff::Timestamp;
use protocol::wire::authapi::AuthRequest;
use serde_json::json;
use tokio::net::TcpStream;

use super::*;
use crate::{
    agent::request,
    resource_proxy::whole,
    world::{autonomous, open_project},
};

const FIELDS: &str = "involvedObject.kind%3DApplication%2CinvolvedObject.name%3D";

/// As Argo CD's application controller on the cluster notes it.
fn event(uid: &str, app: &str, reason: &str) -> serde_json::Value {
    let now = Timestamp::now().to_string();
    json!({
        "metadata": { "namespace": "argocd", "name": format!("{app}.{uid}"), "uid": uid },
        "involvedObject": {
            "kind": "Application", "namespace": "argocd", "name": app, "uid": "theirs",
        },
        "reason": reason,
        "message": "it is so",
        "type": "Normal",
        "source": { "component": "argocd-application-controller" },
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
    })
}

/// A client asks for the tree, and the cluster for which Events it is asked then.
async fn looked(client: &mut Client<TcpStream>, tunnel: &mut AgentTunnel, app: &str) -> Asked {
    let tree = format!("app|resources-tree|{app}|1.8.3.gz");
    client.send(&[b"get", tree.as_bytes()]).await;
    code(tunnel.next().await, 404);
    client.response().await.unwrap();
    bounded("a look", tunnel.events.recv()).await.unwrap()
}

fn target(asked: &Asked) -> String {
    asked.request.uri().path_and_query().unwrap().to_string()
}

/// The cluster has these.
fn has(asked: Asked, events: &[serde_json::Value]) {
    let list = json!({ "kind": "EventList", "items": events }).to_string();
    asked.answer(whole(list.leak().as_bytes()));
}

fn reasons(hub: &Memory) -> Vec<String> {
    let events = hub.all_events().into_values();
    let reason = |event: serde_json::Value| event["reason"].as_str().unwrap().to_owned();
    let mut reasons: Vec<_> = events.map(reason).collect();
    reasons.sort();
    reasons
}

async fn on(hub: Memory) -> World {
    let world = World::set(hub, &["a"], |settings| {
        settings.redis_proxy = Some(RedisProxy {
            listen: ([127, 0, 0, 1], 0).into(),
            tls: false,
            largest_value: 1 << 20,
            remembered: 1 << 20,
        });
    })
    .await;
    world.put_redis("127.0.0.1:1", Some(PASSWORD));
    world
}

#[tokio::test]
async fn viewing_a_tree_copies_cluster_events_to_the_hub_once() {
    let hub = Memory::new();
    hub.put(Watched::Application, application("a", "guestbook"));
    let mut moved = application("argocd", "moved");
    moved["spec"]["destination"] = json!({ "name": "a", "namespace": "work" });
    hub.put(Watched::Application, moved);
    hub.put(Watched::AppProject, open_project("default"));
    let completed = event("1", "guestbook", "OperationCompleted");
    {
        let world = on(hub.clone()).await;
        let mut tunnel = AgentTunnel::of(&world, "a").await;
        let mut client = Client::of(&world).await;
        let asked = looked(&mut client, &mut tunnel, "a_guestbook").await;
        let question = format!("/api/v1/namespaces/argocd/events?fieldSelector={FIELDS}guestbook");
        assert_eq!(target(&asked), format!("{question}&limit=500"));
        has(asked, std::slice::from_ref(&completed));
        world
            .until("it is there", |hub| !reasons(hub).is_empty())
            .await;
        let events = hub.all_events();
        let (key, made) = events.first_key_value().unwrap();
        assert_eq!(key.namespace, "a");
        let of = &made["involvedObject"];
        let shown = hub.application("a", "guestbook").unwrap();
        assert_eq!(
            (&of["namespace"], &of["name"]),
            (&json!("a"), &json!("guestbook"))
        );
        assert_eq!(of["uid"], shown["metadata"]["uid"]);

        // Another look within the pause waits for its end, and what is no tree is no look.
        for key in [TREE, b"app|managed-resources|a_guestbook|1.8.3.gz"] {
            client.send(&[b"get", key]).await;
            code(tunnel.next().await, 404);
            client.response().await.unwrap();
        }
        assert!(tunnel.events.try_recv().is_err());

        let asked = looked(&mut client, &mut tunnel, "moved").await;
        assert!(
            target(&asked).contains("name%3Dmoved"),
            "{}",
            target(&asked)
        );
        has(asked, &[event("2", "moved", "ResourceUpdated")]);
        let all = ["OperationCompleted", "ResourceUpdated"];
        world
            .until("both are there", |hub| reasons(hub) == all)
            .await;
        let events = hub.all_events();
        assert!(events.keys().any(|key| key.namespace == "argocd"));
    }
    // Another principal on the same hub knows nothing of the one before.
    let world = on(hub.clone()).await;
    let mut tunnel = AgentTunnel::of(&world, "a").await;
    let mut client = Client::of(&world).await;
    let asked = looked(&mut client, &mut tunnel, "a_guestbook").await;
    has(
        asked,
        &[completed, event("3", "guestbook", "ResourceDeleted")],
    );
    world
        .until("the third is there", |hub| reasons(hub).len() == 3)
        .await;
    assert_eq!(hub.event_writes(), 3, "no other write");
}

#[tokio::test]
async fn autonomous_cluster_events_are_requested_by_their_own_uid() {
    let hub = Memory::new();
    let mut mirror = application("a", "own");
    mirror["metadata"]["annotations"] =
        json!({ keys::MIRRORED_FROM: "a", keys::SOURCE_UID: "theirs" });
    hub.put(Watched::Application, mirror);
    let world = on(hub).await;
    world.fleet.send_replace(autonomous(&["a"]));
    let request = AuthRequest {
        mode: "autonomous".to_owned(),
        ..request()
    };
    let mut tunnel = AgentTunnel::open(&world, "a", request).await;
    world.counted("argocd_principal_lanes 1").await;
    let mut client = Client::of(&world).await;
    let asked = looked(&mut client, &mut tunnel, "a_own").await;
    let question = target(&asked);
    assert!(
        question.contains("involvedObject.uid%3Dtheirs"),
        "{question}"
    );
    has(asked, &[event("1", "own", "OperationCompleted")]);
    world
        .until("it is there", |hub| !reasons(hub).is_empty())
        .await;
}

#[tokio::test]
async fn an_event_refused_by_the_hub_does_not_block_others() {
    let world = lonely().await;
    world.hub.refuse_events("Bad");
    let mut tunnel = AgentTunnel::of(&world, "a").await;
    let mut client = Client::of(&world).await;
    let asked = looked(&mut client, &mut tunnel, "a_guestbook").await;
    let both = [("2", "Bad"), ("1", "Good")].map(|(uid, reason)| event(uid, "guestbook", reason));
    has(asked, &both);
    world
        .until("the good one", |hub| reasons(hub) == ["Good"])
        .await;
    assert_eq!(world.hub.event_writes(), 2);
}

#[tokio::test]
async fn no_events_are_written_for_a_deleted_application() {
    let world = lonely().await;
    world.create(application("a", "other"));
    let mut tunnel = AgentTunnel::of(&world, "a").await;
    let mut client = Client::of(&world).await;
    let asked = looked(&mut client, &mut tunnel, "a_guestbook").await;
    world.hub.delete(Watched::Application, "a", "guestbook");
    let get = ["get", str::from_utf8(TREE).unwrap()];
    let going = async {
        // Until then its agent is asked for the tree.
        loop {
            tokio::select! {
                response = client.ask(&get) => if response.as_error().is_some() { break },
                asked = tunnel.next() => code(asked, 404),
            }
        }
    };
    bounded("it is gone", going).await;
    has(asked, &[event("1", "guestbook", "OperationCompleted")]);
    let mut client = Client::of(&world).await;
    let asked = looked(&mut client, &mut tunnel, "a_other").await;
    has(asked, &[event("2", "other", "ResourceUpdated")]);
    world
        .until("the other one's", |hub| !reasons(hub).is_empty())
        .await;
    assert_eq!(reasons(&world.hub), ["ResourceUpdated"]);
}

#[tokio::test]
async fn cluster_without_event_access_is_tolerated() {
    for refused in [true, false] {
        let world = lonely().await;
        let mut tunnel = AgentTunnel::of(&world, "a").await;
        let mut client = Client::of(&world).await;
        let asked = looked(&mut client, &mut tunnel, "a_guestbook").await;
        if refused {
            code(asked, 403);
        } else {
            asked.answer(whole(b"{\"items\":[{\"count\":\"many\"}]}"));
        }
        // What people asked for is answered as before.
        let value = got(&mut client, &mut tunnel, b"tree").await;
        assert_eq!(value.as_bytes(), Some(&b"tree"[..]));
        assert_eq!(reasons(&world.hub), [""; 0]);
    }
}
