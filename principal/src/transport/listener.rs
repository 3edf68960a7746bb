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

use std::{net::SocketAddr, sync::Arc};

use runtime::{error::Chain, metrics::Open, parts::Spawner};
use tokio::{net::TcpStream, sync::Semaphore};
use tonic::service::Routes;

use crate::{
    admission::peer::{Connection, Peer},
    metrics::Metrics,
};

pub(crate) mod accept;
mod connection;
pub(crate) mod handshake;
pub(crate) mod handshaker;
pub(crate) mod handshakes;
pub(crate) mod http;
mod shared;
pub(crate) mod slots;
mod websocket;

use accept::Port;
use handshaker::Handshaker;
pub(crate) use shared::Rules;
use shared::Shared;
use slots::Slots;

/// Accepts connections and serves requests on them, until the program stops.
pub(crate) async fn run(
    port: Port,
    rules: Rules,
    routes: Routes,
    metrics: Metrics,
    spawner: Spawner,
) {
    let limits = &rules.limits;
    let shared = Arc::new(Shared {
        routes: routes.prepare(),
        metrics,
        connections: Arc::new(Semaphore::new(limits.connections)),
        handshaker: Handshaker::new(limits, limits.unauthenticated),
        by_certificate: Slots::new(limits.connections_per_certificate),
        rules,
        spawner: spawner.clone(),
    });
    let serve = |socket, address| serve(Arc::clone(&shared), socket, address);
    port.serve(&spawner, "connection", serve).await;
}

async fn serve(shared: Arc<Shared>, socket: TcpStream, address: SocketAddr) {
    let tls = shared.rules.tls.as_ref();
    let shaken = shared.handshaker.accept(tls, socket, address.ip()).await;
    let (stream, certificate) = match shaken {
        Ok(shaken) => shaken,
        Err(outcome) => {
            tracing::debug!(%address, outcome, "handshake failed");
            return shared.metrics.handshakes.count(outcome);
        }
    };
    let Ok(place) = Arc::clone(&shared.connections).try_acquire_owned() else {
        return shared.metrics.handshakes.count("too_many_connections");
    };
    // A proxy that ends TLS holds the connections of many agents.
    let own = certificate
        .as_ref()
        .filter(|certificate| !certificate.is_one_of(&shared.rules.proxies));
    let is_shared = own.is_none();
    let slot = own.map(|certificate| shared.by_certificate.take(certificate.thumbprint));
    if matches!(slot, Some(None)) {
        return shared.metrics.handshakes.count("too_many_of_certificate");
    }
    shared.metrics.handshakes.count("ok");
    let open = Open::new(shared.metrics.connections.clone());
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
