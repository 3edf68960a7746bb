//! The state of the proxy, which its connections share, and its bounds. Above these, clients are asked to retry.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use runtime::credentials::{ClientAuth, Material, ServerTls};
use tokio::{
    sync::{Semaphore, watch},
    time::sleep,
};

use crate::{
    admission::{
        identity::{PeerCertificate, Thumbprint, visitor::Visitors},
        trust::Trust,
    },
    fleet::ClusterName,
    live::LiveContext,
    transport::listener::{handshaker::Handshaker, slots::Slots},
};

/// Open connections; as many again may be in their handshake.
const CONNECTIONS: usize = 1024;
/// Open connections of one certificate, unless one certificate may be that of all clusters.
const CONNECTIONS_PER_CREDENTIAL: usize = 256;
/// Requests of all clusters.
const REQUESTS: usize = 512;
/// Requests of one cluster.
pub(super) const PER_CLUSTER: u16 = 128;
/// Of these, requests that last, such as logs that are followed: the rest stays for others.
const LASTING_PER_CLUSTER: usize = 64;
/// Of these, terminals.
const TERMINALS_PER_CLUSTER: usize = 16;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) live: Arc<LiveContext>,
    pub(super) visitors: Visitors,
    pub(super) tls: ServerTls,
    material: watch::Receiver<Arc<Material>>,
    pub(super) handshaker: Handshaker,
    pub(super) connections: Arc<Semaphore>,
    pub(super) by_credential: Slots<Thumbprint>,
    pub(super) requests: Arc<Semaphore>,
    pub(super) by_cluster: Slots<ClusterName>,
    pub(super) lasting: Slots<ClusterName>,
    pub(super) terminals: Slots<ClusterName>,
}

/// An authenticated client, and its cluster.
#[derive(Clone, Debug)]
pub(super) struct ProxyClient {
    pub(super) cluster: ClusterName,
    pub(super) certificate: Arc<PeerCertificate>,
    /// When its credential expires: the certificate, or a token before it.
    pub(super) ends: Timestamp,
}

impl Shared {
    pub(super) fn new(
        material: watch::Receiver<Arc<Material>>,
        visitors: Visitors,
        live: Arc<LiveContext>,
    ) -> Self {
        let of_credential = match visitors {
            Visitors::Named => CONNECTIONS_PER_CREDENTIAL,
            Visitors::Upstream => CONNECTIONS,
        };
        let unauthenticated = live.limits.unauthenticated.min(CONNECTIONS);
        Self {
            visitors,
            tls: ServerTls::follow(material.clone(), ClientAuth::Required, &live.spawner),
            material,
            handshaker: Handshaker::new(&live.limits, unauthenticated),
            connections: Arc::new(Semaphore::new(CONNECTIONS)),
            by_credential: Slots::new(of_credential),
            requests: Arc::new(Semaphore::new(REQUESTS)),
            by_cluster: Slots::new(PER_CLUSTER.into()),
            lasting: Slots::new(LASTING_PER_CLUSTER),
            terminals: Slots::new(TERMINALS_PER_CLUSTER),
            live,
        }
    }

    /// Resolves when the client would be rejected: its certificate is revoked or not trusted, or its credential has
    /// expired. Cancel-safe.
    pub(super) async fn credential_ended(&self, proxy_client: &ProxyClient) {
        let left = proxy_client.ends.duration_since(self.live.clock.now());
        let mut revoked = self.live.admission.revoked.clone();
        let is_revoked = revoked.wait_for(|list| {
            let list = list.as_ref();
            list.is_some_and(|list| list.has_certificate(&proxy_client.certificate))
        });
        tokio::select! {
            Ok(_list) = is_revoked => {}
            () = sleep(Duration::try_from(left).unwrap_or_default()) => {}
            () = self.ca_untrusted(&proxy_client.certificate) => {}
        }
    }

    /// Resolves when no trusted CA has issued the certificate. Cancel-safe.
    pub(super) async fn ca_untrusted(&self, certificate: &PeerCertificate) {
        let mut material = self.material.clone();
        loop {
            // Bound first: a guard of a watch blocks its sender. The first check is about the time since the handshake.
            let now = Arc::clone(&material.borrow_and_update());
            if !Trust::new(&now).vouches_for(certificate, self.live.clock.now()) {
                return;
            }
            if material.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}
