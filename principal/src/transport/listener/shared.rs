//! The state of the listener, which its connections share.

use std::{convert::Infallible, error::Error, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderName, Request, Response};
use runtime::{credentials::ServerTls, parts::Spawner};
use tokio::sync::Semaphore;
use tonic::{body::Body, service::Routes};
use tower::ServiceExt as _;

use super::{handshaker::Handshaker, slots::Slots};
use crate::{
    admission::{identity::Thumbprint, peer::Peer},
    metrics::Metrics,
    settings::Limits,
};

/// Keep-alive pings: a dead peer is noticed within 30 seconds.
pub(super) const PING_INTERVAL: Duration = Duration::from_secs(15);

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

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) rules: Rules,
    pub(super) routes: Routes,
    pub(super) metrics: Metrics,
    pub(super) spawner: Spawner,
    pub(super) connections: Arc<Semaphore>,
    pub(super) handshaker: Handshaker,
    pub(super) by_certificate: Slots<Thumbprint>,
}

impl Shared {
    /// Answers one request of `peer`.
    pub(super) async fn answer<B>(
        &self,
        mut peer: Peer,
        mut request: Request<B>,
    ) -> Result<Response<Body>, Infallible>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        peer.header = self.rules.header.as_ref().and_then(|name| {
            let value = request.headers().get(name)?.to_str().ok()?;
            Some(value.into())
        });
        request.extensions_mut().insert(peer);
        self.routes.clone().oneshot(request).await
    }
}
