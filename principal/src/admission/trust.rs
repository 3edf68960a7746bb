//! Whether the certificate of an open session would still be accepted.
//!
//! TLS checks a chain once, at the handshake; a session lives for hours. When the trusted CAs change, the same verifier
//! checks the chain of every open session again.

use std::sync::Arc;

use jiff::Timestamp;
use runtime::{
    credentials::{Material, provider},
    error::Chain,
};
use rustls::{
    RootCertStore,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use rustls_pki_types::UnixTime;

use crate::admission::identity::PeerCertificate;

/// The trusted CAs at one time.
#[derive(Clone, Debug)]
pub(crate) struct Trust(Option<Arc<dyn ClientCertVerifier>>);

impl Trust {
    pub(crate) fn new(material: &Material) -> Self {
        let Some(roots) = &material.roots else {
            return Self(None);
        };
        let mut store = RootCertStore::empty();
        for certificate in &roots.certificates {
            if let Err(error) = store.add(certificate.clone()) {
                tracing::warn!(error = %Chain(&error), "a trusted certificate is not usable");
            }
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(store), provider());
        match verifier.build() {
            Ok(verifier) => Self(Some(verifier)),
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "cannot verify open sessions again");
                Self(None)
            }
        }
    }

    /// Whether the chain is still valid. Without usable CAs all new peers are rejected, but open sessions stay: the
    /// fault is ours and no decision about a peer.
    pub(crate) fn vouches_for(&self, certificate: &PeerCertificate, now: Timestamp) -> bool {
        self.0.is_none() || self.lets_in(certificate, now)
    }

    /// Whether the chain is valid for a new connection.
    pub(crate) fn lets_in(&self, certificate: &PeerCertificate, now: Timestamp) -> bool {
        let Some(verifier) = &self.0 else {
            return false;
        };
        let [leaf, intermediates @ ..] = certificate.chain() else {
            return false;
        };
        let seconds = u64::try_from(now.as_second()).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        verifier
            .verify_client_cert(leaf, intermediates, now)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Authority;

    #[test]
    fn a_chain_is_good_as_long_as_its_authority_is_trusted_and_its_time_lasts() {
        let (one, other) = (Authority::new(), Authority::new());
        let leaf = one.agent("spoke1").peer_certificate();
        let trusting = |authority| Trust::new(&authority_material(authority));
        let now = Timestamp::now();
        assert!(trusting(&one).vouches_for(&leaf, now));
        assert!(!trusting(&other).vouches_for(&leaf, now));
        let later = now + std::time::Duration::from_hours(2);
        assert!(!trusting(&one).vouches_for(&leaf, later));
        let expired = one.expired("spoke1").peer_certificate();
        assert!(!trusting(&one).vouches_for(&expired, now));
        assert!(Trust::new(&Material::default()).vouches_for(&leaf, now));
    }

    fn authority_material(authority: &Authority) -> Material {
        authority.server().material(authority)
    }
}
