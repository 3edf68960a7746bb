//! Argo CD on the hub reads its redis: the redis proxy over real TCP, before a real redis, and agents
//! that answer on tunnels by hand.

use std::{io, sync::Arc};

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Response, header::CONTENT_LENGTH};
use live::resp::{self, Kind, Limits, Value};
use principal::{
    RedisProxy,
    store::{Memory, Watched},
};
use runtime::credentials::client_config;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_stream::wrappers::ReceiverStream;

use crate::{
    authority::{Authority, Leaf},
    resource_proxy::{AgentTunnel, Asked, stream},
    world::{World, application, bounded},
};

mod event_refresh;
mod limits;
mod page;
mod peers;
mod subscriptions;

use peers::{Client, Redis, free_address};

const PASSWORD: &str = "secret";
const TREE: &[u8] = b"app|resources-tree|a_guestbook|1.8.3.gz";
const CHANNEL: &[u8] = b"app|managed-resources|a_guestbook|1.8.3";
const LARGE: Limits = Limits {
    depth: 8,
    elements: 1 << 16,
    line: 8 << 10,
    bytes: 64 << 20,
};

/// A hub with an Application on cluster a and one of its own, before this redis.
async fn world(server: String, tls: bool) -> World {
    let hub = Memory::new();
    hub.put(Watched::Application, application("a", "guestbook"));
    hub.put(Watched::Application, application("argocd", "local"));
    let world = World::set(hub, &["a"], |settings| {
        settings.redis_proxy = Some(RedisProxy {
            listen: ([127, 0, 0, 1], 0).into(),
            tls,
            largest_value: 40 << 20,
            remembered: 1 << 20,
        });
    })
    .await;
    world.put_redis(&server, Some(PASSWORD));
    world
}

/// The same where the hub's redis is not there.
async fn lonely() -> World {
    world(free_address().await.to_string(), false).await
}

/// Answers with a value of known length.
fn found(asked: Asked, length: usize, pieces: Vec<io::Result<Bytes>>) {
    let mut response = Response::new(stream(futures::stream::iter(pieces).boxed()));
    response.headers_mut().insert(CONTENT_LENGTH, length.into());
    let _unheard = asked.answer.send(response);
}

fn code(asked: Asked, code: u16) {
    let mut response = Response::new(stream(futures::stream::empty().boxed()));
    *response.status_mut() = code.try_into().unwrap();
    let _unheard = asked.answer.send(response);
}

/// The answers to a get, and what the agent was asked.
async fn got(
    client: &mut Client<TcpStream>,
    tunnel: &mut AgentTunnel,
    value: &'static [u8],
) -> Value {
    client.send(&[b"get", TREE]).await;
    let asked = tunnel.next().await;
    let target = asked.request.uri().path_and_query().unwrap().as_str();
    assert_eq!(
        target,
        "/argocd/cache/resources-tree/-/guestbook/0/1.8.3.gz"
    );
    found(asked, value.len(), vec![Ok(Bytes::from_static(value))]);
    client.response().await.unwrap()
}

#[tokio::test]
async fn redis_client_without_password_learns_nothing() {
    let world = lonely().await;
    let mut client = Client::stranger(&world).await;
    let tree = str::from_utf8(TREE).unwrap();
    for line in [
        &["get", tree][..],
        &["set", tree, "x"],
        &["subscribe", "x"],
        &["flushall"],
        &["ping"],
        &["client", "setinfo", "LIB-NAME", "x"],
        &["hello", "3"],
    ] {
        let response = client.error(line).await;
        assert!(response.starts_with("NOAUTH"), "{line:?}: {response}");
    }
    for line in [
        &["AUTH", "wrong"][..],
        &["AUTH", "other", PASSWORD],
        &["hello", "3", "auth", "default", "wrong"],
    ] {
        let response = client.error(line).await;
        assert!(response.starts_with("WRONGPASS"), "{line:?}: {response}");
    }
    assert_eq!(client.response().await, None, "three times is enough");

    world.put_redis("127.0.0.1:1", None);
    let mut early = Client::stranger(&world).await;
    let response = early.error(&["AUTH", PASSWORD]).await;
    assert!(response.contains("not known yet"), "{response}");
}

#[tokio::test]
async fn redis_tree_comes_from_the_cluster_and_a_miss_is_null() {
    let world = lonely().await;
    let mut tunnel = AgentTunnel::of(&world, "a").await;
    for mut client in [Client::of(&world).await, Client::three(&world).await] {
        let value = got(&mut client, &mut tunnel, b"tree\r\n$1").await;
        assert_eq!(value.as_bytes(), Some(&b"tree\r\n$1"[..]));
        assert_eq!(got(&mut client, &mut tunnel, b"").await, Value::bytes(""));
    }
    let mut two = Client::of(&world).await;
    two.send(&[b"get", TREE]).await;
    code(tunnel.next().await, 404);
    assert_eq!(two.response().await, Some(Value::Nothing(Kind::Bulk)));
    let mut three = Client::three(&world).await;
    three.send(&[b"get", TREE]).await;
    code(tunnel.next().await, 403);
    assert_eq!(
        three.response().await,
        Some(Value::Line(Kind::Null, vec![]))
    );
    // A shard of it, and what is written on the hub about it.
    three
        .send(&[b"get", b"app|resources-tree|a_guestbook|2|1.8.3.gz"])
        .await;
    let asked = tunnel.next().await;
    assert!(
        asked
            .request
            .uri()
            .path()
            .ends_with("/guestbook/2/1.8.3.gz")
    );
    code(asked, 404);
    three.response().await.unwrap();
    let response = three
        .error(&["set", "app|resources-tree|a_guestbook|1.8.3.gz", "x"])
        .await;
    assert!(response.starts_with("NOPERM"), "{response}");
    // Of its own Application the hub's redis would know, and that is not there.
    let response = three
        .error(&["get", "app|resources-tree|local|1.8.3.gz"])
        .await;
    assert!(response.contains("redis does not answer"), "{response}");
    assert_eq!(three.ask(&["ping"]).await, Value::simple("PONG"));
}

#[tokio::test]
async fn redis_value_of_any_size_is_streamed_and_never_truncated() {
    let world = lonely().await;
    let mut tunnel = AgentTunnel::of(&world, "a").await;
    let mut client = Client::three(&world).await;
    let piece = Bytes::from(vec![b'x'; 1 << 20]);
    client.send(&[b"get", TREE]).await;
    let pieces = std::iter::repeat_with(|| Ok(piece.clone())).take(30);
    found(tunnel.next().await, 30 << 20, pieces.collect());
    let whole = client.response().await.unwrap();
    assert_eq!(whole.as_bytes().map(<[u8]>::len), Some(30 << 20));

    client.send(&[b"get", TREE]).await;
    found(tunnel.next().await, 41 << 20, vec![]);
    let response = client.response().await.unwrap();
    let response = String::from_utf8_lossy(response.as_error().unwrap()).into_owned();
    assert!(response.contains("larger"), "{response}");

    for end in [Some(Err(io::Error::other("gone"))), None] {
        let mut client = Client::three(&world).await;
        client.send(&[b"get", TREE]).await;
        let (sender, pieces) = mpsc::channel(1);
        let mut response = Response::new(stream(ReceiverStream::new(pieces).boxed()));
        response
            .headers_mut()
            .insert(CONTENT_LENGTH, (2 << 20).into());
        tunnel.next().await.answer.send(response).unwrap();
        sender.send(Ok(piece.clone())).await.unwrap();
        // It has begun; what follows can only be the rest of it.
        let begun = client.io.read_buf(&mut client.buffer);
        assert!(bounded("the beginning", begun).await.unwrap() > 0);
        if let Some(end) = end {
            sender.send(end).await.unwrap();
        }
        drop(sender);
        assert_eq!(
            client.response().await,
            None,
            "disconnected rather than truncated"
        );
    }
}

#[tokio::test]
async fn redis_proxy_serves_last_known_value_of_a_disconnected_cluster() {
    let world = lonely().await;
    let mut client = Client::of(&world).await;
    let tree = str::from_utf8(TREE).unwrap();
    assert_eq!(client.ask(&["get", tree]).await, Value::Nothing(Kind::Bulk));
    let mut tunnel = AgentTunnel::of(&world, "a").await;
    got(&mut client, &mut tunnel, b"tree").await;
    tunnel.living.abort();
    world.counted("argocd_principal_lanes 0").await;
    assert_eq!(client.ask(&["get", tree]).await, Value::bytes("tree"));
    let counted = "argocd_principal_redis_requests_total{outcome=\"remembered\"} 1";
    world.counted(counted).await;
    // Once it is back and has none, that counts.
    let mut tunnel = AgentTunnel::of(&world, "a").await;
    client.send(&[b"get", TREE]).await;
    code(tunnel.next().await, 404);
    assert_eq!(client.response().await, Some(Value::Nothing(Kind::Bulk)));
    tunnel.living.abort();
    world.counted("argocd_principal_lanes 0").await;
    assert_eq!(client.ask(&["get", tree]).await, Value::Nothing(Kind::Bulk));
}

#[tokio::test]
async fn invalid_redis_bytes_end_only_their_own_connection() {
    let world = lonely().await;
    let mut other = Client::of(&world).await;
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"*1\r\n*1\r\n*1\r\n*1\r\n",
        b"*2147483647\r\n",
        b"*1\r\n$2147483647\r\n",
        b"*-1\r\n",
        &[0xff; 4096],
    ] {
        let mut client = Client::of(&world).await;
        client.io.write_all(bytes).await.unwrap();
        let response = client.response().await.unwrap();
        let shown = bytes.escape_ascii().to_string();
        let text = response.as_error().unwrap_or_else(|| panic!("{shown}"));
        assert!(text.starts_with(b"ERR Protocol error"), "{shown}");
        assert_eq!(client.response().await, None);
    }
    // A stranger has no large commands.
    let mut client = Client::stranger(&world).await;
    let large = vec![b'x'; 200 << 10];
    drop(
        client
            .io
            .write_all(&resp::command(&[b"set", b"x", &large]))
            .await,
    );
    while let Some(response) = client.response().await {
        assert!(response.as_error().unwrap().starts_with(b"NOAUTH"));
    }
    assert_eq!(other.ask(&["ping"]).await, Value::simple("PONG"));
}

/// A client that speaks TLS.
async fn over_tls(world: &World) -> Client<TlsStream<TcpStream>> {
    let mut anonymous = world.certificate("a").material(&world.authority);
    anonymous.identity = None;
    let mut config = Arc::unwrap_or_clone(client_config(&anonymous).unwrap());
    config.alpn_protocols.clear();
    let tcp = TcpStream::connect(world.handle.redis_proxy.unwrap())
        .await
        .unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let connecting = connector.connect("localhost".try_into().unwrap(), tcp);
    let mut client = Client::over(bounded("handshake", connecting).await.unwrap());
    client.hello_three().await;
    client
}

#[tokio::test]
async fn redis_proxy_presents_its_tls_certificate() {
    let world = world("127.0.0.1:1".to_owned(), true).await;
    let mut client = over_tls(&world).await;
    assert_eq!(client.ask(&["ping"]).await, Value::simple("PONG"));
}

#[tokio::test]
async fn redis_proxy_connects_to_trusted_hub_redis_over_tls() {
    let address = free_address().await;
    let world = world(format!("localhost:{}", address.port()), true).await;
    let material = tempfile::tempdir().unwrap();
    for (authority, is_trusted) in [(&Authority::new(), false), (&world.authority, true)] {
        let Leaf { chain, key } = authority.server();
        for (name, text) in [("chain", chain), ("key", key), ("ca", authority.pem())] {
            std::fs::write(material.path().join(name), text).unwrap();
        }
        let _redis = Redis::with_tls(address, material.path()).await;
        let mut client = over_tls(&world).await;
        let set = client.ask(&["set", "app|resources-tree|local|1.8.3", "tree"]);
        let set = set.await;
        assert_eq!(set == Value::ok(), is_trusted, "{set:?}");
        assert_eq!(set.as_error().is_some(), !is_trusted, "{set:?}");
    }
}

#[tokio::test]
async fn hub_keys_are_served_by_the_hub_redis() {
    let redis = Redis::start().await;
    let world = world(redis.address.to_string(), false).await;
    let mut clients = [Client::of(&world).await, Client::three(&world).await];
    let tree = "app|resources-tree|local|1.8.3.gz";
    let large = "y".repeat(3 << 20);
    for client in &mut clients {
        for value in ["tree", &large] {
            let set = ["set", tree, value, "ex", "60"];
            assert_eq!(client.ask(&set).await, Value::ok());
            assert_eq!(client.ask(&["get", tree]).await, Value::bytes(value));
        }
        let ttl = client.ask(&["ttl", tree]).await.as_integer().unwrap();
        assert!((1..=60).contains(&ttl));
        assert_eq!(client.ask(&["del", tree]).await, Value::integer(1));
        let missing = client.ask(&["get", tree]).await;
        assert!(matches!(
            missing,
            Value::Nothing(_) | Value::Line(Kind::Null, _)
        ));
        let none = client.error(&["rename", tree, "other"]).await;
        assert_eq!(none, "ERR no such key", "as Argo CD looks for it");
        let scan = ["scan", "0", "match", "revoked-token|*", "count", "10000"];
        assert_eq!(client.ask(&scan).await.elements().len(), 2);
        let refused = client.error(&["config", "get", "requirepass"]).await;
        assert_eq!(refused, "ERR unknown command");
    }
    let [mut second, mut third] = clients;
    for client in [&mut third, &mut second] {
        let response = client.ask(&["subscribe", "new-revoked-token"]).await;
        assert_eq!(response.elements()[0], Value::bytes("subscribe"));
    }
    let mut teller = Client::three(&world).await;
    let publish = ["publish", "new-revoked-token", "id"];
    assert_eq!(teller.ask(&publish).await, Value::integer(2));
    for client in [&mut third, &mut second] {
        let message = client.response().await.unwrap();
        assert_eq!(message.elements()[2], Value::bytes("id"));
    }
    // In version 3 the answers to commands come between messages.
    assert_eq!(third.ask(&["exists", "x"]).await, Value::integer(0));
    let response = second.error(&["exists", "x"]).await;
    assert!(response.contains("allowed in this context"), "{response}");
    let pong = Value::Group(Kind::Array, vec![Value::bytes("pong"), Value::bytes("")]);
    assert_eq!(second.ask(&["ping"]).await, pong);
    drop(redis);
    assert_eq!(
        third.response().await,
        None,
        "its subscription is gone, so it gets a message"
    );
}
