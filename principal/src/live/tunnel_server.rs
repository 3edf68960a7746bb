//! Runs the tunnels of admitted agents: the HTTP/2 connection inside, and its end.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::StreamExt as _;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use protocol::wire::tunnel::Chunk;
use runtime::{
    error::Chain,
    metrics::Open,
    tunnel::{self, Tasks, Tunnel},
};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tonic::Streaming;
use tracing::Instrument as _;

use super::LiveContext;
use crate::admission::admit::{Admitted, Credentials};

/// For the HTTP/2 handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// An agent that is cut off is noticed within twice this.
const PING: Duration = Duration::from_secs(5);
/// Unread bytes of one request, and of all requests of one cluster.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 32 << 20;

/// Starts the tunnel of an admitted agent and returns the outgoing bytes.
pub(crate) fn open(
    live: &Arc<LiveContext>,
    admitted: Admitted,
    inbound: Streaming<Chunk>,
) -> mpsc::Receiver<Bytes> {
    let end = CancellationToken::new();
    // Its end is the end of the connection inside, and so of every request on it.
    let gone = CancellationToken::new();
    let gone_guard = gone.clone().drop_guard();
    let incoming = inbound
        .map(move |chunk| {
            let _dropped_with_the_stream = &gone_guard;
            chunk.map(|it| it.data).map_err(io::Error::other)
        })
        .take_until(end.clone().cancelled_owned());
    let (send, outgoing) = tunnel::chunks();
    let tunnel = Tunnel::new(incoming, send);
    let span = tracing::info_span!("tunnel", cluster = %admitted.holder.cluster);
    let living = run(Arc::clone(live), admitted, tunnel, end, gone);
    live.spawner
        .background()
        .spawn_short("tunnel", living.instrument(span));
    outgoing
}

/// Runs a tunnel until `end`, which ends all requests on it; until `gone`, when its last request has ended or the agent
/// is gone; or until its credential or its time is over.
async fn run(
    live: Arc<LiveContext>,
    admitted: Admitted,
    tunnel: Tunnel,
    end: CancellationToken,
    gone: CancellationToken,
) {
    let handshake = http2::Builder::new(Tasks::new(live.spawner.background()))
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING)
        .keep_alive_while_idle(true)
        .handshake(TokioIo::new(tunnel));
    let Ok(Ok((sender, connection))) = timeout(HANDSHAKE, handshake).await else {
        return tracing::info!("a tunnel failed to start");
    };
    let _registration = live.tunnels.register(&admitted, sender, end.clone());
    let (holder, peer_credentials) = (&admitted.holder, &admitted.peer_credentials);
    let verdict = live
        .admission
        .verdict_at_opening(&holder.cluster, holder.mode, peer_credentials);
    if verdict.is_some() {
        return end.cancel();
    }
    let _open = Open::new(live.metrics.agent_tunnels.clone());
    tracing::info!("tunnel opened");
    // Resolves when no more requests come; running ones continue until the tunnel is dropped.
    let connected = async {
        if let Err(error) = connection.await {
            tracing::info!(error = %Chain(&error), "tunnel connection failed");
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        () = live.spawner.token().cancelled() => {}
        () = end.cancelled() => {}
        () = gone.cancelled() => {}
        () = sleep(max_life(&live, peer_credentials)) => {}
        () = connected => {}
    }
    end.cancel();
    tracing::info!("tunnel ended");
}

/// The lifetime of a session, or less if the certificate expires before.
fn max_life(live: &LiveContext, peer_credentials: &Credentials) -> Duration {
    let left = peer_credentials.not_after().map(|not_after| {
        let left = not_after.duration_since(live.clock.now());
        Duration::try_from(left).unwrap_or_default()
    });
    left.map_or(live.limits.session_life, |left| {
        left.min(live.limits.session_life)
    })
}
