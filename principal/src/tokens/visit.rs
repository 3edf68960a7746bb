//! Tokens with which Argo CD on the hub opens a cluster at the resource proxy, where many cluster Secrets have one
//! certificate.
//!
//! Upstream's have no end, and whoever has one and any certificate opens the cluster. Ours end, and belong to the
//! certificate that is in the same Secret.

use std::time::Duration;

use jiff::Timestamp;
use jsonwebtoken::{Header, encode};
use serde::{Deserialize, Serialize};

use super::{ALGORITHM, Confirmation, ISSUER, JwtKey, SignToken, Worthless, confirmation, rules};
use crate::{fleet::ClusterName, identity::Thumbprint};

/// Upstream's word.
const AUDIENCE: &str = "argocd-agent-server-resource-proxy";

/// How long such a token is good. Whoever puts it into a cluster Secret replaces it when half of that is over.
pub const VISIT_LIFE: Duration = Duration::from_hours(24);

/// What a token says that was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The cluster that it opens.
    pub cluster: ClusterName,
    /// When it ends.
    pub expires: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct Claims {
    iss: String,
    /// The cluster, as it is.
    sub: String,
    aud: Vec<String>,
    exp: i64,
    nbf: i64,
    iat: i64,
    jti: String,
    cnf: Confirmation,
}

impl JwtKey {
    /// Makes a token that opens this cluster together with this certificate.
    pub fn issue_visit(
        &self,
        cluster: &ClusterName,
        bound_to: Thumbprint,
        now: Timestamp,
    ) -> Result<String, SignToken> {
        let issued = now.as_second();
        let life = i64::try_from(VISIT_LIFE.as_secs()).unwrap_or(i64::MAX);
        let claims = Claims {
            iss: ISSUER.to_owned(),
            sub: cluster.to_string(),
            aud: vec![AUDIENCE.to_owned()],
            exp: issued.saturating_add(life),
            nbf: issued,
            iat: issued,
            jti: uuid::Uuid::new_v4().to_string(),
            cnf: Confirmation {
                certificate: confirmation(bound_to),
            },
        };
        encode(&Header::new(ALGORITHM), &claims, &self.signing).map_err(|e| SignToken(Box::new(e)))
    }

    /// Reads a token that came over a connection with this certificate.
    pub fn verify_visit(
        &self,
        token: &str,
        presented_with: Thumbprint,
        now: Timestamp,
    ) -> Result<Visit, Worthless> {
        let claims: Claims = self.decoded(token, &rules(AUDIENCE))?;
        if now.as_second() < claims.nbf || now.as_second() >= claims.exp {
            return Err(Worthless::Time);
        }
        if confirmation(presented_with) != claims.cnf.certificate {
            return Err(Worthless::OtherCertificate);
        }
        let cluster = ClusterName::try_from(claims.sub.as_str());
        Ok(Visit {
            cluster: cluster.map_err(|_invalid| Worthless::Subject)?,
            expires: Timestamp::from_second(claims.exp).map_err(|_range| Worthless::Time)?,
        })
    }
}
