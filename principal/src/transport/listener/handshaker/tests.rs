//! Handshakes over loopback, one at a time.

use std::net::Ipv4Addr;

use runtime::{
    credentials::{ClientAuth, client_config},
    parts::Parts,
};
use tokio::{io::AsyncWriteExt as _, net::TcpListener, sync::watch};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::testing::Authority;

const BOUND: Duration = Duration::from_secs(20);

struct Port {
    tcp: TcpListener,
    tls: ServerTls,
    authority: Authority,
    handshaker: Handshaker,
    _parts: Parts,
}

impl Port {
    /// A port where one handshake computes at a time.
    async fn open() -> Self {
        runtime::install_crypto_provider();
        let (authority, parts) = (Authority::new(), Parts::new(CancellationToken::new()));
        let material = authority.server().material(&authority);
        let (_sender, material) = watch::channel(std::sync::Arc::new(material));
        let limits = Limits {
            handshakes: 1,
            handshake_time: BOUND,
            ..Limits::default()
        };
        Self {
            tcp: TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap(),
            tls: ServerTls::follow(material, ClientAuth::Required, &parts.spawner()),
            authority,
            handshaker: Handshaker::new(&limits, 8),
            _parts: parts,
        }
    }

    async fn dial(&self) -> TcpStream {
        let address = self.tcp.local_addr().unwrap();
        TcpStream::connect(address).await.unwrap()
    }

    /// Accepts one connection, and does its handshake.
    async fn accept(&self) -> Result<(), &'static str> {
        let (socket, address) = self.tcp.accept().await.unwrap();
        let shaken = self
            .handshaker
            .accept(Some(&self.tls), socket, address.ip());
        shaken.await.map(|(_stream, certificate)| {
            assert!(certificate.is_some());
        })
    }

    /// Does a whole handshake.
    async fn complete(&self) -> Result<(), &'static str> {
        let material = self.authority.agent("a").material(&self.authority);
        let connector = TlsConnector::from(client_config(&material).unwrap());
        let socket = self.dial().await;
        let client = connector.connect("localhost".try_into().unwrap(), socket);
        let both = async { tokio::join!(self.accept(), client) };
        let (served, client) = timeout(BOUND, both).await.unwrap();
        client.unwrap();
        served
    }

    /// The outcome for a peer that sends these bytes and waits for the end.
    async fn outcome_of(&self, bytes: &[u8]) -> &'static str {
        let mut socket = self.dial().await;
        socket.write_all(bytes).await.unwrap();
        let outcome = timeout(BOUND, self.accept()).await.unwrap();
        outcome.unwrap_err()
    }

    fn is_empty(&self) -> bool {
        self.handshaker.unauthenticated.count() == 0
            && self.handshaker.turns.is_empty()
            && self.handshaker.by_address.is_empty()
    }
}

#[tokio::test]
async fn handshakes_leave_nothing_behind() {
    let port = Port::open().await;
    port.complete().await.unwrap();
    assert_eq!(port.outcome_of(b"\x16\x03\x01\xff\xff").await, "garbage");
    assert_eq!(
        port.outcome_of(b"GET / HTTP/1.1\r\n\r\n").await,
        "plain_http"
    );
    drop(port.dial().await);
    assert_eq!(port.accept().await, Err("closed"));
    {
        let _silent = port.dial().await;
        let mut waiting = std::pin::pin!(port.accept());
        while port.is_empty() {
            assert!(poll!(waiting.as_mut()).is_pending());
            tokio::task::yield_now().await;
        }
    }
    assert!(port.is_empty());
    port.complete().await.unwrap();
}

#[tokio::test]
async fn an_oversized_hello_is_refused() {
    let port = Port::open().await;
    // A ClientHello of 64 KiB, in records of 1 KiB.
    let mut hello = vec![1, 0, 0xff, 0xff];
    hello.resize(1024, 0);
    let mut bytes = Vec::new();
    for _ in 0..20 {
        bytes.extend([0x16, 3, 1, 4, 0]);
        bytes.extend(&hello);
        hello.fill(0);
    }
    assert_eq!(port.outcome_of(&bytes).await, "garbage");
    assert!(port.is_empty());
}

#[tokio::test]
async fn evicted_handshake_closes() {
    let port = Port::open().await;
    let _silent = port.dial().await;
    let mut waiting = std::pin::pin!(port.accept());
    while port.is_empty() {
        assert!(poll!(waiting.as_mut()).is_pending());
        tokio::task::yield_now().await;
    }
    let flood: Vec<_> = (0..8)
        .map(|_| port.handshaker.begin(Ipv4Addr::LOCALHOST.into()))
        .collect();
    assert_eq!(timeout(BOUND, waiting).await.unwrap(), Err(EVICTED));
    drop(flood);
    assert!(port.is_empty());
}
