//! The gRPC services: ten lines per method, every decision is made elsewhere.

use std::{net::SocketAddr, sync::Arc};

use protocol::wire::{
    authapi::authentication_server::AuthenticationServer,
    eventstreamapi::event_stream_server::EventStreamServer,
    logstreamapi::log_stream_service_server::LogStreamServiceServer,
    terminalstreamapi::terminal_stream_service_server::TerminalStreamServiceServer,
    tunnel::lane_server::LaneServer, versionapi::version_server::VersionServer,
};
use rustls_pki_types::CertificateDer;
use tonic::{
    body::Body,
    codec::CompressionEncoding,
    service::{LayerExt as _, Routes},
};
use tower::{ServiceExt as _, util::MapRequestLayer};

use crate::{
    admission::{
        identity::PeerCertificate,
        peer::{Connection, Peer},
    },
    live::LiveContext,
    settings::Settings,
    sync::session::Sessions,
};

mod caller;
mod methods;
mod oversize_filter;

use methods::Methods;

/// Agents send chunks of at most 64 KiB, on tunnels and on Go's streams of logs and terminals.
const LARGEST_CHUNK: usize = 128 << 10;

/// All services of the main port.
pub(crate) fn routes(
    settings: &Settings,
    sessions: &Arc<Sessions>,
    live: &Arc<LiveContext>,
) -> Routes {
    let largest = settings.limits.message_bytes;
    let methods = Arc::new(Methods {
        version: settings.version.clone(),
        sessions: Arc::clone(sessions),
        live: Arc::clone(live),
    });
    let without_oversized = {
        let metrics = live.metrics.clone();
        MapRequestLayer::new(move |request| oversize_filter::apply(request, largest, &metrics))
    };
    // A Go agent that compresses does so in every call.
    Routes::default()
        // Credentials and versions are small: no peer needs more before authentication.
        .add_service(
            AuthenticationServer::from_arc(Arc::clone(&methods))
                .accept_compressed(CompressionEncoding::Gzip)
                .max_decoding_message_size(64 << 10),
        )
        .add_service(
            VersionServer::from_arc(Arc::clone(&methods))
                .accept_compressed(CompressionEncoding::Gzip)
                .max_decoding_message_size(1 << 10),
        )
        .add_service(
            without_oversized.named_layer(
                EventStreamServer::from_arc(Arc::clone(&methods))
                    .accept_compressed(CompressionEncoding::Gzip)
                    // For agents that accept it.
                    .send_compressed(CompressionEncoding::Gzip)
                    .max_decoding_message_size(largest)
                    .max_encoding_message_size(largest),
            ),
        )
        .add_service(
            LaneServer::from_arc(Arc::clone(&methods)).max_decoding_message_size(LARGEST_CHUNK),
        )
        .add_service(
            LogStreamServiceServer::from_arc(Arc::clone(&methods))
                .accept_compressed(CompressionEncoding::Gzip)
                .max_decoding_message_size(LARGEST_CHUNK),
        )
        .add_service(
            TerminalStreamServiceServer::from_arc(Arc::clone(&methods))
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
