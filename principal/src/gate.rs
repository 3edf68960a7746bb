//! Who may come in, decided anew at every door: authentication, refresh, and the opening of a stream.
//!
//! What a certificate says is combined with what the hub has recorded; a claim of the agent never widens it. The
//! order of the checks is upstream's, so that a peer without credentials learns nothing about versions or clusters.

use std::sync::Arc;

use protocol::{
    refusal::Refusal,
    version::{self, Capabilities},
    wire::authapi::{AuthRequest, AuthResponse},
};
use runtime::{clock::Clock, error::Chain};
use tokio::sync::watch;

use crate::{
    fleet::{ClusterName, Enrolment, Fleet, Mode},
    identity::Method,
    listener::Peer,
    metrics::Metrics,
    registry::{End, Registry},
    tokens::{Announced, Holder, JwtKey, Purpose, REFRESH_RENEWAL, Verified},
};

mod budget;

pub(crate) use budget::Budget;

/// What the doors have in common.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) identity: Method,
    pub(crate) argocd_namespace: String,
    /// Who may come in; the hub's index knows of them before.
    pub(crate) fleet: watch::Receiver<Arc<Fleet>>,
    pub(crate) jwt_key: watch::Receiver<Arc<JwtKey>>,
    pub(crate) active: watch::Receiver<bool>,
    /// Our identity; known once the hub's objects are read.
    pub(crate) principal_uid: watch::Receiver<Option<Arc<str>>>,
    pub(crate) registry: Registry,
    pub(crate) metrics: Metrics,
    pub(crate) clock: Clock,
    pub(crate) budget: Budget,
}

/// A stream that may be opened.
#[derive(Clone, Debug)]
pub(crate) struct Admitted {
    pub(crate) holder: Holder,
    pub(crate) enrolment: Enrolment,
}

impl Gate {
    /// Exchanges a certificate for tokens.
    pub(crate) fn authenticate(
        &self,
        peer: &Peer,
        user_agent: Option<&str>,
        request: AuthRequest,
    ) -> Result<AuthResponse, Refusal> {
        let principal_uid = self.serving()?;
        let AuthRequest {
            method,
            credentials: _,
            mode,
            version,
            agent_namespace,
            capabilities,
        } = request;
        let claimed: Mode = mode
            .parse()
            .map_err(|_unknown| Refusal::UnknownMode(shortened(&mode)))?;
        if method != "mtls" {
            return Err(Refusal::AuthenticationFailed);
        }
        let cluster = self.identify(peer)?;
        self.enrolled(&cluster, claimed)?;
        if version.is_empty() {
            return Err(self.told(&cluster, Refusal::VersionRequired));
        }
        if !version::is_presentable(&version) || agent_namespace.len() > 63 {
            return Err(self.told(&cluster, Refusal::VersionMismatch));
        }
        if !self.budget.spend(&cluster) {
            return Err(Refusal::TooMany);
        }
        let theirs = Capabilities::read(&capabilities);
        let both = Capabilities::ours().negotiate(&theirs);
        let its_own = own_version(user_agent, &theirs).unwrap_or(&version);
        self.registry
            .report_authenticated(&cluster, claimed, its_own);
        let answer = version::answer_to(&version, &theirs).to_owned();
        let announced = Announced {
            version,
            namespace: agent_namespace,
            capabilities: both.to_words(),
        };
        let holder = Holder {
            cluster,
            mode: claimed,
            announced,
        };
        Ok(AuthResponse {
            access_token: self.issue(Purpose::Access, &holder, peer)?,
            refresh_token: self.issue(Purpose::Refresh, &holder, peer)?,
            version: answer,
            principal_namespace: self.argocd_namespace.clone(),
            principal_uid: principal_uid.to_string(),
            capabilities: both.to_words(),
            agent_name: holder.cluster.to_string(),
        })
    }

    /// Exchanges a refresh token for an access token, on the certificate that it was issued on.
    pub(crate) fn refresh(&self, peer: &Peer, token: &str) -> Result<AuthResponse, Refusal> {
        self.serving()?;
        let Verified { holder, expires } = self.verify(peer, token, Purpose::Refresh)?;
        self.enrolled(&holder.cluster, holder.mode)?;
        if !self.budget.spend(&holder.cluster) {
            return Err(Refusal::TooMany);
        }
        let left = expires.duration_since(self.clock.now());
        let renewal = jiff::SignedDuration::try_from(REFRESH_RENEWAL).unwrap_or_default();
        Ok(AuthResponse {
            access_token: self.issue(Purpose::Access, &holder, peer)?,
            refresh_token: if left < renewal {
                self.issue(Purpose::Refresh, &holder, peer)?
            } else {
                String::new()
            },
            ..AuthResponse::default()
        })
    }

    /// Whether a stream with this token may be opened.
    pub(crate) fn admit(&self, peer: &Peer, token: &str) -> Result<Admitted, Refusal> {
        self.serving()?;
        let Verified { holder, expires: _ } = self.verify(peer, token, Purpose::Access)?;
        let enrolment = self.enrolled(&holder.cluster, holder.mode)?;
        if !self.budget.spend(&holder.cluster) {
            return Err(Refusal::TooMany);
        }
        Ok(Admitted { holder, enrolment })
    }

    /// Why a session that is open may not stay, if so.
    pub(crate) fn verdict(&self, cluster: &ClusterName, mode: Mode) -> Option<End> {
        if !*self.active.borrow() {
            return Some(End::Inactive);
        }
        match self.fleet.borrow().clusters.get(cluster.as_str()) {
            None => Some(End::LeftFleet),
            Some(enrolment) if enrolment.mode != mode => Some(End::ModeChanged),
            Some(_) => None,
        }
    }

    /// Whether this replica serves, and as whom.
    fn serving(&self) -> Result<Arc<str>, Refusal> {
        if !*self.active.borrow() {
            return Err(Refusal::NotActive("standby".to_owned()));
        }
        let uid = self.principal_uid.borrow().clone();
        uid.ok_or_else(|| Refusal::NotActive("starting".to_owned()))
    }

    fn identify(&self, peer: &Peer) -> Result<ClusterName, Refusal> {
        self.identity
            .cluster_of(peer.certificate.leaf())
            .map_err(|why| {
                tracing::info!(address = %peer.address, reason = %why, "a certificate was refused");
                Refusal::AuthenticationFailed
            })
    }

    fn enrolled(&self, cluster: &ClusterName, claimed: Mode) -> Result<Enrolment, Refusal> {
        let known = self.fleet.borrow().clusters.get(cluster.as_str()).cloned();
        let Some(enrolment) = known else {
            // Not in a report: whoever is not enrolled must not be able to make us remember it.
            tracing::info!(%cluster, "a cluster that is not enrolled was refused");
            return Err(Refusal::NotEnrolled);
        };
        if enrolment.mode != claimed {
            let why = format!(
                "the agent says mode {claimed}, recorded is {}",
                enrolment.mode
            );
            self.registry.report_refused(cluster, &why);
            return Err(Refusal::NotEnrolled);
        }
        Ok(enrolment)
    }

    fn verify(&self, peer: &Peer, token: &str, purpose: Purpose) -> Result<Verified, Refusal> {
        let key = Arc::clone(&self.jwt_key.borrow());
        let thumbprint = peer.certificate.thumbprint();
        let verified =
            key.verify(token, purpose, thumbprint, self.clock.now()).map_err(|why| {
                tracing::info!(address = %peer.address, error = %Chain(&why), "a token was refused");
                Refusal::InvalidToken
            })?;
        // The same certificate may have meant another cluster under another method.
        let cluster = self
            .identify(peer)
            .map_err(|_nobody| Refusal::InvalidToken)?;
        if cluster == verified.holder.cluster {
            Ok(verified)
        } else {
            Err(Refusal::InvalidToken)
        }
    }

    fn issue(&self, purpose: Purpose, holder: &Holder, peer: &Peer) -> Result<String, Refusal> {
        let key = Arc::clone(&self.jwt_key.borrow());
        key.issue(
            purpose,
            holder,
            peer.certificate.thumbprint(),
            self.clock.now(),
        )
        .map_err(|why| {
            tracing::error!(error = %Chain(&why), "cannot issue tokens");
            Refusal::Internal
        })
    }

    fn told(&self, cluster: &ClusterName, refusal: Refusal) -> Refusal {
        self.registry.report_refused(cluster, &refusal.to_string());
        refusal
    }
}

/// Our agent presents the version that it thinks we want, and its own in the user agent. For people only.
fn own_version<'a>(user_agent: Option<&'a str>, theirs: &Capabilities) -> Option<&'a str> {
    let product = user_agent?.split(' ').next()?;
    let version = product.strip_prefix("argocd-agent/")?;
    (theirs.is_ours() && version::is_presentable(version)).then_some(version)
}

/// What a peer wrote, in a length that fits a message.
fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests;
