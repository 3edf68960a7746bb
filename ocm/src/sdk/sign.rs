//! Certificates for custom signers. Only the public key comes from the agent's request.
//!
//! A certificate with the content of the request could grant anything (CA:TRUE, for example). So the SDK
//! builds its own: the computed subject, client authentication only, no alternative names, a random
//! serial number, and a validity that ends with the setting, the requested time or the CA, whichever is
//! first.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PublicKeyData as _,
    SerialNumber, SubjectPublicKeyInfo,
};
use time::OffsetDateTime;
use x509_parser::{prelude::parse_x509_certificate, time::ASN1Time};

use crate::api::addon::Subject;

mod chain;
mod key;

pub use chain::own_roots;
pub use key::signing_key;

/// A CA that signs client certificates. Its key cannot be printed.
#[derive(derive_more::Debug)]
pub struct SigningCa {
    #[debug(skip)]
    issuer: Issuer<'static, KeyPair>,
    not_before: Timestamp,
    not_after: Timestamp,
    /// The CA's own certificate, and those above it in the text.
    #[debug(skip)]
    path: Vec<chain::Certificate>,
    /// The certificates that accompany each leaf, as PEM: those of an intermediate CA and of the ones above it.
    #[debug(skip)]
    chain: String,
}

/// Why a CA cannot be used, or a certificate cannot be issued.
#[derive(Debug, thiserror::Error)]
pub enum SigningCaError {
    /// The CA's certificate is not readable.
    #[error("the CA's certificate is not readable")]
    ReadCertificate,
    /// The certificate is not a CA certificate.
    #[error("the CA's certificate is not one of a CA")]
    NotACa,
    /// The CA's key is not readable.
    #[error(
        "the CA's key is not readable; it must be PEM (PKCS#8, PKCS#1 or SEC1) without a password"
    )]
    ReadKey(#[source] rcgen::Error),
    /// The CA's key is of a kind that peers do not accept.
    #[error(
        "the CA's key must be RSA with 2048 to 8192 bits, ECDSA on P-256 or P-384, or Ed25519, and is {found}; issue \
         the CA again with such a key"
    )]
    CaKeyKind {
        /// The kind of the key.
        found: String,
    },
    /// Certificates cannot name the CA as their issuer.
    #[error(
        "the CA's subject has several attributes of one type or several in one part, which certificates cannot name \
         as their issuer; issue the CA again with one attribute of each type, such as a common name alone"
    )]
    CaSubject,
    /// The key does not match the certificate.
    #[error("the CA's key does not belong to its certificate")]
    WrongKey,
    /// The CA cannot sign now.
    #[error("the CA's certificate is valid from {not_before} to {not_after}, not now")]
    NotValidNow {
        /// The begin of its validity.
        not_before: Timestamp,
        /// The end of its validity.
        not_after: Timestamp,
    },
    /// The algorithm of the agent's key is not accepted.
    #[error("the key of the request must be ECDSA on P-256 or P-384")]
    KeyKind,
    /// The subject cannot be encoded.
    #[error("the subject has more than two groups or more than two units")]
    Subject,
    /// The certificate could not be made.
    #[error("make the certificate")]
    Make(#[source] rcgen::Error),
}

impl SigningCa {
    /// Reads a CA: its key (PKCS#8, PKCS#1 or SEC1), and its certificate, which is the first of the PEM.
    ///
    /// Certificates of intermediate CAs above it may follow, in any order.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, SigningCaError> {
        let unreadable = || SigningCaError::ReadCertificate;
        let path = chain::path(chain::certificates(certificate).ok_or_else(unreadable)?);
        let first = path.first().ok_or_else(unreadable)?;
        let (issuer, [not_before, not_after]) = issuer(&first.der, key)?;
        let sent = path.iter().filter(|it| !chain::is_self_signed(&it.der));
        let chain = sent.flat_map(|it| [it.pem.as_str(), "\n"]).collect();
        Ok(Self {
            issuer,
            not_before,
            not_after,
            path,
            chain,
        })
    }

    /// The CA's certificate, as DER.
    pub fn certificate(&self) -> &[u8] {
        self.path.first().map_or(&[], |it| it.der.as_slice())
    }

    /// The certificates that accompany each one that it signs, as PEM; empty if the CA is a root.
    pub fn chain(&self) -> &str {
        &self.chain
    }

    /// Whether a peer that trusts these certificates (DER) accepts what the CA signs.
    pub fn is_trusted_by(&self, roots: &[impl AsRef<[u8]>]) -> bool {
        let is_anchored = |it: &chain::Certificate| {
            roots
                .iter()
                .any(|root| chain::is_anchored(&it.der, root.as_ref()))
        };
        self.path.iter().any(is_anchored)
    }

    /// When the CA's certificate becomes valid.
    pub const fn not_before(&self) -> Timestamp {
        self.not_before
    }

    /// When the CA's certificate expires.
    pub const fn not_after(&self) -> Timestamp {
        self.not_after
    }

    /// Makes a client certificate for a public key (`SubjectPublicKeyInfo` in DER).
    pub(crate) fn sign(
        &self,
        public_key: &[u8],
        subject: &Subject,
        validity: Validity,
    ) -> Result<String, SigningCaError> {
        // The kind of key comes from the key itself, never from how the request was signed.
        let key = SubjectPublicKeyInfo::from_der(public_key)
            .map_err(|_unsupported| SigningCaError::KeyKind)?;
        if ![&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384].contains(&key.algorithm()) {
            return Err(SigningCaError::KeyKind);
        }
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished_name(subject)?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        params.serial_number = Some(serial_number());
        params.not_before = offset(validity.not_before);
        params.not_after = offset(validity.not_after);
        let leaf = params
            .signed_by(&key, &self.issuer)
            .map_err(SigningCaError::Make)?
            .pem();
        Ok(leaf + &self.chain)
    }

    /// The validity of a certificate that is issued now.
    pub(crate) fn validity(
        &self,
        setting: Duration,
        wish: Option<Duration>,
        now: Timestamp,
    ) -> Result<Validity, SigningCaError> {
        let (not_before, not_after) = (self.not_before, self.not_after);
        if now < not_before || now >= not_after {
            return Err(SigningCaError::NotValidNow {
                not_before,
                not_after,
            });
        }
        let life = wish.map_or(setting, |wish| wish.min(setting));
        let life = SignedDuration::try_from(life).unwrap_or(SignedDuration::MAX);
        let end = now
            .checked_add(life)
            .unwrap_or(Timestamp::MAX)
            .min(not_after);
        let life = end.duration_since(now);
        let back = (life / 20).min(SignedDuration::from_mins(5));
        let begin = now.checked_sub(back).unwrap_or(now).max(not_before);
        Ok(Validity {
            not_before: begin,
            not_after: end,
        })
    }
}

/// The validity of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    /// Slightly before now, for clocks that are behind: by 5 % of the validity, at most 5 minutes.
    pub(crate) not_before: Timestamp,
    /// The end.
    pub(crate) not_after: Timestamp,
}

/// Checks a CA's certificate and its key, and returns them as an issuer, with the begin and the end of its validity.
fn issuer(
    certificate: &[u8],
    key: &str,
) -> Result<(Issuer<'static, KeyPair>, [Timestamp; 2]), SigningCaError> {
    let unreadable = || SigningCaError::ReadCertificate;
    let (_, parsed) = parse_x509_certificate(certificate).map_err(|_broken| unreadable())?;
    if !parsed.is_ca() {
        return Err(SigningCaError::NotACa);
    }
    key::check(parsed.public_key())?;
    if !chain::has_plain_subject(&parsed) {
        return Err(SigningCaError::CaSubject);
    }
    let key = signing_key(key).map_err(SigningCaError::ReadKey)?;
    if parsed.public_key().subject_public_key.as_ref() != key.public_key_raw() {
        return Err(SigningCaError::WrongKey);
    }
    let at = |time: ASN1Time| Timestamp::from_second(time.timestamp()).map_err(|_far| unreadable());
    let validity = parsed.validity();
    let validity = [at(validity.not_before)?, at(validity.not_after)?];
    let issuer = Issuer::from_ca_cert_der(&certificate.into(), key);
    Ok((issuer.map_err(|_broken| unreadable())?, validity))
}

/// rcgen keeps one value per attribute type. A second value uses a custom type with the same OID, so two
/// values are the limit.
fn distinguished_name(subject: &Subject) -> Result<DistinguishedName, SigningCaError> {
    let mut name = DistinguishedName::new();
    let parts = [
        (DnType::OrganizationName, 10, &subject.groups),
        (
            DnType::OrganizationalUnitName,
            11,
            &subject.organization_units,
        ),
    ];
    for (kind, id, values) in parts {
        let kinds = [kind, DnType::CustomDnType(vec![2, 5, 4, id])];
        if values.len() > kinds.len() {
            return Err(SigningCaError::Subject);
        }
        for (kind, value) in kinds.into_iter().zip(values) {
            name.push(kind, value.as_str());
        }
    }
    name.push(DnType::CommonName, subject.user.as_str());
    Ok(name)
}

/// 126 random bits: positive, and always 16 bytes.
fn serial_number() -> SerialNumber {
    let mut bytes: [u8; 16] = rand::random();
    if let Some(first) = bytes.first_mut() {
        *first = *first & 0x3f | 0x40;
    }
    SerialNumber::from_slice(&bytes)
}

fn offset(time: Timestamp) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(time.as_second()).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests;
