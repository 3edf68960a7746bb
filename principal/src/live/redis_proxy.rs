//! The redis proxy: Argo CD on the hub uses it as its redis.
//!
//! Argo CD's application controller caches the state of each Application in redis, and argocd-server reads it there.
//! For an Application of a cluster, controller and redis are on that cluster. So argocd-server connects to this proxy: it
//! gets keys of such Applications from the cluster's agent, and all others from the hub's redis.
//!
//! ```text
//!   argocd-server ─► accept ─► TLS? ─► client: who? which command? whose key?
//!                                        │ the hub's                  │ a cluster's
//!                                        ▼                            ▼
//!                                     upstream ─► redis     remote, follow ─► tunnel ─► agent ─► its redis
//! ```
//!
//! A GET of a resource tree means that a user views the Application. Then its Events are copied to the hub
//! (`event_refresh`).
//!
//! Values of any size are streamed; the proxy closes connections of clients that do not read.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use runtime::{
    credentials::{ClientAuth, ClientTls, Material, ServerTls, login::Login},
    error::Chain,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
};

use crate::{
    fleet::ClusterName,
    live::LiveContext,
    settings,
    transport::listener::{
        accept,
        handshaker::{self, Handshaker},
        handshakes::Handshake,
        slots::Slots,
    },
};

mod client;
mod command;
mod event_refresh;
mod follow;
mod last_known;
mod page;
mod reader;
mod remote;
mod upstream;
mod value;
mod writer;

use event_refresh::EventRefresher;
use last_known::LastKnownValues;

/// Larger values are not kept.
const LARGEST_REMEMBERED: usize = 1 << 20;

/// Bounds of concurrent requests. Above them, clients are asked to retry.
#[derive(Clone, Debug)]
struct Budgets {
    /// Open connections.
    connections: usize,
    /// Of these, connections without a password yet. Further ones evict the oldest of the busiest address.
    unauthenticated: usize,
    /// Values of all clusters, and of one.
    gets: usize,
    gets_of_cluster: usize,
    /// Subscriptions to all clusters, and to one.
    follows: usize,
    follows_of_cluster: usize,
    /// How long an agent may take to begin an answer.
    response_timeout: Duration,
}

impl Default for Budgets {
    fn default() -> Self {
        Self {
            connections: 1024,
            unauthenticated: 128,
            gets: 256,
            gets_of_cluster: 64,
            follows: 512,
            follows_of_cluster: 64,
            // Less than Argo CD's client waits for redis.
            response_timeout: Duration::from_millis(2500),
        }
    }
}

/// Credentials for the hub's redis, and of the proxy itself.
#[derive(Clone, Debug)]
pub struct RedisFeeds {
    /// The login of both.
    pub login: watch::Receiver<Option<Arc<Login>>>,
    /// The serving certificate of the proxy and its key, if it uses TLS.
    pub serving: watch::Receiver<Arc<Material>>,
    /// The CA of the hub's redis as roots, if it uses TLS.
    pub server: Option<watch::Receiver<Arc<Material>>>,
}

/// No password, so every client is rejected.
impl Default for RedisFeeds {
    fn default() -> Self {
        Self {
            login: watch::channel(None).1,
            serving: watch::channel(Arc::default()).1,
            server: None,
        }
    }
}

/// The proxy on its port.
#[derive(Debug)]
pub(crate) struct RedisProxy {
    tcp: TcpListener,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    live: Arc<LiveContext>,
    settings: settings::RedisProxy,
    tls: Option<ServerTls>,
    login: watch::Receiver<Option<Arc<Login>>>,
    /// TLS with the hub's redis, if enabled.
    server_tls: Option<ClientTls>,
    budgets: Budgets,
    connections: Arc<Semaphore>,
    /// It has all connections without a password, before and after their handshake.
    handshaker: Handshaker,
    gets: Arc<Semaphore>,
    gets_of_cluster: Slots<ClusterName>,
    follows: Arc<Semaphore>,
    follows_of_cluster: Slots<ClusterName>,
    last_known: LastKnownValues,
    event_refresher: EventRefresher,
}

impl RedisProxy {
    /// Takes the port. Nothing is accepted before [`Self::run`].
    pub(crate) async fn bind(
        settings: settings::RedisProxy,
        feeds: RedisFeeds,
        live: Arc<LiveContext>,
    ) -> io::Result<Self> {
        let tcp = TcpListener::bind(settings.listen).await?;
        let RedisFeeds {
            login,
            serving,
            server,
        } = feeds;
        let spawner = &live.spawner;
        let tls = settings
            .tls
            .then(|| ServerTls::follow(serving, ClientAuth::None, spawner));
        let server_tls = server.map(|material| ClientTls::follow(material, spawner));
        let budgets = Budgets::default();
        let shared = Shared {
            handshaker: Handshaker::new(&live.limits, budgets.unauthenticated),
            live,
            tls,
            login,
            server_tls,
            connections: Arc::new(Semaphore::new(budgets.connections)),
            gets: Arc::new(Semaphore::new(budgets.gets)),
            gets_of_cluster: Slots::new(budgets.gets_of_cluster),
            follows: Arc::new(Semaphore::new(budgets.follows)),
            follows_of_cluster: Slots::new(budgets.follows_of_cluster),
            last_known: LastKnownValues::new(LARGEST_REMEMBERED, settings.remembered),
            event_refresher: EventRefresher::default(),
            settings,
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
        accept::serve(&tcp, &background, "redis client", serve).await;
    }
}

async fn serve(shared: Arc<Shared>, socket: TcpStream, address: SocketAddr) {
    let metrics = shared.live.metrics.clone();
    let Ok(_connection) = Arc::clone(&shared.connections).try_acquire_owned() else {
        return metrics.redis_request("too_many_connections");
    };
    let Some(unauthenticated) = shared.handshaker.begin(address.ip()) else {
        return metrics.redis_request("too_many_connections");
    };
    let evicted = unauthenticated.evicted();
    tokio::select! {
        () = evicted.cancelled() => metrics.redis_request("too_many_connections"),
        () = serve_client(shared, socket, address, unauthenticated) => {}
    }
}

async fn serve_client(
    shared: Arc<Shared>,
    socket: TcpStream,
    address: SocketAddr,
    mut unauthenticated: Handshake<IpAddr>,
) {
    let metrics = shared.live.metrics.clone();
    let shaken = (shared.handshaker)
        .complete(shared.tls.as_ref(), socket, &mut unauthenticated)
        .await;
    let stream = match shaken {
        Ok((stream, _no_certificate)) => stream,
        Err(outcome) => {
            tracing::debug!(%address, outcome, "handshake with a client of redis failed");
            return metrics.redis_request(handshaker::too_many(outcome));
        }
    };
    let _open = metrics.redis_connection();
    if let Err(error) = Box::pin(client::serve(shared, stream, unauthenticated)).await {
        tracing::debug!(%address, error = %Chain(&error), "closed a redis client connection");
    }
}
