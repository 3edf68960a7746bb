//! From the port to requests: TCP, TLS, HTTP/2, each with its bounds.
//!
//! Nothing that a stranger does here ends anything but its own connection: an accept that fails is waited out,
//! handshakes run beside each other, bounded in number and time, and whoever comes in is known by the certificate
//! that TLS has verified. The TLS configuration is looked up at each handshake, so that it can rotate.

use std::{
    convert::Infallible,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use http::{Request, Response};
use hyper::body::Incoming;
use runtime::{credentials::ServerTls, error::Chain, parts::Spawner};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tonic::{body::Body, service::Routes};
use tower::ServiceExt as _;

use crate::{identity::PeerCertificate, metrics::Metrics, settings::Limits};

mod connection;
mod handshake;
mod slots;

use slots::Slots;

/// What to wait after an accept that failed, usually for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Who is at the other end of a connection; every request carries it.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// Where it comes from; with a load balancer in between, the balancer.
    pub(crate) address: SocketAddr,
    /// The certificate it presented.
    pub(crate) certificate: Arc<PeerCertificate>,
}

/// Accepts connections and serves requests on them.
#[derive(Debug)]
pub(crate) struct Listener {
    tcp: TcpListener,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    tls: ServerTls,
    routes: Routes,
    limits: Limits,
    metrics: Metrics,
    spawner: Spawner,
    connections: Arc<Semaphore>,
    by_address: Slots<IpAddr>,
    by_certificate: Slots<crate::identity::Thumbprint>,
}

impl Listener {
    /// Takes the port. Nothing is accepted before [`Self::run`].
    pub(crate) async fn bind(
        address: SocketAddr,
        tls: ServerTls,
        routes: Routes,
        limits: &Limits,
        metrics: Metrics,
        spawner: &Spawner,
    ) -> io::Result<Self> {
        let tcp = TcpListener::bind(address).await?;
        let shared = Shared {
            tls,
            routes: routes.prepare(),
            metrics,
            spawner: spawner.clone(),
            connections: Arc::new(Semaphore::new(limits.connections)),
            by_address: Slots::new(limits.handshakes_per_address),
            by_certificate: Slots::new(limits.connections_per_certificate),
            limits: limits.clone(),
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
        let stop = shared.spawner.token().clone();
        let accepting = accept(&tcp, &shared);
        stop.run_until_cancelled(accepting).await;
    }
}

async fn accept(tcp: &TcpListener, shared: &Arc<Shared>) -> Infallible {
    let handshakes = Arc::new(Semaphore::new(shared.limits.handshakes));
    let mut failing = false;
    loop {
        // Waits here when all handshakes are taken: more peers queue in the kernel, not in our memory.
        let Ok(permit) = Arc::clone(&handshakes).acquire_owned().await else {
            return std::future::pending().await;
        };
        match tcp.accept().await {
            Ok((socket, address)) => {
                failing = false;
                let work = serve(Arc::clone(shared), socket, address, permit);
                shared.spawner.spawn_short("connection", work);
            }
            Err(error) => {
                if !failing {
                    tracing::warn!(error = %Chain(&error), "cannot accept connections; going on");
                }
                failing = true;
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(
    shared: Arc<Shared>,
    socket: TcpStream,
    address: SocketAddr,
    permit: OwnedSemaphorePermit,
) {
    let Ok(_slot) = Arc::clone(&shared.connections).try_acquire_owned() else {
        return shared.metrics.handshake("too_many_connections");
    };
    let shaken = match shared.by_address.take(address.ip()) {
        Some(_slot) => shake_hands(&shared, socket).await,
        None => Err("too_many_from_address"),
    };
    drop(permit);
    let (stream, certificate) = match shaken {
        Ok(shaken) => shaken,
        Err(outcome) => {
            tracing::debug!(%address, outcome, "handshake failed");
            return shared.metrics.handshake(outcome);
        }
    };
    let Some(_slot) = shared.by_certificate.take(certificate.thumbprint()) else {
        return shared.metrics.handshake("too_many_of_certificate");
    };
    shared.metrics.handshake("ok");
    let _open = shared.metrics.connection();
    let peer = Peer {
        address,
        certificate: Arc::new(certificate),
    };
    if let Err(error) = connection::drive(&shared, stream, peer).await {
        tracing::debug!(%address, error = %Chain(&*error), "connection failed");
    }
}

async fn shake_hands(
    shared: &Shared,
    socket: TcpStream,
) -> Result<(TlsStream<TcpStream>, PeerCertificate), &'static str> {
    let config = shared.tls.current().ok_or("no_certificate_of_ours")?;
    // Without it a small answer may wait for the peer's delayed acknowledgement.
    socket.set_nodelay(true).map_err(|_gone| "closed")?;
    let handshake = TlsAcceptor::from(config).accept(socket);
    let stream = tokio::time::timeout(shared.limits.handshake_time, handshake)
        .await
        .map_err(|_elapsed| "timeout")?
        .map_err(|error| handshake::outcome(&error))?;
    let (_, tls) = stream.get_ref();
    let chain = tls.peer_certificates().unwrap_or_default();
    let certificate = PeerCertificate::from_chain(chain).ok_or("no_certificate")?;
    Ok((stream, certificate))
}

impl Shared {
    /// Answers one request of `peer`.
    async fn answer(
        &self,
        peer: Peer,
        mut request: Request<Incoming>,
    ) -> Result<Response<Body>, Infallible> {
        request.extensions_mut().insert(peer);
        self.routes.clone().oneshot(request).await
    }
}
