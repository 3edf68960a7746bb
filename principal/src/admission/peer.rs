//! The peer of a connection, as the listener presents it to admission.

use std::{net::SocketAddr, sync::Arc};

use tokio::sync::Notify;

use super::identity::PeerCertificate;

/// The peer of a connection; every request carries it.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// Where it comes from; with a load balancer in between, the balancer.
    pub(crate) address: SocketAddr,
    /// The certificate that it presented and TLS has verified; none where the listener requests none.
    pub(crate) certificate: Option<Arc<PeerCertificate>>,
    /// The value of the identity header, where one is configured.
    pub(crate) header: Option<Arc<str>>,
    pub(crate) connection: Connection,
}

/// Lets a request move its connection to the background runtime.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connection(Arc<Notify>);

impl Connection {
    /// From now on the background runtime serves the connection: its traffic may be large, and other work is urgent.
    pub(crate) fn move_to_background(&self) {
        self.0.notify_one();
    }

    /// Resolves after [`Self::move_to_background`]. Cancel-safe.
    pub(crate) async fn background_requested(&self) {
        self.0.notified().await;
    }
}
