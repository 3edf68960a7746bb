//! Tokens: who authenticated, in which mode, and with which certificate.
//!
//! The form is upstream's (RS512, its issuer and audiences, the subject as JSON text). Ours carry one claim more: the
//! SHA-256 of the certificate they were issued on (RFC 8705), or of other credentials. A token without it is invalid.
//! Tokens are not stored here; the time is a parameter.
//!
//! With other tokens Argo CD on the hub opens a cluster at the resource proxy ([`Visit`]), where many cluster Secrets have
//! one certificate. Upstream's never expire, and open the cluster together with any certificate. Ours expire, and belong
//! to the certificate in the same Secret.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use jsonwebtoken::{
    Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, encode, jwk::Jwk,
};
use serde::{Deserialize, Serialize};

use crate::{
    admission::identity::Thumbprint,
    fleet::{ClusterName, Mode},
};

const ISSUER: &str = "argocd-agent-server";
const ALGORITHM: Algorithm = Algorithm::RS512;

/// How long an access token is good: upstream's value, and agents refresh before it ends.
pub const ACCESS_LIFE: Duration = Duration::from_mins(5);
/// How long a refresh token is good: upstream's value.
pub const REFRESH_LIFE: Duration = Duration::from_hours(24);
/// A refresh token with less than this left is replaced when it is used: upstream's value.
pub const REFRESH_RENEWAL: Duration = Duration::from_mins(10);
/// How long a token for the resource proxy is valid. The writer of the cluster Secret replaces it after half of that time.
pub const VISIT_LIFE: Duration = Duration::from_hours(24);
/// The audience of such a token: upstream's word.
const VISIT_AUDIENCE: &str = "argocd-agent-server-resource-proxy";

/// The purpose of a token; one kind is never accepted in place of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Opens streams.
    Access,
    /// Is exchanged for an access token.
    Refresh,
}

impl Purpose {
    /// Its audience, and how long it is good.
    const fn claims(self) -> (&'static str, Duration) {
        match self {
            Self::Access => ("argocd-agent-server-access", ACCESS_LIFE),
            Self::Refresh => ("argocd-agent-server-refresh", REFRESH_LIFE),
        }
    }
}

/// Signs tokens, and knows the accepted signing keys. Cannot be printed.
#[derive(Clone, derive_more::Debug)]
#[debug("JwtKey {{ accepted: {}, .. }}", accepted.len())]
pub struct JwtKey {
    signing: EncodingKey,
    accepted: Vec<DecodingKey>,
}

/// A key that cannot sign tokens.
#[derive(Debug, thiserror::Error)]
#[error("read the token signing key: not an RSA key in PEM")]
pub struct InvalidKey(#[from] jsonwebtoken::errors::Error);

impl JwtKey {
    /// Takes an RSA private key in PEM (PKCS#8, as upstream's `jwt.key`).
    pub fn from_pem(pem: &[u8]) -> Result<Self, InvalidKey> {
        let signing = EncodingKey::from_rsa_pem(pem)?;
        let public = Jwk::from_encoding_key(&signing, ALGORITHM)?;
        let accepted = vec![DecodingKey::from_jwk(&public)?];
        Ok(Self { signing, accepted })
    }

    /// Accepts signatures of `older` too, so that a new key does not void every token at once.
    #[must_use]
    pub fn accepting(mut self, older: &Self) -> Self {
        self.accepted.extend(older.accepted.iter().cloned());
        self
    }
}

/// The contents of a valid token. The fleet decides whether that cluster may connect now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The cluster that authenticated.
    pub cluster: ClusterName,
    /// Its mode.
    pub mode: Mode,
    /// The claims of the agent at that time.
    pub announced: Announced,
}

/// The claims of an agent about itself when it authenticated, checked for their form only.
///
/// They ride in the token, so that any replica can serve its stream without having met it before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announced {
    /// Its version.
    pub version: String,
    /// The Argo CD namespace on the spoke.
    pub namespace: String,
    /// Its capabilities beyond the Go protocol, as far as we know them.
    pub capabilities: Vec<String>,
}

/// A token that was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Whose it is.
    pub holder: Holder,
    /// When it ends.
    pub expires: Timestamp,
}

/// The contents of a verified token for the resource proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The cluster that it opens.
    pub cluster: ClusterName,
    /// When it ends.
    pub expires: Timestamp,
}

/// Why a token is invalid.
#[derive(Debug, thiserror::Error)]
pub enum Worthless {
    /// Form, signature, issuer or audience.
    #[error("the token was not issued by this principal")]
    NotOurs(#[source] jsonwebtoken::errors::Error),
    /// Its time is over or has not come.
    #[error("the token is expired or not yet valid")]
    Time,
    /// It was issued on another certificate.
    #[error("the token belongs to another certificate")]
    OtherCertificate,
    /// Its subject does not name a cluster and a mode.
    #[error("the token's subject cannot be read")]
    Subject,
}

/// A token could not be made.
#[derive(Debug, thiserror::Error)]
#[error("sign a token")]
pub struct SignToken(#[from] jsonwebtoken::errors::Error);

/// The claims of every token of ours.
#[derive(Serialize, Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    aud: Vec<String>,
    exp: i64,
    nbf: i64,
    iat: i64,
    jti: String,
    cnf: Confirmation,
    /// In those of agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<Announced>,
}

impl Claims {
    fn new(
        subject: String,
        audience: &str,
        life: Duration,
        bound_to: Thumbprint,
        now: Timestamp,
    ) -> Self {
        let issued = now.as_second();
        let life = i64::try_from(life.as_secs()).unwrap_or(i64::MAX);
        let certificate = confirmation(bound_to);
        Self {
            iss: ISSUER.to_owned(),
            sub: subject,
            aud: vec![audience.to_owned()],
            exp: issued.saturating_add(life),
            nbf: issued,
            iat: issued,
            jti: uuid::Uuid::new_v4().to_string(),
            cnf: Confirmation { certificate },
            agent: None,
        }
    }

    fn is_bound_to(&self, thumbprint: Thumbprint) -> bool {
        self.cnf.certificate == confirmation(thumbprint)
    }
}

/// RFC 8705: which certificate confirms the token.
#[derive(Serialize, Deserialize)]
struct Confirmation {
    #[serde(rename = "x5t#S256")]
    certificate: String,
}

#[derive(Serialize, Deserialize)]
struct Subject {
    #[serde(rename = "clientID")]
    client_id: String,
    mode: String,
}

impl JwtKey {
    /// Makes a token that is good with this certificate only.
    pub fn issue(
        &self,
        purpose: Purpose,
        holder: &Holder,
        bound_to: Thumbprint,
        now: Timestamp,
    ) -> Result<String, SignToken> {
        let subject = Subject {
            client_id: holder.cluster.to_string(),
            mode: holder.mode.as_str().to_owned(),
        };
        let subject = serde_json::to_string(&subject).map_err(jsonwebtoken::errors::Error::from)?;
        let (audience, life) = purpose.claims();
        self.sign(&Claims {
            agent: Some(holder.announced.clone()),
            ..Claims::new(subject, audience, life, bound_to, now)
        })
    }

    /// Makes a token that opens this cluster at the resource proxy together with this certificate.
    pub fn issue_visit(
        &self,
        cluster: &ClusterName,
        bound_to: Thumbprint,
        now: Timestamp,
    ) -> Result<String, SignToken> {
        // The cluster as it is, as upstream has it.
        let (subject, audience) = (cluster.to_string(), VISIT_AUDIENCE);
        self.sign(&Claims::new(subject, audience, VISIT_LIFE, bound_to, now))
    }

    fn sign(&self, claims: &Claims) -> Result<String, SignToken> {
        Ok(encode(&Header::new(ALGORITHM), claims, &self.signing)?)
    }

    /// Reads a token that came over a connection with this certificate.
    pub fn verify(
        &self,
        token: &str,
        purpose: Purpose,
        presented_with: Thumbprint,
        now: Timestamp,
    ) -> Result<Verified, Worthless> {
        self.verify_bound(token, purpose, now, |_| Some(presented_with))
    }

    /// Reads a token. `bound_to` returns the binding that a token of this cluster needs; with none, every token is
    /// invalid.
    pub fn verify_bound(
        &self,
        token: &str,
        purpose: Purpose,
        now: Timestamp,
        bound_to: impl FnOnce(&ClusterName) -> Option<Thumbprint>,
    ) -> Result<Verified, Worthless> {
        let (claims, expires) = self.claims(token, purpose.claims().0, now)?;
        let subject: Subject =
            serde_json::from_str(&claims.sub).map_err(|_form| Worthless::Subject)?;
        let cluster = ClusterName::try_from(subject.client_id.as_str());
        let cluster = cluster.map_err(|_invalid| Worthless::Subject)?;
        if !bound_to(&cluster).is_some_and(|it| claims.is_bound_to(it)) {
            return Err(Worthless::OtherCertificate);
        }
        let mode = subject.mode.parse();
        let holder = Holder {
            cluster,
            announced: claims.agent.ok_or(Worthless::Subject)?,
            mode: mode.map_err(|_unknown| Worthless::Subject)?,
        };
        Ok(Verified { holder, expires })
    }

    /// Reads a token for the resource proxy that came over a connection with this certificate.
    pub fn verify_visit(
        &self,
        token: &str,
        presented_with: Thumbprint,
        now: Timestamp,
    ) -> Result<Visit, Worthless> {
        let (claims, expires) = self.claims(token, VISIT_AUDIENCE, now)?;
        if !claims.is_bound_to(presented_with) {
            return Err(Worthless::OtherCertificate);
        }
        let cluster = ClusterName::try_from(claims.sub.as_str());
        let cluster = cluster.map_err(|_invalid| Worthless::Subject)?;
        Ok(Visit { cluster, expires })
    }

    /// The claims of a token that we signed for this audience, and its end, if its time has come and is not over.
    fn claims(
        &self,
        token: &str,
        audience: &str,
        now: Timestamp,
    ) -> Result<(Claims, Timestamp), Worthless> {
        // The algorithm is ours, never the token's. We check the times against our clock.
        let mut rules = Validation::new(ALGORITHM);
        rules.set_issuer(&[ISSUER]);
        rules.set_audience(&[audience]);
        rules.set_required_spec_claims(&["exp", "nbf", "iss", "aud", "sub"]);
        rules.validate_exp = false;
        rules.validate_nbf = false;
        let mut decoded = Err(jsonwebtoken::errors::ErrorKind::InvalidSignature.into());
        for key in &self.accepted {
            decoded = decoded.or_else(|_| decode::<Claims>(token, key, &rules));
        }
        let claims = decoded.map_err(Worthless::NotOurs)?.claims;
        if now.as_second() < claims.nbf || now.as_second() >= claims.exp {
            return Err(Worthless::Time);
        }
        let expires = Timestamp::from_second(claims.exp).map_err(|_range| Worthless::Time)?;
        Ok((claims, expires))
    }
}

fn confirmation(thumbprint: Thumbprint) -> String {
    URL_SAFE_NO_PAD.encode(thumbprint.as_bytes())
}

#[cfg(test)]
mod tests;
