//! The in-session proof: how an agent proves its certificate where a proxy ends TLS. Pure.
//!
//! The principal sends a nonce and its UID in `VersionResponse`, to configured proxies only. The agent answers in
//! `AuthRequest` with its certificates and a signature, by the key of the first, over the bytes of [`signed`]. They
//! include the dialled name, so that a proof for one server name is invalid for another.

use crate::wire::authapi::Proof;

/// Separates this signature from every other use of the key.
const CONTEXT: &[u8] = b"argocd-agent-addon in-session proof, version 1\0";
/// A leaf and a few intermediates; a proof with more is rejected.
pub const MOST_CERTIFICATES: usize = 8;
/// Longest nonce, UID or name that is signed.
pub const LONGEST: usize = 256;

/// Why a proof is rejected. No reason reveals anything about the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A proxy ends TLS here, and the agent proved nothing.
    #[error(
        "the connection comes from a proxy that ends TLS, and there is no proof of the agent's certificate"
    )]
    Missing,
    /// The connection does not come from a proxy that may speak for agents.
    #[error("a proof is accepted from configured proxies only")]
    NotAProxy,
    /// It cannot be read.
    #[error("it cannot be read")]
    Unreadable,
    /// The nonce is not ours, or was given to another proxy.
    #[error("the nonce is not one that was given to this proxy")]
    Nonce,
    /// The nonce is too old.
    #[error("the nonce is too old")]
    Late,
    /// The nonce was used before.
    #[error("the nonce was used before")]
    Replayed,
    /// The agent dialled a name that is not ours.
    #[error("the agent dialled a name that the principal's certificate does not have")]
    ServerName,
    /// No trusted CA vouches for the certificate.
    #[error("the agent's certificate is not trusted")]
    Certificate,
    /// The signature is not the certificate's.
    #[error("the signature does not fit the agent's certificate")]
    Signature,
}

impl Refused {
    /// Stable, bounded text for metric labels.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Missing => "ProofMissing",
            Self::NotAProxy => "ProofNotAProxy",
            Self::Unreadable => "ProofUnreadable",
            Self::Nonce => "ProofNonce",
            Self::Late => "ProofLate",
            Self::Replayed => "ProofReplayed",
            Self::ServerName => "ProofServerName",
            Self::Certificate => "ProofCertificate",
            Self::Signature => "ProofSignature",
        }
    }
}

/// The bytes to sign: each part after its length, so that different proofs never sign the same bytes.
pub fn signed(server_name: &str, principal_uid: &str, nonce: &[u8]) -> Vec<u8> {
    let parts = [server_name.as_bytes(), principal_uid.as_bytes(), nonce];
    parts.into_iter().fold(CONTEXT.to_vec(), |mut all, part| {
        all.extend_from_slice(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        all.extend_from_slice(part);
        all
    })
}

/// Whether the size of a proof is within bounds.
pub fn is_presentable(proof: &Proof) -> bool {
    let Proof {
        chain,
        scheme: _,
        signature,
        server_name,
        nonce,
    } = proof;
    (1..=MOST_CERTIFICATES).contains(&chain.len())
        && chain
            .iter()
            .all(|certificate| (1..=16 << 10).contains(&certificate.len()))
        && (1..=1024).contains(&signature.len())
        && (1..=LONGEST).contains(&server_name.len())
        && (1..=LONGEST).contains(&nonce.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_proofs_sign_the_same_bytes() {
        let one = signed("hub", "uid", b"nonce");
        for other in [
            signed("hubuid", "", b"nonce"),
            signed("hub", "ui", b"dnonce"),
            signed("", "hubuid", b"nonce"),
            signed("hub", "uid", b"nonc"),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn the_signed_bytes_do_not_change_between_versions() {
        let expected = [
            CONTEXT,
            &[0, 0, 0, 0, 0, 0, 0, 3],
            b"hub",
            &[0, 0, 0, 0, 0, 0, 0, 1],
            b"u",
            &[0, 0, 0, 0, 0, 0, 0, 2],
            &[7, 8],
        ];
        assert_eq!(signed("hub", "u", &[7, 8]), expected.concat());
    }

    #[test]
    fn proof_of_excessive_size_is_rejected() {
        let good = Proof {
            chain: vec![vec![1].into()],
            scheme: 1,
            signature: vec![1].into(),
            server_name: "hub".to_owned(),
            nonce: vec![1].into(),
        };
        assert!(is_presentable(&good));
        for bad in [
            Proof::default(),
            Proof {
                chain: vec![vec![1].into(); 9],
                ..good.clone()
            },
            Proof {
                chain: vec![vec![1; 17 << 10].into()],
                ..good.clone()
            },
            Proof {
                server_name: "x".repeat(257),
                ..good.clone()
            },
            Proof {
                nonce: vec![].into(),
                ..good
            },
        ] {
            assert!(!is_presentable(&bad));
        }
    }
}
