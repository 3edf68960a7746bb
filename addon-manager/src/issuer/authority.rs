//! The CA as a value: what is trusted, and the key that signs.

use std::fmt;

use jiff::Timestamp;
use x509_parser::prelude::FromDer as _;

/// The certificate authority, read and checked: the key belongs to the certificate.
#[derive(Clone, PartialEq, Eq)]
pub struct Authority {
    certificate: String,
    key: String,
    bundle: String,
    der: Vec<u8>,
    not_after: Timestamp,
}

impl Authority {
    /// Takes the CA apart and checks that it is one.
    ///
    /// `bundle` is what peers should trust when that is more than the certificate that signs (while
    /// one CA takes over from another).
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
        let not_after = Timestamp::from_second(parsed.validity().not_after.timestamp())
            .map_err(|error| format!("tls.crt: {error}"))?;
        let pair = rcgen::KeyPair::from_pem(&key).map_err(|error| format!("tls.key: {error}"))?;
        if *rcgen::PublicKeyData::subject_public_key_info(&pair) != *parsed.public_key().raw {
            return Err("tls.key does not belong to tls.crt".to_owned());
        }
        let bundle = bundle.filter(|text| !text.trim().is_empty());
        Ok(Self {
            bundle: bundle.unwrap_or_else(|| certificate.clone()),
            not_after,
            der: pem.contents,
            certificate,
            key,
        })
    }

    /// The certificate that signs, as PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// The same certificate, as DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// When it ends.
    pub const fn not_after(&self) -> Timestamp {
        self.not_after
    }

    /// Its private key, as PEM. For the Secret and for signing, never for anything that is shown.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What both ends trust, as PEM: this certificate, and others while one takes over.
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
    fn garbage_is_refused_with_the_field_that_holds_it() {
        let refused = Authority::from_pem("nonsense".to_owned(), String::new(), None);
        assert!(refused.unwrap_err().starts_with("tls.crt: "));
    }
}
