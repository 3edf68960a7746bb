//! The resource proxy: Argo CD on the hub uses it as the API server of each cluster.
//!
//! A cluster Secret has a certificate or a token that grants access to one cluster (`caller`). Each request is parsed
//! (`live::request`), rebuilt and sent to that cluster's agent; the agent decides whether its cluster allows it.
//!
//! ```text
//!   Argo CD ─► accept ─► TLS: which cluster ─► response: parse ─► budgets ─► tunnel ─► agent
//!                                                        one audit line ◄─ body ◄─┘
//! ```

use std::{error::Error, net::SocketAddr, sync::Arc, time::Duration};

use runtime::{credentials::Material, error::Chain};
use tokio::{net::TcpStream, sync::watch};

use crate::{
    admission::identity::visitor::Visitors,
    live::LiveContext,
    transport::listener::{accept::Port, handshake::Stream, handshaker, http::Bounds},
};

mod audit;
mod caller;
mod response;
mod shared;
mod terminal;

use caller::Caller;
use shared::{PER_CLUSTER, Shared};

/// The connection of a client that does not send its headers is closed.
const HEADER_TIME: Duration = Duration::from_secs(10);
/// Interval of keep-alive pings, and how long a client may take to answer one.
const PING: Duration = Duration::from_secs(15);
/// Unread bytes of a stream, and of a connection.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 4 << 20;
const HEADER_LIST: u32 = 32 << 10;

/// Accepts clients until the program stops.
pub(crate) async fn run(
    port: Port,
    material: watch::Receiver<Arc<Material>>,
    visitors: Visitors,
    live: Arc<LiveContext>,
) {
    let background = live.spawner.background();
    let shared = Arc::new(Shared::new(material, visitors, live));
    let serve = |socket, address| serve(Arc::clone(&shared), socket, address);
    port.serve(&background, "resource proxy client", serve)
        .await;
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
            return metrics
                .resource_requests
                .count(handshaker::too_many(outcome));
        }
    };
    let Ok(_slot) = Arc::clone(&shared.connections).try_acquire_owned() else {
        return metrics.resource_requests.count("too_many_connections");
    };
    let Some(_of_credential) = shared.by_credential.take(certificate.thumbprint) else {
        return metrics.resource_requests.count("too_many_connections");
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
    let answer = |request| {
        let (shared, caller) = (Arc::clone(shared), caller.clone());
        async move { Ok(response::answer(shared, caller, request).await) }
    };
    let bounds = Bounds {
        header_time: HEADER_TIME,
        header_list: HEADER_LIST,
        streams: PER_CLUSTER.into(),
        stream_window: STREAM_WINDOW,
        connection_window: CONNECTION_WINDOW,
        ping_interval: PING,
        ping_timeout: PING,
        drain: shared.live.limits.drain,
    };
    let spawner = &shared.live.spawner;
    let stop = spawner.token().cancelled();
    tokio::select! {
        biased;
        ended = bounds.serve(stream, spawner.background(), answer, stop) => ended,
        () = shared.ca_untrusted(caller.certificate()) => Ok(()),
    }
}
