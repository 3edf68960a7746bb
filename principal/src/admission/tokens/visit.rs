//! Tokens with which Argo CD on the hub opens a cluster at the resource proxy, where many cluster Secrets have one
//! certificate.
//!
//! Upstream's tokens never expire, and open the cluster together with any certificate. Ours expire, and belong to the
//! certificate in the same Secret.

use std::time::Duration;

use jiff::Timestamp;

use super::{Claims, JwtKey, SignToken, Worthless};
use crate::{admission::identity::Thumbprint, fleet::ClusterName};

/// Upstream's word.
const AUDIENCE: &str = "argocd-agent-server-resource-proxy";

/// How long such a token is valid. The writer of the cluster Secret replaces it after half of that time.
pub const VISIT_LIFE: Duration = Duration::from_hours(24);

/// The contents of a verified token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The cluster that it opens.
    pub cluster: ClusterName,
    /// When it ends.
    pub expires: Timestamp,
}

impl JwtKey {
    /// Makes a token that opens this cluster together with this certificate.
    pub fn issue_visit(
        &self,
        cluster: &ClusterName,
        bound_to: Thumbprint,
        now: Timestamp,
    ) -> Result<String, SignToken> {
        // The cluster as it is, as upstream has it.
        let subject = cluster.to_string();
        self.sign(&Claims::new(subject, AUDIENCE, VISIT_LIFE, bound_to, now))
    }

    /// Reads a token that came over a connection with this certificate.
    pub fn verify_visit(
        &self,
        token: &str,
        presented_with: Thumbprint,
        now: Timestamp,
    ) -> Result<Visit, Worthless> {
        let claims = self.claims(token, AUDIENCE)?;
        let expires = claims.expires(now)?;
        if !claims.is_bound_to(presented_with) {
            return Err(Worthless::OtherCertificate);
        }
        let cluster = ClusterName::try_from(claims.sub.as_str());
        Ok(Visit {
            cluster: cluster.map_err(|_invalid| Worthless::Subject)?,
            expires,
        })
    }
}
