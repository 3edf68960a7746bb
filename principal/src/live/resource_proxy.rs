//! The resource proxy: Argo CD on the hub uses it as the API server of each cluster.
//!
//! A cluster Secret has a certificate or a token that grants access to one cluster (`caller`). Each request is parsed
//! (`live::request`), rebuilt and sent to that cluster's agent; the agent decides whether its cluster allows it.
//!
//! ```text
//!   Argo CD ─► accept ─► TLS: which cluster ─► response: parse ─► budgets ─► tunnel ─► agent
//!                                                        one audit line ◄─ body ◄─┘
//! ```

use std::{convert::Infallible, error::Error, io, net::SocketAddr, sync::Arc, time::Duration};

use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
};
use jiff::Timestamp;
use runtime::{
    credentials::{ClientAuth, Material, ServerTls},
    error::Chain,
    tunnel::Tasks,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    time::{sleep, timeout},
};

use crate::{
    admission::{
        identity::{PeerCertificate, Thumbprint, visitor::Visitors},
        trust::Trust,
    },
    fleet::ClusterName,
    live::LiveContext,
    transport::listener::{
        accept,
        handshake::Stream,
        handshaker::{self, Handshaker},
        slots::Slots,
    },
};

mod audit;
mod caller;
mod response;
mod terminal;

use caller::Caller;

/// The connection of a client that does not send its headers is closed.
const HEADER_TIME: Duration = Duration::from_secs(10);
/// Interval of keep-alive pings, and how long a client may take to answer one.
const PING: Duration = Duration::from_secs(15);
/// Unread bytes of a stream, and of a connection.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 4 << 20;
const HEADERS: usize = 32 << 10;
const HEADER_LINES: usize = 64;

/// Bounds of concurrent requests. Above them, clients are asked to retry.
#[derive(Clone, Debug)]
pub(crate) struct Budgets {
    /// Open connections; as many again may be in their handshake.
    pub(crate) connections: usize,
    /// Open connections of one credential.
    pub(crate) connections_per_credential: usize,
    /// Requests of all clusters.
    pub(crate) requests: usize,
    /// Requests of one cluster.
    pub(crate) per_cluster: usize,
    /// Of these, requests that last, such as logs that are followed: the rest stays for others.
    pub(crate) lasting_per_cluster: usize,
    /// Of these, terminals.
    pub(crate) terminals_per_cluster: usize,
    /// How long a terminal may last.
    pub(crate) terminal_life: Duration,
    /// How long an agent may take to begin an answer.
    pub(crate) response_timeout: Duration,
}

impl Budgets {
    /// The bounds for this kind of credentials.
    pub(crate) fn of(visitors: Visitors) -> Self {
        const CONNECTIONS: usize = 1024;
        Self {
            connections: CONNECTIONS,
            connections_per_credential: match visitors {
                Visitors::Named => 256,
                // One certificate may be that of all clusters.
                Visitors::Upstream => CONNECTIONS,
            },
            requests: 512,
            per_cluster: 128,
            lasting_per_cluster: 64,
            terminals_per_cluster: 16,
            terminal_life: Duration::from_hours(4),
            response_timeout: Duration::from_secs(30),
        }
    }
}

/// The proxy on its port.
#[derive(Debug)]
pub(crate) struct ResourceProxy {
    tcp: TcpListener,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    live: Arc<LiveContext>,
    visitors: Visitors,
    tls: ServerTls,
    material: watch::Receiver<Arc<Material>>,
    budgets: Budgets,
    handshaker: Handshaker,
    connections: Arc<Semaphore>,
    by_credential: Slots<Thumbprint>,
    requests: Arc<Semaphore>,
    by_cluster: Slots<ClusterName>,
    lasting: Slots<ClusterName>,
    terminals: Slots<ClusterName>,
}

/// An authenticated client, and its cluster.
#[derive(Clone, Debug)]
struct ProxyClient {
    cluster: ClusterName,
    certificate: Arc<PeerCertificate>,
    /// When its credential expires: the certificate, or a token before it.
    ends: Timestamp,
}

impl ResourceProxy {
    /// Takes the port. Nothing is accepted before [`Self::run`].
    pub(crate) async fn bind(
        address: SocketAddr,
        material: watch::Receiver<Arc<Material>>,
        visitors: Visitors,
        live: Arc<LiveContext>,
        budgets: Budgets,
    ) -> io::Result<Self> {
        let tcp = TcpListener::bind(address).await?;
        let tls = ServerTls::follow(material.clone(), ClientAuth::Required, &live.spawner);
        let unauthenticated = live.limits.unauthenticated.min(budgets.connections);
        let shared = Shared {
            handshaker: Handshaker::new(&live.limits, unauthenticated),
            live,
            visitors,
            tls,
            material,
            connections: Arc::new(Semaphore::new(budgets.connections)),
            by_credential: Slots::new(budgets.connections_per_credential),
            requests: Arc::new(Semaphore::new(budgets.requests)),
            by_cluster: Slots::new(budgets.per_cluster),
            lasting: Slots::new(budgets.lasting_per_cluster),
            terminals: Slots::new(budgets.terminals_per_cluster),
            budgets,
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
        let background = shared.live.spawner.background();
        let serve = |socket, address| serve(Arc::clone(&shared), socket, address);
        accept::serve(&tcp, &background, "resource proxy client", serve).await;
    }
}

async fn serve(shared: Arc<Shared>, socket: TcpStream, address: SocketAddr) {
    let metrics = &shared.live.metrics;
    let shaken = (shared.handshaker)
        .accept(Some(&shared.tls), socket, address.ip())
        .await;
    let certified = shaken.and_then(|(stream, certificate)| {
        let certificate = certificate.ok_or("no_certificate")?;
        Ok((stream, certificate))
    });
    let (stream, certificate) = match certified {
        Ok(certified) => certified,
        Err(outcome) => {
            tracing::debug!(%address, outcome, "TLS handshake with a resource proxy client failed");
            return metrics.resource_request(handshaker::too_many(outcome));
        }
    };
    let Ok(_slot) = Arc::clone(&shared.connections).try_acquire_owned() else {
        return metrics.resource_request("too_many_connections");
    };
    let Some(_of_credential) = shared.by_credential.take(certificate.thumbprint) else {
        return metrics.resource_request("too_many_connections");
    };
    let caller = Caller::new(certificate, shared.visitors);
    if let Err(error) = drive(&shared, stream, &caller).await {
        tracing::debug!(%address, error = %Chain(&*error), "a resource proxy connection failed");
    }
}

/// Serves a connection until it ends, its certificate is not trusted any more, or the program stops.
async fn drive(
    shared: &Arc<Shared>,
    stream: Stream,
    caller: &Caller,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let (answering, calling) = (Arc::clone(shared), caller.clone());
    let service = service_fn(move |request: http::Request<Incoming>| {
        let (shared, caller) = (Arc::clone(&answering), calling.clone());
        async move { Ok::<_, Infallible>(response::answer(shared, caller, request).await) }
    });
    let stop = shared.live.spawner.token().clone();
    let mut builder = auto::Builder::new(Tasks::new(shared.live.spawner.background()));
    builder
        .http1()
        .timer(TokioTimer::new())
        // Without a bound a client could send one byte of its headers each minute.
        .header_read_timeout(HEADER_TIME)
        .max_headers(HEADER_LINES)
        .max_buf_size(HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(u32::try_from(shared.budgets.per_cluster).unwrap_or(u32::MAX))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(u32::try_from(HEADERS).unwrap_or(u32::MAX))
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        biased;
        ended = connection.as_mut() => return ended,
        () = ca_untrusted(shared, caller.certificate()) => return Ok(()),
        () = stop.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    timeout(shared.live.limits.drain, connection)
        .await
        .unwrap_or(Ok(()))
}

/// Resolves when the client would be rejected: its certificate is revoked or not trusted, or its credential has expired.
/// Cancel-safe.
async fn credential_ended(shared: &Shared, proxy_client: &ProxyClient) {
    let left = proxy_client.ends.duration_since(shared.live.clock.now());
    let mut revoked = shared.live.admission.revoked.clone();
    let is_revoked = revoked.wait_for(|list| {
        let list = list.as_ref();
        list.is_some_and(|list| list.has_certificate(&proxy_client.certificate))
    });
    tokio::select! {
        Ok(_list) = is_revoked => {}
        () = sleep(Duration::try_from(left).unwrap_or_default()) => {}
        () = ca_untrusted(shared, &proxy_client.certificate) => {}
    }
}

/// Resolves when no trusted CA has issued the certificate. Cancel-safe.
async fn ca_untrusted(shared: &Shared, certificate: &PeerCertificate) {
    let mut material = shared.material.clone();
    // The first check is about the time between the handshake and now.
    while Trust::new(&Arc::clone(&material.borrow_and_update()))
        .vouches_for(certificate, shared.live.clock.now())
    {
        if material.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}
