//! Connections that do not finish their TLS handshake, from the same address as honest clients.

use std::{io::Write as _, time::Duration};

use futures::future::join_all;
use principal::{Limits, store::Memory};
use runtime::credentials::client_config;
use rustls::ClientConnection;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
};

use crate::{
    agent::Agent,
    authority::Leaf,
    resource_proxy::{PODS, ProxyClient, credential, get},
    world::{World, bounded},
};

const IDLE: usize = 400;

/// A hub whose handshakes never time out: idle connections only go when the hub evicts them.
async fn patient(change: impl FnOnce(&mut Limits)) -> World {
    World::set(Memory::new(), &["a"], |settings| {
        settings.resource_proxy = Some(([127, 0, 0, 1], 0).into());
        settings.limits.handshake_time = Duration::from_hours(1);
        change(&mut settings.limits);
    })
    .await
}

/// A TLS client that sends its messages byte by byte, as the test wants it.
struct SteppedClient {
    tls: ClientConnection,
    socket: TcpStream,
    unsent: Vec<u8>,
}

impl SteppedClient {
    fn new(world: &World, leaf: &Leaf, socket: TcpStream) -> Self {
        let config = client_config(&leaf.material(&world.authority)).unwrap();
        let mut tls = ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap();
        let mut unsent = Vec::new();
        tls.write_tls(&mut unsent).unwrap();
        Self {
            tls,
            socket,
            unsent,
        }
    }

    /// Sends this many of the next bytes.
    async fn send(&mut self, count: usize) {
        let count = count.min(self.unsent.len());
        let piece: Vec<u8> = self.unsent.drain(..count).collect();
        self.socket.write_all(&piece).await.unwrap();
    }

    /// Reads the hub's messages until the client has something to send; false when the connection is closed.
    async fn receive(&mut self) -> bool {
        while self.tls.is_handshaking() {
            let mut bytes = vec![0; 4096];
            let read = bounded("an answer", self.socket.read(&mut bytes)).await;
            let Ok(count @ 1..) = read else { return false };
            self.tls.read_tls(&mut bytes[..count].as_ref()).unwrap();
            self.tls.process_new_packets().unwrap();
        }
        self.tls.write_tls(&mut self.unsent).unwrap();
        true
    }

    /// Whether the connection is open behind the handshake: the hub sends its HTTP/2 settings.
    async fn opens(mut self) -> bool {
        self.tls
            .writer()
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
            .unwrap();
        self.tls.write_tls(&mut self.unsent).unwrap();
        self.send(usize::MAX).await;
        let mut byte = [0];
        matches!(
            bounded("settings", self.socket.read(&mut byte)).await,
            Ok(1)
        )
    }
}

/// Opens connections that send nothing, half a hello, or a hello and then nothing, in turn.
async fn half_open(world: &World, address: std::net::SocketAddr) -> Vec<TcpStream> {
    let leaf = world.certificate("a");
    let opening = (0..IDLE).map(async |number| {
        let socket = TcpStream::connect(address).await.unwrap();
        let mut client = SteppedClient::new(world, &leaf, socket);
        client.send([0, 100, usize::MAX][number % 3]).await;
        client.socket
    });
    join_all(opening).await
}

#[tokio::test]
async fn half_open_connections_do_not_delay_a_handshake() {
    let world = patient(|_| {}).await;
    let _idle = half_open(&world, world.handle.address).await;
    Agent::empty(&world, "a").await;
}

#[tokio::test]
async fn half_open_connections_do_not_delay_the_resource_proxy() {
    let world = patient(|limits| limits.unauthenticated = 64).await;
    let _idle = half_open(&world, world.handle.resource_proxy.unwrap()).await;
    let mut client = ProxyClient::of(&world, "a").await;
    let (code, _no_agent) = client.fetch(get(PODS)).await;
    assert_eq!(code, 502);
}

#[tokio::test]
async fn silent_resource_proxy_peers_evict_their_own_address() {
    const MOST: usize = 64;
    let world = patient(|limits| limits.unauthenticated = MOST).await;
    let proxy = world.handle.resource_proxy.unwrap();
    // The oldest of all, and as silent as the others at first.
    let socket = TcpStream::connect(proxy).await.unwrap();
    let credential = credential(&world, "a");
    let mut slow = SteppedClient::new(&world, &credential, socket);
    let mut silent = Vec::new();
    let outcome = "argocd_principal_resource_requests_total{outcome=\"too_many_connections\"}";
    for piece in [0, 1, usize::MAX] {
        slow.send(piece).await;
        for _ in 0..2 * MOST {
            silent.push(from_elsewhere(proxy).await);
        }
        let evicted = silent.len() + 1 - MOST;
        world.counted(&format!("{outcome} {evicted}")).await;
    }
    assert!(slow.receive().await, "evicted after its hello");
    assert!(slow.opens().await);
    let mut client = ProxyClient::of(&world, "a").await;
    assert_eq!(client.fetch(get(PODS)).await.0, 502);
}

/// A connection from another address of the loopback.
pub(crate) async fn from_elsewhere(to: std::net::SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 2], 0).into()).unwrap();
    socket.connect(to).await.unwrap()
}

#[tokio::test]
async fn slow_client_survives_a_flood_of_silent_connections() {
    let world = patient(|limits| limits.unauthenticated = 16).await;
    let leaf = world.certificate("a");
    let mut slow = SteppedClient::new(&world, &leaf, world.tcp().await);
    let mut flood = Vec::new();
    let mut evicted = 0;
    for piece in [1, 40, 100, usize::MAX] {
        slow.send(piece).await;
        flood_more(&world, &leaf, &mut flood, &mut evicted).await;
    }
    assert!(slow.receive().await, "evicted after its hello");
    let finish = slow.unsent.len();
    for piece in [1, finish / 2] {
        slow.send(piece).await;
        flood_more(&world, &leaf, &mut flood, &mut evicted).await;
    }
    assert!(slow.opens().await);
}

/// Opens more silent connections than the hub keeps, and waits until it has evicted what is above its bound.
async fn flood_more(world: &World, leaf: &Leaf, flood: &mut Vec<TcpStream>, evicted: &mut usize) {
    // A whole handshake: the hub has read by then what came before.
    drop(bounded("handshake", world.tls(leaf)).await.unwrap());
    for _ in 0..50 {
        flood.push(world.tcp().await);
    }
    // The slow client and 15 of the flood stay.
    *evicted = flood.len() - 15;
    let outcome = "argocd_principal_handshakes_total{outcome=\"too_many_from_address\"}";
    world.counted(&format!("{outcome} {evicted}")).await;
}

#[tokio::test]
async fn reconnect_storm_from_one_address_completes() {
    const AGENTS: usize = 200;
    let world = patient(|limits| {
        limits.handshakes = 1;
        limits.connections_per_certificate = AGENTS;
    })
    .await;
    let leaf = world.certificate("a");
    let storm = (0..AGENTS).map(|_| world.tls(&leaf));
    let connections = bounded("the storm", join_all(storm)).await;
    assert!(connections.iter().all(Result::is_ok));
    let completed = format!("argocd_principal_handshakes_total{{outcome=\"ok\"}} {AGENTS}");
    world.counted(&completed).await;
}
