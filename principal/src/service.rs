//! The gRPC services: ten lines per method, every decision is made elsewhere.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use protocol::{
    refusal::Refusal,
    wire::{
        authapi::authentication_server::AuthenticationServer,
        eventstreamapi::event_stream_server::EventStreamServer,
        logstreamapi::log_stream_service_server::LogStreamServiceServer,
        terminalstreamapi::terminal_stream_service_server::TerminalStreamServiceServer,
        tunnel::lane_server::LaneServer, versionapi::version_server::VersionServer,
    },
};
use rustls_pki_types::CertificateDer;
use tokio::time::timeout;
use tonic::{Request, Status, Streaming, body::Body, codec::CompressionEncoding, service::Routes};
use tower::ServiceExt as _;

use crate::{
    admission::peer::{Connection, Peer},
    admission::{
        admit::{Admission, Admitted},
        identity::PeerCertificate,
    },
    live::LiveContext,
    settings::Settings,
    sync::session::Sessions,
};

mod auth;
mod events;
mod logs;
mod oversize_filter;
mod terminals;
mod tunnel;
mod version;

use oversize_filter::OversizeFiltered;

/// Agents send chunks of at most 64 KiB, on tunnels and on Go's streams of logs and terminals.
const LARGEST_CHUNK: usize = 128 << 10;

/// How long the first message of a stream of a Go agent may take.
const FIRST_MESSAGE: Duration = Duration::from_secs(10);

/// All services of the main port.
pub(crate) fn routes(
    settings: &Settings,
    sessions: &Arc<Sessions>,
    live: &Arc<LiveContext>,
) -> Routes {
    let gate = &sessions.gate;
    let largest = settings.limits.message_bytes;
    let auth = auth::Service {
        gate: Arc::clone(gate),
    };
    let version = version::Service {
        version: settings.version.clone(),
        gate: Arc::clone(gate),
    };
    let events = events::Service {
        sessions: Arc::clone(sessions),
    };
    let tunnels = tunnel::Service {
        live: Arc::clone(live),
    };
    let logs = logs::Service {
        live: Arc::clone(live),
    };
    let terminals = terminals::Service {
        live: Arc::clone(live),
    };
    // A Go agent that compresses does so in every call.
    Routes::default()
        // Credentials and versions are small: no peer needs more before authentication.
        .add_service(
            AuthenticationServer::new(auth)
                .accept_compressed(CompressionEncoding::Gzip)
                .max_decoding_message_size(64 << 10),
        )
        .add_service(
            VersionServer::new(version)
                .accept_compressed(CompressionEncoding::Gzip)
                .max_decoding_message_size(1 << 10),
        )
        .add_service(OversizeFiltered {
            inner: EventStreamServer::new(events)
                .accept_compressed(CompressionEncoding::Gzip)
                // For agents that accept it.
                .send_compressed(CompressionEncoding::Gzip)
                .max_decoding_message_size(largest)
                .max_encoding_message_size(largest),
            largest,
            metrics: gate.metrics.clone(),
        })
        .add_service(LaneServer::new(tunnels).max_decoding_message_size(LARGEST_CHUNK))
        .add_service(
            LogStreamServiceServer::new(logs)
                .accept_compressed(CompressionEncoding::Gzip)
                .max_decoding_message_size(LARGEST_CHUNK),
        )
        .add_service(
            TerminalStreamServiceServer::new(terminals)
                .accept_compressed(CompressionEncoding::Gzip)
                .max_decoding_message_size(LARGEST_CHUNK),
        )
}

/// The services without a port; clones answer for the same principal.
#[derive(Clone, Debug)]
pub struct Services(Routes);

impl Services {
    pub(crate) fn new(routes: Routes) -> Self {
        Self(routes.prepare())
    }

    /// Answers a request of a peer with this certificate chain; none if the chain is invalid.
    pub async fn answer(
        &self,
        chain: &[CertificateDer<'_>],
        address: SocketAddr,
        mut request: http::Request<Body>,
    ) -> Option<http::Response<Body>> {
        let certificate = Arc::new(PeerCertificate::from_chain(chain)?);
        request.extensions_mut().insert(Peer {
            address,
            certificate: Some(certificate),
            header: None,
            connection: Connection::default(),
        });
        self.0.clone().oneshot(request).await.ok()
    }
}

/// The sender of this request, set by the listener; without it the request is rejected.
fn peer<T>(request: &Request<T>) -> Result<Peer, Refusal> {
    request
        .extensions()
        .get::<Peer>()
        .cloned()
        .ok_or(Refusal::AuthenticationFailed)
}

/// The sender of this request, unless its certificate was refused too often.
fn limited_peer<T>(gate: &Admission, request: &Request<T>) -> Result<Peer, Refusal> {
    let peer = peer(request)?;
    gate.check_refusal_budget(&peer)?;
    Ok(peer)
}

/// Authenticates a request for a session or tunnel.
fn admit<T>(gate: &Admission, request: &Request<T>) -> Result<Admitted, Status> {
    judge(gate, request, Admission::admit)
}

/// Authenticates a request for a live stream of a Go agent.
fn recognize<T>(gate: &Admission, request: &Request<T>) -> Result<Admitted, Status> {
    judge(gate, request, Admission::recognize)
}

/// The metadata `authorization` has the bare token, without a scheme; of several the first counts.
fn judge<T>(
    gate: &Admission,
    request: &Request<T>,
    check: impl FnOnce(&Admission, &Peer, &str) -> Result<Admitted, Refusal>,
) -> Result<Admitted, Status> {
    let token = request
        .metadata()
        .get("authorization")
        .and_then(|raw| raw.to_str().ok());
    let admitted = limited_peer(gate, request).and_then(|peer| {
        let checked = token.ok_or(Refusal::InvalidToken);
        let checked = checked.and_then(|token| check(gate, &peer, token));
        checked.inspect_err(|refusal| gate.spend_refusal(&peer, refusal))
    });
    admitted.map_err(|refusal| {
        gate.metrics.refused(refusal.reason());
        refusal.to_stream_status()
    })
}

/// The first message of a stream of a Go agent, with the request id.
async fn first_message<T>(messages: &mut Streaming<T>, invalid: &'static str) -> Result<T, Status> {
    let first = timeout(FIRST_MESSAGE, messages.message()).await;
    first
        .map_err(|_elapsed| Status::deadline_exceeded("empty stream"))??
        .ok_or_else(|| Status::invalid_argument(invalid))
}

/// Counts a refusal and returns its status.
fn record_refusal(gate: &Admission, refusal: &Refusal) -> Status {
    gate.metrics.refused(refusal.reason());
    refusal.to_status()
}
