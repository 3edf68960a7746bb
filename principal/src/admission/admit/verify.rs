//! Identifies a peer by the one configured method: at authentication by all credentials, later by those that each
//! request carries besides its token. Opens streams with a token, and limits the refusals of a certificate.

use std::{collections::HashMap, sync::Arc};

use protocol::{proof::Refused, refusal::Refusal, wire::authapi::Proof};
use runtime::error::Chain;
use tokio::time::Instant;

use super::{Admission, Admitted, Credentials, proof};
use crate::{
    admission::{
        identity::{Method, PeerCertificate, Thumbprint},
        peer::Peer,
        tokens::{Purpose, Verified},
    },
    fleet::ClusterName,
};

impl Admission {
    /// Whether a stream with this token may be opened.
    pub(crate) fn admit(&self, peer: &Peer, token: &str) -> Result<Admitted, Refusal> {
        let admitted = self.recognize(peer, token)?;
        if !self.budget.spend(&admitted.holder.cluster) {
            return Err(Refusal::TooMany);
        }
        Ok(admitted)
    }

    /// Like [`Self::admit`], without the budget: users cause these requests, and they cost little.
    pub(crate) fn recognize(&self, peer: &Peer, token: &str) -> Result<Admitted, Refusal> {
        self.serving()?;
        let (Verified { holder, expires: _ }, peer_credentials) =
            self.verify(peer, token, Purpose::Access)?;
        let enrolment = self.enrolled(&holder.cluster, holder.mode, &peer_credentials)?;
        Ok(Admitted {
            holder,
            enrolment,
            peer_credentials: Arc::new(peer_credentials),
        })
    }

    /// Checks a token and the credentials that it is bound to.
    pub(super) fn verify(
        &self,
        peer: &Peer,
        token: &str,
        purpose: Purpose,
    ) -> Result<(Verified, Credentials), Refusal> {
        let key = Arc::clone(&self.jwt_key.borrow());
        let mut peer_credentials = None;
        let bound_to = |cluster: &ClusterName| {
            peer_credentials = self.presented(peer, cluster);
            peer_credentials.as_ref().map(|it| it.binding)
        };
        let verified = key.verify_bound(token, purpose, self.clock.now(), bound_to);
        let verified = verified.map_err(|why| {
            tracing::info!(address = %peer.address, error = %Chain(&why), "rejected a token");
            Refusal::InvalidToken
        })?;
        let peer_credentials = peer_credentials.ok_or(Refusal::InvalidToken)?;
        self.not_revoked(&verified.holder.cluster, &peer_credentials)?;
        Ok((verified, peer_credentials))
    }

    /// The cluster of this peer, and its credentials. `credentials` are user and password.
    pub(super) async fn shown(
        &self,
        peer: &Peer,
        credentials: &HashMap<String, String>,
        proof: Option<&Proof>,
        principal_uid: &str,
    ) -> Result<(ClusterName, Credentials), Refusal> {
        match &self.identity {
            Method::UserPass(_) => self.by_password(peer, credentials).await,
            Method::Header { .. } => self.by_header(peer),
            Method::Ocm { .. } | Method::Cn | Method::Subject(_) | Method::Uri(_) => {
                self.by_certificate(peer, proof, principal_uid)
            }
        }
    }

    /// The certificate of the connection, if it is a proxy's.
    pub(super) fn proxy<'a>(&self, peer: &'a Peer) -> Option<&'a Arc<PeerCertificate>> {
        let certificate = peer.certificate.as_ref()?;
        (self.identity.word() == "mtls" && certificate.is_one_of(&self.proxies))
            .then_some(certificate)
    }

    fn by_certificate(
        &self,
        peer: &Peer,
        proof: Option<&Proof>,
        principal_uid: &str,
    ) -> Result<(ClusterName, Credentials), Refusal> {
        let certificate = peer.certificate.as_ref();
        let certificate = certificate.ok_or(Refusal::AuthenticationFailed)?;
        let refused = |why: Refused| {
            tracing::info!(address = %peer.address, reason = %why, "rejected an in-session proof");
            Refusal::Proof(why)
        };
        match (self.proxy(peer), proof) {
            (None, None) => Ok((
                self.identify(peer, certificate)?,
                Credentials::of_certificate(certificate),
            )),
            (None, Some(_)) => Err(refused(Refused::NotAProxy)),
            (Some(_), None) => Err(refused(Refused::Missing)),
            (Some(proxy), Some(proof)) => {
                let material = Arc::clone(&self.material.borrow());
                let judge = proof::Judge {
                    nonces: &self.nonces,
                    material: &material,
                    principal_uid,
                    now: self.clock.now(),
                };
                let proved = judge.judge(proof, proxy).map_err(refused)?;
                let cluster = self.identify(peer, &proved)?;
                let peer_credentials = Credentials::of_proof(&proved, proxy);
                if self.fleet.borrow().clusters.contains_key(cluster.as_str()) {
                    self.proved.lock().insert(cluster.clone(), proved);
                }
                Ok((cluster, peer_credentials))
            }
        }
    }

    async fn by_password(
        &self,
        peer: &Peer,
        credentials: &HashMap<String, String>,
    ) -> Result<(ClusterName, Credentials), Refusal> {
        let passwords = self.passwords.as_ref().ok_or(Refusal::Internal)?;
        let (user, password) = credentials
            .get("clientid")
            .zip(credentials.get("clientsecret"))
            .ok_or(Refusal::AuthenticationFailed)?;
        let checked = passwords.check(peer.address.ip(), user, password).await;
        let cluster = checked.inspect_err(|refusal| {
            tracing::info!(address = %peer.address, %refusal, "rejected a password");
        })?;
        let found = self.presented(peer, &cluster);
        Ok((cluster, found.ok_or(Refusal::AuthenticationFailed)?))
    }

    fn by_header(&self, peer: &Peer) -> Result<(ClusterName, Credentials), Refusal> {
        let value = peer.header.as_deref();
        let value = value.ok_or(Refusal::AuthenticationFailed)?;
        let cluster = self.identity.cluster_in(value).map_err(|why| {
            tracing::info!(address = %peer.address, reason = %why, "rejected an identity header");
            Refusal::AuthenticationFailed
        })?;
        let peer_credentials = Credentials::of_header(&cluster);
        Ok((cluster, peer_credentials))
    }

    /// The credentials of a request for this cluster. The caller checks the token with them.
    pub(super) fn presented(&self, peer: &Peer, cluster: &ClusterName) -> Option<Credentials> {
        match &self.identity {
            Method::UserPass(_) => {
                let users = self.passwords.as_ref()?.users.borrow();
                Credentials::of_user(cluster, &users, peer.certificate.as_ref())
            }
            Method::Header { .. } => {
                let (found, peer_credentials) = self.by_header(peer).ok()?;
                (found == *cluster).then_some(peer_credentials)
            }
            Method::Ocm { .. } | Method::Cn | Method::Subject(_) | Method::Uri(_) => {
                if let Some(proxy) = self.proxy(peer) {
                    let known = self.proved.lock();
                    return Some(Credentials::of_proof(known.get(cluster)?, proxy));
                }
                // The same certificate may have meant another cluster under another method.
                let certificate = peer.certificate.as_ref()?;
                let found = self.identify(peer, certificate).ok()?;
                (found == *cluster).then(|| Credentials::of_certificate(certificate))
            }
        }
    }

    fn identify(&self, peer: &Peer, certificate: &PeerCertificate) -> Result<ClusterName, Refusal> {
        self.identity.cluster_of(certificate.leaf()).map_err(|why| {
            tracing::info!(address = %peer.address, reason = %why, "rejected a certificate");
            Refusal::AuthenticationFailed
        })
    }

    /// Rejects a peer whose certificate has no refusals left.
    pub(crate) fn check_refusal_budget(&self, peer: &Peer) -> Result<(), Refusal> {
        let budget = &self.refusal_budget;
        if (self.limited(peer)).is_none_or(|certificate| budget.left.has_left(&certificate)) {
            return Ok(());
        }
        let count = budget.unlogged.lock().add(Instant::now());
        if let Some(count) = count {
            tracing::info!(
                address = %peer.address, count,
                "rejected requests of certificates that were refused repeatedly"
            );
        }
        Err(Refusal::TooMany)
    }

    /// Counts a refusal, if it is due to the peer's credentials.
    pub(crate) fn spend_refusal(&self, peer: &Peer, refusal: &Refusal) {
        let is_of_credentials = matches!(
            refusal,
            Refusal::AuthenticationFailed
                | Refusal::InvalidToken
                | Refusal::NotEnrolled
                | Refusal::Revoked
                | Refusal::Proof(_)
        );
        if let Some(certificate) = self.limited(peer).filter(|_| is_of_credentials) {
            self.refusal_budget.left.spend(&certificate);
        }
    }

    /// The certificate of the peer, unless many agents share it.
    fn limited(&self, peer: &Peer) -> Option<Thumbprint> {
        let certificate = peer.certificate.as_ref()?;
        (!certificate.is_one_of(&self.proxies)).then_some(certificate.thumbprint)
    }
}
