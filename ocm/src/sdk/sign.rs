//! Certificates for custom signers: everything in them is ours, only the public key is the agent's.

use std::time::Duration;

use jiff::Timestamp;

/// A CA that signs client certificates. Its key cannot be printed.
pub struct SigningCa {
    chain_pem: String,
}

impl std::fmt::Debug for SigningCa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningCa").finish_non_exhaustive()
    }
}

/// Why a CA cannot be used, or a certificate not be made.
#[derive(Debug, thiserror::Error)]
pub enum SigningCaError {
    /// The CA's certificate is not readable.
    #[error("read the CA's certificate")]
    ReadCertificate,
}

impl SigningCa {
    /// Reads a CA: its certificate (the first of the PEM) and its key (PKCS#8, SEC1 or PKCS#1).
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, SigningCaError> {
        todo!()
    }

    /// When the CA's certificate ends.
    pub fn not_after(&self) -> Timestamp {
        todo!()
    }
}
