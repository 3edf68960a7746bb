//! The credentials in the cluster Secrets of self-registered agents: one certificate for all, which is valid for no
//! cluster by itself, and a token for each cluster, which is valid with that certificate for a day.

use argocd::cluster_secret::Access;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use principal::{
    ClusterName, JwtKey,
    admission::{
        identity::{PeerCertificate, Thumbprint},
        tokens::{SignToken, VISIT_LIFE},
    },
};

/// The certificate that Argo CD presents to the resource proxy, with its key. Implements no `Debug`.
pub(super) struct Certificate {
    ca: String,
    chain: String,
    key: String,
    thumbprint: Thumbprint,
}

impl Certificate {
    /// Reads the Secret; none if a field is missing or the certificate is invalid.
    pub(super) fn of(secret: Secret) -> Option<Self> {
        let data = secret.data?;
        let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok();
        let chain = text("tls.crt")?;
        let thumbprint = PeerCertificate::from_pem(&chain)?.thumbprint;
        Some(Self {
            ca: text("ca.crt")?,
            chain,
            key: text("tls.key")?,
            thumbprint,
        })
    }

    /// Creates the credentials for a cluster's Secret.
    pub(super) fn access(
        &self,
        cluster: &ClusterName,
        key: &JwtKey,
        now: Timestamp,
    ) -> Result<Access, SignToken> {
        Ok(Access {
            bearer_token: Some(key.issue_visit(cluster, self.thumbprint, now)?),
            ca: Some(self.ca.clone()),
            certificate: Some(self.chain.clone()),
            key: Some(self.key.clone()),
        })
    }

    /// Whether the credentials of a cluster's Secret need no renewal.
    pub(super) fn is_in(
        &self,
        access: &Access,
        cluster: &ClusterName,
        key: &JwtKey,
        now: Timestamp,
    ) -> bool {
        let is_same = access.ca.as_ref() == Some(&self.ca)
            && access.certificate.as_ref() == Some(&self.chain)
            && access.key.as_ref() == Some(&self.key);
        let token = access.bearer_token.as_deref().unwrap_or_default();
        let half = SignedDuration::try_from(VISIT_LIFE / 2).unwrap_or_default();
        is_same
            && key
                .verify_visit(token, self.thumbprint, now)
                .is_ok_and(|visit| {
                    visit.cluster == *cluster && visit.expires.duration_since(now) > half
                })
    }
}
