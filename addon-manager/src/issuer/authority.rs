//! The CA as a value: its certificates and its key.

use jiff::Timestamp;
use runtime::credentials::{KeyId, fingerprint};
use x509_parser::{certificate::X509Certificate, pem::parse_x509_pem, time::ASN1Time};

/// The certificate authority, read and checked: the key belongs to the certificate.
#[derive(Clone, derive_more::Debug, PartialEq, Eq)]
#[debug("Authority({certificate})")]
pub struct Authority {
    /// The certificate that signs, as PEM.
    pub certificate: String,
    /// Its private key, as PEM. For the Secret and for signing, never for logs.
    pub key: String,
    /// The CAs that both ends trust, as PEM: this certificate, and a second one during a rotation.
    pub bundle: String,
    /// The certificate that signs, as DER.
    pub der: Vec<u8>,
    /// The fingerprint of its certificate, by which agents report trust.
    pub fingerprint: String,
    /// The identifier of its key.
    pub key_id: Option<KeyId>,
    /// The organizational unit of the agents' certificates that it signs; none for the first CA.
    ///
    /// OCM's registration agent requests a new certificate when the required subject differs from that of the present
    /// certificate. So the next CA of a rotation has its own unit, and every agent gets a certificate from it within
    /// seconds instead of near the end of the old one's life.
    pub unit: Option<String>,
    /// The start of its validity.
    pub not_before: Timestamp,
    /// The end of its validity.
    pub not_after: Timestamp,
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
        let read = |x509: &X509Certificate<'_>, der: &[u8], life| {
            x509.is_ca()
                .then(|| (KeyId::of_subject(x509), der.to_owned(), life))
        };
        let (key_id, der, [not_before, not_after]) =
            read_pair(&certificate, &key, read)?.ok_or("tls.crt is not a certificate authority")?;
        let bundle = bundle.filter(|text| !text.trim().is_empty());
        Ok(Self {
            bundle: bundle.unwrap_or_else(|| certificate.clone()),
            not_before,
            not_after,
            key_id,
            unit: None,
            fingerprint: fingerprint(&der),
            der,
            certificate,
            key,
        })
    }
}

/// Parses a certificate, checks that the key belongs to it, and returns the facts that `read` takes from the certificate,
/// its DER form, and the start and the end of its life.
pub(super) fn read_pair<T>(
    certificate: &str,
    key: &str,
    read: impl FnOnce(&X509Certificate<'_>, &[u8], [Timestamp; 2]) -> T,
) -> Result<T, String> {
    let (_, pem) = parse_x509_pem(certificate.as_bytes()).map_err(in_certificate)?;
    let parsed = pem.parse_x509().map_err(in_certificate)?;
    let pair = rcgen::KeyPair::from_pem(key).map_err(|error| format!("tls.key: {error}"))?;
    if *rcgen::PublicKeyData::subject_public_key_info(&pair) != *parsed.public_key().raw {
        return Err("tls.key does not belong to tls.crt".to_owned());
    }
    let time = |at: ASN1Time| Timestamp::from_second(at.timestamp()).map_err(in_certificate);
    let life = [
        time(parsed.validity().not_before)?,
        time(parsed.validity().not_after)?,
    ];
    Ok(read(&parsed, &pem.contents, life))
}

fn in_certificate(error: impl std::fmt::Display) -> String {
    format!("tls.crt: {error}")
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
        let key_body = ca.key.lines().nth(1).unwrap().to_owned();
        assert!(!format!("{ca:?}").contains(&key_body));
    }

    #[test]
    fn a_key_of_another_certificate_is_refused() {
        let (one, other) = (
            make::authority(now()).unwrap(),
            make::authority(now()).unwrap(),
        );
        let mixed = Authority::from_pem(one.certificate.clone(), other.key.clone(), None);
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
