//! Authenticates a connection, and finds the cluster of each request: by the certificate of the connection, or by the
//! token of the request where tokens are enabled.

use std::sync::Arc;

use http::{HeaderMap, header::AUTHORIZATION};
use runtime::error::Chain;

use super::shared::{ProxyClient, Shared};
use crate::{
    admission::{
        identity::{PeerCertificate, visitor::Visitors},
        tokens::Worthless,
    },
    fleet::ClusterName,
};

/// RFC 6750, section 2.1; the scheme in any case (RFC 9110, section 11.1).
const SCHEME: &str = "bearer ";

/// A client with a certificate that TLS has verified.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    certificate: Arc<PeerCertificate>,
    /// The cluster that the certificate alone grants.
    opens: Option<ClusterName>,
}

/// Why a request has no cluster.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoAccess {
    #[error("permission denied: this certificate grants access to no cluster")]
    Certificate,
    #[error("permission denied: the bearer token grants access to no cluster")]
    Token(#[from] Worthless),
}

impl Caller {
    pub(super) fn new(certificate: PeerCertificate, visitors: Visitors) -> Self {
        let opens = visitors.cluster_of(certificate.leaf());
        if let Err(why) = &opens {
            let error = Chain(why);
            tracing::debug!(%error, "the client certificate has no cluster name");
        }
        Self {
            certificate: Arc::new(certificate),
            opens: opens.ok(),
        }
    }

    pub(super) fn certificate(&self) -> &PeerCertificate {
        &self.certificate
    }

    /// Authenticates a request with these headers. The certificate does not replace an invalid token.
    pub(super) fn proxy_client(
        &self,
        shared: &Shared,
        headers: &HeaderMap,
    ) -> Result<ProxyClient, NoAccess> {
        let token = match shared.visitors {
            Visitors::Named => None,
            Visitors::Upstream => bearer(headers),
        };
        let certificate_ends = self.certificate.not_after;
        let (cluster, ends) = if let Some(token) = token {
            let key = Arc::clone(&shared.live.admission.jwt_key.borrow());
            let (thumbprint, now) = (self.certificate.thumbprint, shared.live.clock.now());
            let visit = key.verify_visit(token, thumbprint, now)?;
            (visit.cluster, visit.expires.min(certificate_ends))
        } else {
            let opens = self.opens.clone().ok_or(NoAccess::Certificate)?;
            (opens, certificate_ends)
        };
        Ok(ProxyClient {
            cluster,
            certificate: Arc::clone(&self.certificate),
            ends,
        })
    }
}

/// The token in the headers of a request, if there is one.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then_some(token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bearer_token_follows_its_scheme() {
        let token = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, http::HeaderValue::from_static(value));
            bearer(&headers).map(str::to_owned)
        };
        assert_eq!(token("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(token("bearer  abc ").as_deref(), Some("abc"));
        for other in ["", "Bearer", "Basic abc", "BearerTo ken", "abc"] {
            assert_eq!(token(other), None, "{other:?}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
