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
use x509_parser::{pem::parse_x509_pem, prelude::parse_x509_certificate, time::ASN1Time};

use crate::api::addon::Subject;

/// A CA that signs client certificates. Its key cannot be printed.
#[derive(derive_more::Debug)]
pub struct SigningCa {
    #[debug(skip)]
    issuer: Issuer<'static, KeyPair>,
    not_before: Timestamp,
    not_after: Timestamp,
    /// The CA's own certificate if another CA signed it; it accompanies each leaf.
    #[debug(skip)]
    intermediate: Option<String>,
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
    #[error("the CA's key is not readable")]
    ReadKey(#[source] rcgen::Error),
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
    #[error("the key must be ECDSA on P-256 or P-384")]
    KeyKind,
    /// The subject cannot be encoded.
    #[error("the subject has more than two groups or more than two units")]
    Subject,
    /// The certificate could not be made.
    #[error("make the certificate")]
    Make(#[source] rcgen::Error),
}

impl SigningCa {
    /// Reads a CA: its certificate (the first of the PEM) and its key (PKCS#8, SEC1 or PKCS#1).
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, SigningCaError> {
        let key = KeyPair::from_pem(key).map_err(SigningCaError::ReadKey)?;
        let unreadable = || SigningCaError::ReadCertificate;
        let (_, pem) = parse_x509_pem(certificate.as_bytes()).map_err(|_broken| unreadable())?;
        let (_, parsed) = parse_x509_certificate(&pem.contents).map_err(|_broken| unreadable())?;
        if !parsed.is_ca() {
            return Err(SigningCaError::NotACa);
        }
        if parsed.public_key().subject_public_key.as_ref() != key.public_key_raw() {
            return Err(SigningCaError::WrongKey);
        }
        let at =
            |time: ASN1Time| Timestamp::from_second(time.timestamp()).map_err(|_far| unreadable());
        let validity = parsed.validity();
        let (not_before, not_after) = (at(validity.not_before)?, at(validity.not_after)?);
        let self_signed = parsed.subject().as_raw() == parsed.issuer().as_raw();
        let issuer = Issuer::from_ca_cert_der(&pem.contents.as_slice().into(), key)
            .map_err(|_broken| unreadable())?;
        let first = first_block(certificate).ok_or_else(unreadable)?;
        let intermediate = (!self_signed).then(|| first.to_owned());
        Ok(Self {
            issuer,
            not_before,
            not_after,
            intermediate,
        })
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
        Ok(self
            .intermediate
            .iter()
            .fold(leaf, |chain, next| format!("{chain}{next}\n")))
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

fn first_block(pem: &str) -> Option<&str> {
    const END: &str = "-----END CERTIFICATE-----";
    let begin = pem.find("-----BEGIN CERTIFICATE-----")?;
    let block = pem.get(begin..)?;
    block.get(..block.find(END)? + END.len())
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
