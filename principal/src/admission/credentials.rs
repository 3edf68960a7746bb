//! The credentials of a session, by the one configured method.
//!
//! Tokens are bound to them, and a session ends with them.

use std::sync::Arc;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::{
    admission::{
        identity::{PeerCertificate, Thumbprint},
        revoked::Revoked,
        trust::Trust,
        users::Users,
    },
    fleet::{Certificates, ClusterName},
};

impl Certificates {
    /// Reports whether an agent of this enrolment may connect with its own certificate.
    pub(crate) fn admit(&self, peer_credentials: &Credentials) -> bool {
        match self {
            Self::All => true,
            Self::WithUnit(unit) => {
                let certificate = peer_credentials.certificate.as_ref();
                certificate.is_some_and(|it| it.units.contains(unit))
            }
            Self::Revoked => false,
        }
    }
}

/// The credentials of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Credentials {
    /// The digest that tokens are bound to.
    pub(crate) binding: Thumbprint,
    /// The agent's own certificate, if it presented one.
    pub(crate) certificate: Option<Arc<PeerCertificate>>,
    /// The certificate of the connection, if it is not the agent's own.
    pub(crate) connection: Option<Arc<PeerCertificate>>,
    /// The cluster, with a password.
    pub(crate) user: Option<ClusterName>,
}

impl Credentials {
    /// A certificate that TLS has verified on the agent's own connection.
    pub(crate) fn of_certificate(certificate: &Arc<PeerCertificate>) -> Self {
        Self {
            binding: certificate.thumbprint,
            certificate: Some(Arc::clone(certificate)),
            connection: None,
            user: None,
        }
    }

    /// A certificate that was proved inside a connection of a proxy.
    pub(crate) fn of_proof(
        certificate: &Arc<PeerCertificate>,
        proxy: &Arc<PeerCertificate>,
    ) -> Self {
        Self {
            // Differs from the binding of the same certificate on its own connection: a token of one is invalid on the
            // other.
            binding: digest(&[b"proof", certificate.thumbprint.as_bytes()]),
            certificate: Some(Arc::clone(certificate)),
            connection: Some(Arc::clone(proxy)),
            user: None,
        }
    }

    /// A password, on a connection that may have a certificate of its own.
    ///
    /// None while there is no such user.
    pub(crate) fn of_user(
        user: &ClusterName,
        users: &Users,
        connection: Option<&Arc<PeerCertificate>>,
    ) -> Option<Self> {
        let hash = users.hash(user)?;
        let certificate = connection.map_or([0; 32], |it| *it.thumbprint.as_bytes());
        Some(Self {
            binding: digest(&[
                b"user",
                user.as_str().as_bytes(),
                hash.as_bytes(),
                &certificate,
            ]),
            certificate: None,
            connection: connection.cloned(),
            user: Some(user.clone()),
        })
    }

    /// A header that a mesh has set.
    pub(crate) fn of_header(cluster: &ClusterName) -> Self {
        Self {
            binding: digest(&[b"header", cluster.as_str().as_bytes()]),
            certificate: None,
            connection: None,
            user: None,
        }
    }

    fn certificates(&self) -> impl Iterator<Item = &PeerCertificate> {
        let all = [&self.certificate, &self.connection];
        all.into_iter().filter_map(Option::as_deref)
    }

    /// When the first of the certificates ends.
    pub(crate) fn not_after(&self) -> Option<Timestamp> {
        self.certificates().map(|it| it.not_after).min()
    }

    /// Whether each certificate is from a CA that is trusted now.
    pub(crate) fn are_trusted(&self, trust: &Trust, now: Timestamp) -> bool {
        self.certificates()
            .all(|certificate| trust.vouches_for(certificate, now))
    }

    /// Whether any of them is revoked.
    pub(crate) fn are_revoked(&self, list: &Revoked) -> bool {
        self.certificates()
            .any(|certificate| list.has_certificate(certificate))
    }

    /// Whether the password is still current.
    pub(crate) fn are_current(&self, users: &Users) -> bool {
        self.user.as_ref().is_none_or(|user| {
            let now = Self::of_user(user, users, self.connection.as_ref());
            now.is_some_and(|now| now.binding == self.binding)
        })
    }
}

fn digest(parts: &[&[u8]]) -> Thumbprint {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hasher.update(part);
    }
    Thumbprint::from_digest(hasher.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Authority, name};

    fn users(text: &str) -> Users {
        Users::read(text)
    }

    const HASH: &str = "$2a$04$abcdefghijklmnopqrstuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuu";

    #[test]
    fn tokens_are_bound_per_authentication_method() {
        let authority = Authority::new();
        let agent = Arc::new(authority.agent("a").peer_certificate());
        let proxy = Arc::new(authority.client("proxy").peer_certificate());
        let (a, all) = (name("a"), users(&format!("a:{HASH}")));
        let peer_credentials = [
            Credentials::of_certificate(&agent),
            Credentials::of_proof(&agent, &proxy),
            Credentials::of_user(&a, &all, None).unwrap(),
            Credentials::of_user(&a, &all, Some(&agent)).unwrap(),
            Credentials::of_header(&a),
        ];
        for (at, one) in peer_credentials.iter().enumerate() {
            for other in peer_credentials.iter().skip(at + 1) {
                assert_ne!(one.binding, other.binding);
            }
        }
    }

    #[test]
    fn a_changed_password_is_not_the_one_that_was_shown() {
        let a = name("a");
        let shown = Credentials::of_user(&a, &users(&format!("a:{HASH}")), None).unwrap();
        assert!(shown.are_current(&users(&format!("b:{HASH}\na:{HASH}"))));
        let other = HASH.replace("abc", "abd");
        assert!(!shown.are_current(&users(&format!("a:{other}"))));
        assert!(!shown.are_current(&users("")));
    }
}
