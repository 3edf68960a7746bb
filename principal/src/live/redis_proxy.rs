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

use std::{net::SocketAddr, sync::Arc};

use runtime::{error::Chain, metrics::Open};
use tokio::net::TcpStream;

use crate::{
    admission::peer::Network,
    live::LiveContext,
    settings,
    transport::listener::{accept::Port, handshaker, handshakes::Handshake},
};

mod client;
mod command;
mod error;
mod event_refresh;
mod feeds;
mod follow;
mod last_known;
mod paced_body;
mod page;
mod reader;
mod remote;
mod shared;
mod upstream;
mod value;
mod writer;

pub use feeds::RedisFeeds;
use shared::Shared;

/// Accepts clients until the program stops.
pub(crate) async fn run(
    port: Port,
    settings: settings::RedisProxy,
    feeds: RedisFeeds,
    live: Arc<LiveContext>,
) {
    let background = live.spawner.background();
    let shared = Arc::new(Shared::new(settings, feeds, live));
    let serve = |socket, address| serve(Arc::clone(&shared), socket, address);
    port.serve(&background, "redis client", serve).await;
}

async fn serve(shared: Arc<Shared>, socket: TcpStream, address: SocketAddr) {
    let metrics = shared.live.metrics.clone();
    let Ok(_connection) = Arc::clone(&shared.connections).try_acquire_owned() else {
        return metrics.redis_requests.count("too_many_connections");
    };
    let Some(unauthenticated) = shared.handshaker.begin(address.ip()) else {
        return metrics.redis_requests.count("too_many_connections");
    };
    let evicted = unauthenticated.evicted();
    tokio::select! {
        () = evicted.cancelled() => metrics.redis_requests.count("too_many_connections"),
        () = serve_client(shared, socket, address, unauthenticated) => {}
    }
}

async fn serve_client(
    shared: Arc<Shared>,
    socket: TcpStream,
    address: SocketAddr,
    mut unauthenticated: Handshake<Network>,
) {
    let metrics = shared.live.metrics.clone();
    let shaken = (shared.handshaker)
        .complete(shared.tls.as_ref(), socket, &mut unauthenticated)
        .await;
    let stream = match shaken {
        Ok((stream, _no_certificate)) => stream,
        Err(outcome) => {
            tracing::debug!(%address, outcome, "handshake with a client of redis failed");
            return metrics.redis_requests.count(handshaker::too_many(outcome));
        }
    };
    let _open = Open::new(metrics.redis_connections.clone());
    if let Err(error) = Box::pin(client::serve(shared, stream, unauthenticated)).await {
        tracing::debug!(%address, error = %Chain(&error), "closed a redis client connection");
    }
}
