//! Private keys: how they are read, and which kinds a CA may have.

use std::ops::RangeInclusive;

use rcgen::{
    KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PublicKeyData as _,
    SubjectPublicKeyInfo,
};
use x509_parser::{pem::Pem, public_key::PublicKey, x509};

use super::SigningCaError;

/// The sizes of RSA keys that peers accept, in bits.
const RSA_BITS: RangeInclusive<usize> = 2048..=8192;

/// Reads a private key from PEM: PKCS#8, PKCS#1 or SEC1, without a password.
///
/// Other blocks are skipped, such as the parameters that `openssl ecparam` writes before the key.
pub fn signing_key(pem: &str) -> Result<KeyPair, rcgen::Error> {
    let key = Pem::iter_from_buffer(pem.as_bytes())
        .flatten()
        .find(|block| block.label.ends_with("PRIVATE KEY"));
    // Without a key, the error of rcgen names the cause.
    key.map_or_else(
        || KeyPair::from_pem(pem),
        |key| KeyPair::try_from(key.contents),
    )
}

/// Checks that peers, and this program itself, can verify signatures of a CA's key.
pub(super) fn check(key: &x509::SubjectPublicKeyInfo<'_>) -> Result<(), SigningCaError> {
    let known = SubjectPublicKeyInfo::from_der(key.raw).is_ok_and(|it| {
        [
            &PKCS_ECDSA_P256_SHA256,
            &PKCS_ECDSA_P384_SHA384,
            &PKCS_ED25519,
        ]
        .contains(&it.algorithm())
    });
    if known {
        return Ok(());
    }
    let parsed = key.parsed();
    let found = if let Ok(PublicKey::RSA(rsa)) = &parsed {
        let bits = rsa.key_size();
        if RSA_BITS.contains(&bits) {
            return Ok(());
        }
        format!("RSA with {bits} bits")
    } else if matches!(parsed, Ok(PublicKey::EC(_))) {
        "ECDSA on another curve".to_owned()
    } else {
        "of another kind".to_owned()
    };
    Err(SigningCaError::CaKeyKind { found })
}

#[cfg(test)]
mod tests;
