//! From the port to requests: TCP, TLS, HTTP/2 or a WebSocket over HTTP/1.1, each with its bounds.
//!
//! An unauthenticated peer can end only its own connection: failed accepts are retried, handshakes run concurrently,
//! bounded in number and time, and TLS has verified the certificate of each peer. A peer that does not finish its
//! handshake takes no room from others (`handshaker`). The TLS configuration is read at each handshake, so that it can
//! rotate.
//!
//! ```text
//!   accept ─► handshake ─► connection ─► HTTP/2: every request ──────────────────────┐
//!                                   └──► HTTP/1.1: upgrade ─► websocket: one request ┴─► routes
//! ```

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc};

use http::{HeaderName, Request, Response};
use runtime::{credentials::ServerTls, error::Chain, parts::Spawner};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tonic::{body::Body, service::Routes};
use tower::ServiceExt as _;

use crate::{
    admission::{
        identity::Thumbprint,
        peer::{Connection, Peer},
    },
    metrics::Metrics,
    settings::Limits,
};

pub(crate) mod accept;
mod connection;
pub(crate) mod handshake;
pub(crate) mod handshaker;
pub(crate) mod handshakes;
pub(crate) mod slots;
mod websocket;

use handshaker::Handshaker;
use slots::Slots;

/// The configuration of the listener.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// TLS, and with it certificates; none where a mesh has done both.
    pub(crate) tls: Option<ServerTls>,
    /// Whether HTTP/1.1 with `WebSocket`s is spoken besides HTTP/2.
    pub(crate) websockets: bool,
    /// The header with the identity of the sender.
    pub(crate) header: Option<HeaderName>,
    /// Common names of proxies, which hold connections for many agents.
    pub(crate) proxies: Arc<[String]>,
    pub(crate) limits: Limits,
}

/// Accepts connections and serves requests on them.
#[derive(Debug)]
pub(crate) struct Listener {
    tcp: TcpListener,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    rules: Rules,
    routes: Routes,
    metrics: Metrics,
    spawner: Spawner,
    connections: Arc<Semaphore>,
    handshaker: Handshaker,
    by_certificate: Slots<Thumbprint>,
}

impl Listener {
    /// Takes the port. Nothing is accepted before [`Self::run`].
    pub(crate) async fn bind(
        address: SocketAddr,
        rules: Rules,
        routes: Routes,
        metrics: Metrics,
        spawner: &Spawner,
    ) -> io::Result<Self> {
        let tcp = TcpListener::bind(address).await?;
        let limits = &rules.limits;
        let shared = Shared {
            routes: routes.prepare(),
            metrics,
            spawner: spawner.clone(),
            connections: Arc::new(Semaphore::new(limits.connections)),
            handshaker: Handshaker::new(limits, limits.unauthenticated),
            by_certificate: Slots::new(limits.connections_per_certificate),
            rules,
        };
        Ok(Self {
            tcp,
            shared: Arc::new(shared),
        })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Accepts until the program stops.
    pub(crate) async fn run(self) {
        let Self { tcp, shared } = self;
        let serve = |socket, address| serve(Arc::clone(&shared), socket, address);
        accept::serve(&tcp, &shared.spawner, "connection", serve).await;
    }
}

async fn serve(shared: Arc<Shared>, socket: TcpStream, address: SocketAddr) {
    let tls = shared.rules.tls.as_ref();
    let shaken = shared.handshaker.accept(tls, socket, address.ip()).await;
    let (stream, certificate) = match shaken {
        Ok(shaken) => shaken,
        Err(outcome) => {
            tracing::debug!(%address, outcome, "handshake failed");
            return shared.metrics.handshake(outcome);
        }
    };
    let Ok(place) = Arc::clone(&shared.connections).try_acquire_owned() else {
        return shared.metrics.handshake("too_many_connections");
    };
    // A proxy that ends TLS holds the connections of many agents.
    let own = certificate
        .as_ref()
        .filter(|certificate| !certificate.is_one_of(&shared.rules.proxies));
    let is_shared = own.is_none();
    let slot = own.map(|certificate| shared.by_certificate.take(certificate.thumbprint));
    if matches!(slot, Some(None)) {
        return shared.metrics.handshake("too_many_of_certificate");
    }
    shared.metrics.handshake("ok");
    let open = shared.metrics.connection();
    let control = Connection::default();
    let peer = Peer {
        address,
        certificate: certificate.map(Arc::new),
        header: None,
        connection: control.clone(),
    };
    let background = shared.spawner.background();
    let mut driving = Box::pin(async move {
        let _guards = (place, slot, open);
        if let Err(error) = connection::drive(&shared, stream, peer).await {
            tracing::debug!(%address, error = %Chain(&*error), "connection failed");
        }
    });
    tokio::select! {
        biased;
        () = &mut driving => {}
        // The first request decides what a connection is for. A shared connection stays.
        () = control.background_requested(), if !is_shared => background.spawn_short("connection", driving),
    }
}

impl Shared {
    /// Answers one request of `peer`.
    async fn answer<B>(
        &self,
        mut peer: Peer,
        mut request: Request<B>,
    ) -> Result<Response<Body>, Infallible>
    where
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        peer.header = self.rules.header.as_ref().and_then(|name| {
            let value = request.headers().get(name)?.to_str().ok()?;
            Some(value.into())
        });
        request.extensions_mut().insert(peer);
        self.routes.clone().oneshot(request).await
    }
}
