//! Decides at authentication, at refresh and at the opening of a stream whether a peer may connect.
//!
//! Admission compares the presented credentials with the records of the hub; a claim of the agent never widens them.
//! The order of the checks is upstream's, so that a peer without credentials learns nothing about versions or clusters.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;

use parking_lot::Mutex;
use protocol::{
    refusal::Refusal,
    version::{self, Capabilities},
    wire::authapi::{AuthRequest, AuthResponse},
};
use runtime::{clock::Clock, credentials::Material, error::Chain};
use tokio::sync::watch;

pub(crate) use super::{
    budget::{Budget, RefusalBudget},
    credentials::Credentials,
};
use crate::{
    admission::{
        identity::{Method, PeerCertificate},
        peer::Peer,
        registry::{End, Registry},
        revoked::Revoked,
        tokens::{Announced, Holder, JwtKey, Purpose, REFRESH_RENEWAL, Verified},
        trust::Trust,
        users::Passwords,
    },
    fleet::{ClusterName, Enrolment, Fleet, Mode},
    metrics::Metrics,
};

mod proof;
mod verify;

pub(crate) use proof::Nonces;

/// From the creation of a cluster Secret to the fleet that contains it.
const REGISTRATION: Duration = Duration::from_secs(10);

/// Enrols clusters that prove their identity and are not enrolled yet, where this is configured.
pub trait Registrar: std::fmt::Debug + Send + Sync {
    /// Records that this cluster is to be enrolled; true when it may be. The change arrives with the fleet.
    fn register(&self, cluster: ClusterName, mode: Mode) -> BoxFuture<'_, bool>;
}

/// The newest certificate that each cluster proved over a proxy.
type Proved = Mutex<BTreeMap<ClusterName, Arc<PeerCertificate>>>;

/// The state that all decisions share.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) identity: Method,
    /// Our capabilities beyond the Go protocol.
    pub(crate) capabilities: Capabilities,
    pub(crate) argocd_namespace: String,
    /// The enrolled clusters; the hub's index knows them before.
    pub(crate) fleet: watch::Receiver<Arc<Fleet>>,
    pub(crate) jwt_key: watch::Receiver<Arc<JwtKey>>,
    pub(crate) active: watch::Receiver<bool>,
    /// Our identity; known once the hub's objects are read.
    pub(crate) principal_uid: watch::Receiver<Option<Arc<str>>>,
    pub(crate) registry: Registry,
    pub(crate) metrics: Metrics,
    pub(crate) clock: Clock,
    pub(crate) budget: Budget<ClusterName>,
    pub(crate) refusal_budget: RefusalBudget,
    /// Common names of proxies that may connect for agents that prove their identity.
    pub(crate) proxies: Arc<[String]>,
    pub(crate) nonces: Nonces,
    /// Our own certificate and the trusted CAs.
    pub(crate) material: watch::Receiver<Arc<Material>>,
    /// None until the list is known.
    pub(crate) revoked: watch::Receiver<Option<Arc<Revoked>>>,
    /// Present with the method `userpass` only.
    pub(crate) passwords: Option<Passwords>,
    pub(crate) registrar: Option<Arc<dyn Registrar>>,
    // Locked for a lookup, never over an await. Bounded by the fleet.
    pub(crate) proved: Proved,
}

/// A stream that may be opened.
#[derive(Clone, Debug)]
pub(crate) struct Admitted {
    pub(crate) holder: Holder,
    pub(crate) enrolment: Enrolment,
    pub(crate) peer_credentials: Arc<Credentials>,
}

impl Admission {
    /// The nonce that a peer behind a TLS-terminating proxy has to sign, with our identity.
    pub(crate) fn challenge(&self, peer: &Peer) -> Option<(Bytes, Arc<str>)> {
        let proxy = self.proxy(peer)?;
        let uid = self.serving().ok()?;
        Some((self.nonces.give(proxy.thumbprint, self.clock.now())?, uid))
    }

    /// Exchanges credentials for tokens.
    pub(crate) async fn authenticate(
        &self,
        peer: &Peer,
        user_agent: Option<&str>,
        request: AuthRequest,
    ) -> Result<AuthResponse, Refusal> {
        let principal_uid = self.serving()?;
        let AuthRequest {
            method,
            credentials,
            mode,
            version,
            agent_namespace,
            capabilities,
            proof,
        } = request;
        let claimed: Mode = mode
            .parse()
            .map_err(|_unknown| Refusal::UnknownMode(shortened(&mode)))?;
        if method != self.identity.word() {
            return Err(Refusal::AuthenticationFailed);
        }
        let (cluster, peer_credentials) = self
            .shown(peer, &credentials, proof.as_ref(), &principal_uid)
            .await?;
        self.not_revoked(&cluster, &peer_credentials)?;
        self.register(&cluster, claimed).await?;
        self.enrolled(&cluster, claimed, &peer_credentials)?;
        presentable(&version, &agent_namespace)
            .map_err(|refusal| self.record_refusal(&cluster, refusal))?;
        if !self.budget.spend(&cluster) {
            return Err(Refusal::TooMany);
        }
        let theirs = Capabilities::read(&capabilities);
        let both = self.capabilities.negotiate(&theirs).to_words();
        let its_own = own_version(user_agent, &theirs).unwrap_or(&version);
        self.registry
            .reports
            .authenticated(&cluster, claimed, its_own);
        let answer = version::answer_to(&version, &theirs).to_owned();
        let announced = Announced {
            version,
            namespace: agent_namespace,
            capabilities: both.clone(),
        };
        let holder = Holder {
            cluster,
            mode: claimed,
            announced,
        };
        Ok(AuthResponse {
            access_token: self.issue(Purpose::Access, &holder, &peer_credentials)?,
            refresh_token: self.issue(Purpose::Refresh, &holder, &peer_credentials)?,
            version: answer,
            principal_namespace: self.argocd_namespace.clone(),
            principal_uid: principal_uid.to_string(),
            capabilities: both,
            agent_name: holder.cluster.to_string(),
        })
    }

    /// Exchanges a refresh token for an access token, on the certificate that it was issued on.
    pub(crate) fn refresh(&self, peer: &Peer, token: &str) -> Result<AuthResponse, Refusal> {
        self.serving()?;
        let (Verified { holder, expires }, peer_credentials) =
            self.verify(peer, token, Purpose::Refresh)?;
        self.enrolled(&holder.cluster, holder.mode, &peer_credentials)?;
        if !self.budget.spend(&holder.cluster) {
            return Err(Refusal::TooMany);
        }
        let left = expires.duration_since(self.clock.now());
        let renewal = jiff::SignedDuration::try_from(REFRESH_RENEWAL).unwrap_or_default();
        Ok(AuthResponse {
            access_token: self.issue(Purpose::Access, &holder, &peer_credentials)?,
            refresh_token: if left < renewal {
                self.issue(Purpose::Refresh, &holder, &peer_credentials)?
            } else {
                String::new()
            },
            ..AuthResponse::default()
        })
    }

    /// The reason to end an open session, if there is one.
    pub(crate) fn verdict(
        &self,
        cluster: &ClusterName,
        mode: Mode,
        peer_credentials: &Credentials,
    ) -> Option<End> {
        if !*self.active.borrow() {
            return Some(End::Inactive);
        }
        if self.are_revoked(cluster, peer_credentials) {
            return Some(End::Revoked);
        }
        let passwords = self.passwords.as_ref();
        if passwords.is_some_and(|it| !peer_credentials.are_current(&it.users.borrow())) {
            return Some(End::Password);
        }
        match self.fleet.borrow().clusters.get(cluster.as_str()) {
            None => Some(End::LeftFleet),
            Some(enrolment) if enrolment.mode != mode => Some(End::ModeChanged),
            Some(enrolment) if !enrolment.certificates.admit(peer_credentials) => {
                Some(End::Revoked)
            }
            Some(_) => None,
        }
    }

    /// The reason to end a session or tunnel that has just been registered, if there is one: no change is missed in
    /// between.
    ///
    /// Trust may change between the TLS handshake and the registration of the session, and a change ends only sessions
    /// that are registered.
    pub(crate) fn verdict_at_opening(
        &self,
        cluster: &ClusterName,
        mode: Mode,
        peer_credentials: &Credentials,
    ) -> Option<End> {
        self.verdict(cluster, mode, peer_credentials).or_else(|| {
            let trust = Trust::new(&Arc::clone(&self.material.borrow()));
            (!peer_credentials.are_trusted(&trust, self.clock.now())).then_some(End::Certificate)
        })
    }

    /// Forgets clusters that do not pass `keep`.
    pub(crate) fn keep(&self, keep: impl Fn(&str) -> bool) {
        self.budget.keep(&keep);
        let mut proved = self.proved.lock();
        proved.retain(|cluster, _| keep(cluster.as_str()));
    }

    /// The identity of this replica; refused while it does not serve.
    fn serving(&self) -> Result<Arc<str>, Refusal> {
        if !*self.active.borrow() {
            return Err(Refusal::NotActive("standby".to_owned()));
        }
        let starting = || Refusal::NotActive("starting".to_owned());
        // A revoked agent must not connect before the list is known.
        if self.revoked.borrow().is_none() {
            return Err(starting());
        }
        let uid = self.principal_uid.borrow().clone();
        uid.ok_or_else(starting)
    }

    fn are_revoked(&self, cluster: &ClusterName, peer_credentials: &Credentials) -> bool {
        let list = self.revoked.borrow();
        list.as_ref().is_some_and(|list| {
            list.has_cluster(cluster.as_str()) || peer_credentials.are_revoked(list)
        })
    }

    fn not_revoked(
        &self,
        cluster: &ClusterName,
        peer_credentials: &Credentials,
    ) -> Result<(), Refusal> {
        if !self.are_revoked(cluster, peer_credentials) {
            return Ok(());
        }
        tracing::info!(%cluster, "rejected a revoked agent");
        // A cluster that is not enrolled must not use our memory.
        if self.fleet.borrow().clusters.contains_key(cluster.as_str()) {
            return Err(self.record_refusal(cluster, Refusal::Revoked));
        }
        Err(Refusal::Revoked)
    }

    /// Enrols an unknown cluster, where this is configured.
    async fn register(&self, cluster: &ClusterName, mode: Mode) -> Result<(), Refusal> {
        let Some(registrar) = &self.registrar else {
            return Ok(());
        };
        if self.fleet.borrow().clusters.contains_key(cluster.as_str()) {
            return Ok(());
        }
        if !self.budget.spend(cluster) {
            return Err(Refusal::TooMany);
        }
        let registering = async {
            if !registrar.register(cluster.clone(), mode).await {
                return false;
            }
            let mut fleet = self.fleet.clone();
            let known = fleet
                .wait_for(|fleet| fleet.clusters.contains_key(cluster.as_str()))
                .await;
            known.is_ok()
        };
        match tokio::time::timeout(REGISTRATION, registering).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Refusal::NotEnrolled),
            Err(_elapsed) => Err(Refusal::NotActive("registering".to_owned())),
        }
    }

    fn enrolled(
        &self,
        cluster: &ClusterName,
        claimed: Mode,
        peer_credentials: &Credentials,
    ) -> Result<Enrolment, Refusal> {
        let known = self.fleet.borrow().clusters.get(cluster.as_str()).cloned();
        let Some(enrolment) = known else {
            // No report: a cluster that is not enrolled must not use our memory.
            tracing::info!(%cluster, "rejected a cluster that is not enrolled");
            return Err(Refusal::NotEnrolled);
        };
        if !enrolment.certificates.admit(peer_credentials) {
            let reports = &self.registry.reports;
            reports.refused(cluster, "the agent's certificate is revoked");
            return Err(Refusal::Revoked);
        }
        if enrolment.mode != claimed {
            let why = format!(
                "the agent claims mode {claimed}, recorded is {}",
                enrolment.mode
            );
            self.registry.reports.refused(cluster, &why);
            return Err(Refusal::NotEnrolled);
        }
        Ok(enrolment)
    }

    fn issue(
        &self,
        purpose: Purpose,
        holder: &Holder,
        peer_credentials: &Credentials,
    ) -> Result<String, Refusal> {
        let key = Arc::clone(&self.jwt_key.borrow());
        key.issue(purpose, holder, peer_credentials.binding, self.clock.now())
            .map_err(|why| {
                tracing::error!(error = %Chain(&why), "cannot issue tokens");
                Refusal::Internal
            })
    }

    fn record_refusal(&self, cluster: &ClusterName, refusal: Refusal) -> Refusal {
        self.registry.reports.refused(cluster, &refusal.to_string());
        refusal
    }
}

/// Whether the version and namespace that an agent claims can be stored.
fn presentable(version: &str, namespace: &str) -> Result<(), Refusal> {
    if version.is_empty() {
        return Err(Refusal::VersionRequired);
    }
    if !version::is_presentable(version) || namespace.len() > 63 {
        return Err(Refusal::VersionMismatch);
    }
    Ok(())
}

/// Our agent presents the version that it expects us to want, and its own in the user agent. For display only.
fn own_version<'a>(user_agent: Option<&'a str>, theirs: &Capabilities) -> Option<&'a str> {
    let product = user_agent?.split(' ').next()?;
    let version = product.strip_prefix("argocd-agent/")?;
    (theirs.is_ours() && version::is_presentable(version)).then_some(version)
}

/// The text of a peer, in a length that fits a message.
fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests;
