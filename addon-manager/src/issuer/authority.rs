//! The CA as a value: its certificates and its key.

use std::fmt;

use jiff::Timestamp;
use runtime::credentials::{KeyId, fingerprint};
use x509_parser::prelude::FromDer as _;

/// The certificate authority, read and checked: the key belongs to the certificate.
#[derive(Clone, PartialEq, Eq)]
pub struct Authority {
    certificate: String,
    key: String,
    bundle: String,
    der: Vec<u8>,
    fingerprint: String,
    key_id: Option<KeyId>,
    unit: Option<String>,
    not_before: Timestamp,
    not_after: Timestamp,
}

impl Authority {
    /// Parses the CA and checks it.
    ///
    /// `bundle` contains the certificates that peers should trust, if these are more than the signing one (during a
    /// rotation).
    pub fn from_pem(
        certificate: String,
        key: String,
        bundle: Option<String>,
    ) -> Result<Self, String> {
        let (_, pem) = x509_parser::pem::parse_x509_pem(certificate.as_bytes())
            .map_err(|error| format!("tls.crt: {error}"))?;
        let (_, parsed) = x509_parser::certificate::X509Certificate::from_der(&pem.contents)
            .map_err(|error| format!("tls.crt: {error}"))?;
        if !parsed.is_ca() {
            return Err("tls.crt is not a certificate authority".to_owned());
        }
        let time = |time: x509_parser::time::ASN1Time| {
            Timestamp::from_second(time.timestamp()).map_err(|error| format!("tls.crt: {error}"))
        };
        let not_before = time(parsed.validity().not_before)?;
        let not_after = time(parsed.validity().not_after)?;
        let key_id = KeyId::of_subject(&parsed);
        let pair = rcgen::KeyPair::from_pem(&key).map_err(|error| format!("tls.key: {error}"))?;
        if *rcgen::PublicKeyData::subject_public_key_info(&pair) != *parsed.public_key().raw {
            return Err("tls.key does not belong to tls.crt".to_owned());
        }
        let bundle = bundle.filter(|text| !text.trim().is_empty());
        Ok(Self {
            bundle: bundle.unwrap_or_else(|| certificate.clone()),
            not_before,
            not_after,
            key_id,
            unit: None,
            fingerprint: fingerprint(&pem.contents),
            der: pem.contents,
            certificate,
            key,
        })
    }

    /// The certificate that signs, as PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// The certificate that signs, as DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// Sets the organizational unit of the agents' certificates that it signs.
    #[must_use]
    pub fn with_unit(self, unit: Option<String>) -> Self {
        Self { unit, ..self }
    }

    /// The organizational unit of the agents' certificates that it signs; none for the first CA.
    ///
    /// OCM's registration agent requests a new certificate when the required subject differs from that of the present
    /// certificate. So the next CA of a rotation has its own unit, and every agent gets a certificate from it within
    /// seconds instead of near the end of the old one's life.
    pub fn unit(&self) -> Option<&str> {
        self.unit.as_deref()
    }

    /// The fingerprint of its certificate, by which agents report trust.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The identifier of its key.
    pub const fn key_id(&self) -> Option<&KeyId> {
        self.key_id.as_ref()
    }

    /// The start of its validity.
    pub const fn not_before(&self) -> Timestamp {
        self.not_before
    }

    /// The end of its validity.
    pub const fn not_after(&self) -> Timestamp {
        self.not_after
    }

    /// Its private key, as PEM. For the Secret and for signing, never for logs.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The CAs that both ends trust, as PEM: this certificate, and a second one during a rotation.
    pub fn bundle(&self) -> &str {
        &self.bundle
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::issuer::make;

    fn now() -> Timestamp {
        "2026-11-20T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn the_key_is_not_shown() {
        let ca = make::authority(now()).unwrap();
        let key_body = ca.key().lines().nth(1).unwrap().to_owned();
        assert!(!format!("{ca:?}").contains(&key_body));
    }

    #[test]
    fn a_key_of_another_certificate_is_refused() {
        let (one, other) = (
            make::authority(now()).unwrap(),
            make::authority(now()).unwrap(),
        );
        let mixed = Authority::from_pem(one.certificate().to_owned(), other.key().to_owned(), None);
        assert_eq!(mixed.unwrap_err(), "tls.key does not belong to tls.crt");
    }

    #[test]
    fn a_serving_certificate_is_not_an_authority() {
        let ca = make::authority(now()).unwrap();
        let leaf = make::serving(&ca, &["a".to_owned()].into(), now()).unwrap();
        let refused = Authority::from_pem(leaf.certificate, leaf.key, None);
        assert_eq!(
            refused.unwrap_err(),
            "tls.crt is not a certificate authority"
        );
    }

    #[test]
    fn garbage_is_refused_with_its_field() {
        let refused = Authority::from_pem("nonsense".to_owned(), String::new(), None);
        assert!(refused.unwrap_err().starts_with("tls.crt: "));
    }
}
