//! Makes keys and certificates. Every field of a certificate is set here, none is left to a default.

use std::collections::BTreeSet;

use jiff::Timestamp;
use ocm::sdk::signing_key;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256, RsaKeySize,
};
use time::{Duration, OffsetDateTime};

use super::{Authority, Error};

/// The lifetime of Kubernetes' own authorities.
const AUTHORITY_LIFE: Duration = Duration::days(3650);
/// We renew when a third is left, so that renewals may fail for a month.
pub const SERVING_LIFE: Duration = Duration::days(90);
/// Tolerates peers whose clock is behind ours; a twentieth of a short life.
const BACKDATED: Duration = Duration::minutes(5);

/// A certificate and its key, as PEM.
#[derive(derive_more::Debug)]
#[debug("Leaf({certificate})")]
pub struct Leaf {
    /// The certificate, and those of intermediate CAs.
    pub certificate: String,
    /// Its private key, PKCS#8.
    pub key: String,
}

/// Makes a new certificate authority (ECDSA P-256).
pub fn authority(now: Timestamp) -> Result<Authority, Error> {
    let failed = failed("certificate authority");
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(failed)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name("argocd-agent-ca");
    // Nothing but leaves may follow.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_life(&mut params, now, AUTHORITY_LIFE)?;
    let certificate = params.self_signed(&key).map_err(failed)?.pem();
    Authority::from_pem(certificate, key.serialize_pem(), None).map_err(|reason| Error::Unusable {
        name: super::CA_SECRET,
        reason,
    })
}

/// Issues a serving certificate for these DNS names and IP addresses.
pub fn serving(ca: &Authority, names: &BTreeSet<String>, now: Timestamp) -> Result<Leaf, Error> {
    let what = "serving certificate";
    let mut params =
        CertificateParams::new(names.iter().cloned().collect::<Vec<_>>()).map_err(failed(what))?;
    params.distinguished_name = common_name("argocd-agent");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf(ca, params, what, now)
}

/// Issues a client certificate with this common name.
pub fn visitor(ca: &Authority, name: &str, now: Timestamp) -> Result<Leaf, Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name(name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    leaf(ca, params, "client certificate", now)
}

fn leaf(
    ca: &Authority,
    mut params: CertificateParams,
    what: &'static str,
    now: Timestamp,
) -> Result<Leaf, Error> {
    let failed = failed(what);
    let signing = signing_key(&ca.key).map_err(failed)?;
    let issuer = Issuer::from_ca_cert_der(&ca.der.as_slice().into(), signing).map_err(failed)?;
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(failed)?;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    // Nothing outlives the CA that signed it.
    let left = ca.not_after.duration_since(now).as_secs().max(0);
    set_life(&mut params, now, SERVING_LIFE.min(Duration::seconds(left)))?;
    let certificate = params.signed_by(&key, &issuer).map_err(failed)?.pem();
    Ok(Leaf {
        certificate: certificate + &ca.chain,
        key: key.serialize_pem(),
    })
}

/// Makes the RSA key that signs tokens: Go agents expect RS512. It keeps a core busy for a moment.
pub fn token_key() -> Result<String, Error> {
    KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_3072)
        .map(|key| key.serialize_pem())
        .map_err(failed("token key"))
}

fn failed(what: &'static str) -> impl Fn(rcgen::Error) -> Error + Copy {
    move |source| Error::Make { what, source }
}

fn common_name(name: &str) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    subject
}

fn set_life(params: &mut CertificateParams, now: Timestamp, life: Duration) -> Result<(), Error> {
    let now = OffsetDateTime::from_unix_timestamp(now.as_second())
        .map_err(|_out_of_range| Error::Time)?;
    params.not_before = now
        .checked_sub(BACKDATED.min(life / 20))
        .ok_or(Error::Time)?;
    params.not_after = now.checked_add(life).ok_or(Error::Time)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::issuer::facts;

    fn now() -> Timestamp {
        "2026-11-20T12:00:00Z".parse().unwrap()
    }

    fn parsed<T>(
        pem: &str,
        look: impl FnOnce(&x509_parser::certificate::X509Certificate<'_>) -> T,
    ) -> T {
        let (_, pem) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).unwrap();
        look(&pem.parse_x509().unwrap())
    }

    #[test]
    fn an_authority_can_sign_leaves_and_nothing_else() {
        let ca = authority(now()).unwrap();
        parsed(&ca.certificate, |certificate| {
            assert!(certificate.is_ca());
            let constraints = certificate.basic_constraints().unwrap().unwrap().value;
            assert_eq!(constraints.path_len_constraint, Some(0));
            let usage = certificate.key_usage().unwrap().unwrap().value;
            assert!(usage.key_cert_sign() && !usage.digital_signature());
        });
    }

    #[test]
    fn a_serving_certificate_serves_and_nothing_else() {
        let ca = authority(now()).unwrap();
        let names = [
            "argocd-agent-principal.x.svc".to_owned(),
            "10.240.0.7".to_owned(),
            "2001:db8::7".to_owned(),
        ]
        .into();
        let leaf = serving(&ca, &names, now()).unwrap();
        parsed(&leaf.certificate, |certificate| {
            let usage = certificate.extended_key_usage().unwrap().unwrap().value;
            assert!(usage.server_auth && !usage.client_auth && !usage.any);
            assert!(!certificate.is_ca());
        });
        let read = facts::leaf_facts(&leaf.certificate, &leaf.key, &ca).unwrap();
        assert_eq!(read.names, names);
        assert!(read.issued_by_ca);
    }

    #[test]
    fn a_client_certificate_is_not_valid_for_serving() {
        let ca = authority(now()).unwrap();
        let leaf = visitor(&ca, "argocd-agent:resource-proxy:c", now()).unwrap();
        parsed(&leaf.certificate, |certificate| {
            let usage = certificate.extended_key_usage().unwrap().unwrap().value;
            assert!(usage.client_auth && !usage.server_auth && !usage.any);
            assert!(!certificate.is_ca());
        });
    }

    #[test]
    fn certificate_is_backdated_and_capped_by_its_ca() {
        let ca = authority(now()).unwrap();
        let begin = |leaf: &Leaf, at: Timestamp| {
            let facts = facts::leaf_facts(&leaf.certificate, &leaf.key, &ca).unwrap();
            (
                at.duration_since(facts.not_before).as_secs(),
                facts.not_after,
            )
        };
        let made = serving(&ca, &["a".to_owned()].into(), now()).unwrap();
        assert_eq!(begin(&made, now()).0, 300);
        let last = ca.not_after - std::time::Duration::from_mins(10);
        let short = serving(&ca, &["a".to_owned()].into(), last).unwrap();
        assert_eq!(begin(&short, last), (30, ca.not_after));
    }

    #[test]
    fn a_token_key_can_sign_tokens() {
        let key = token_key().unwrap();
        assert!(jsonwebtoken::EncodingKey::from_rsa_pem(key.as_bytes()).is_ok());
    }
}
