use rcgen::{
    BasicConstraints, CertifiedIssuer, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256,
    SignatureAlgorithm,
};
use x509_parser::{pem::parse_x509_pem, prelude::X509Certificate};

use super::*;
use crate::sdk::csr::{
    public_key,
    samples::{Sample, addon_name, cluster_name},
};

const DAY: Duration = Duration::from_hours(24);

fn now() -> Timestamp {
    "2026-11-20T12:00:00Z".parse().unwrap()
}

fn ca_with(algorithm: &'static SignatureAlgorithm) -> (String, SigningCa) {
    let key = KeyPair::generate_for(algorithm).unwrap();
    let key_pem = key.serialize_pem();
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.not_before = offset(now() - SignedDuration::from_hours(24));
    params.not_after = offset(now() + SignedDuration::from_hours(365 * 24));
    let issuer = CertifiedIssuer::self_signed(params, key).unwrap();
    let ca = SigningCa::from_pem(&issuer.pem(), &key_pem).unwrap();
    (issuer.pem(), ca)
}

fn subject() -> Subject {
    super::super::registration::default_subject(&addon_name(), &cluster_name())
}

fn sign(ca: &SigningCa, request: &str) -> Result<String, SigningCaError> {
    let key = public_key(request.as_bytes()).map_err(|_refused| SigningCaError::KeyKind)?;
    ca.sign(&key, &subject(), ca.validity(30 * DAY, None, now())?)
}

fn with_certificate<T>(pem: &str, look: impl FnOnce(&X509Certificate<'_>) -> T) -> T {
    let (_, pem) = parse_x509_pem(pem.as_bytes()).unwrap();
    let (_, certificate) = parse_x509_certificate(&pem.contents).unwrap();
    look(&certificate)
}

#[test]
fn nothing_but_the_key_comes_from_the_request() {
    for algorithm in [&PKCS_ECDSA_P256_SHA256, &PKCS_RSA_SHA256] {
        let (ca_pem, ca) = ca_with(algorithm);
        let mut hostile = Sample::good().params();
        hostile.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        hostile.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        let request = hostile.serialize_request(&key).unwrap().pem().unwrap();
        let pem = sign(&ca, &request).unwrap();
        assert_eq!(pem.matches("BEGIN CERTIFICATE").count(), 1);
        with_certificate(&pem, |leaf| {
            assert!(!leaf.is_ca());
            let usage = leaf.key_usage().unwrap().unwrap().value;
            assert!(usage.digital_signature() && !usage.key_cert_sign() && !usage.crl_sign());
            let usage = leaf.extended_key_usage().unwrap().unwrap().value;
            assert!(usage.client_auth && !usage.server_auth && !usage.any);
            assert!(leaf.subject_alternative_name().unwrap().is_none());
            assert_eq!(
                leaf.public_key().subject_public_key.as_ref(),
                key.public_key_raw()
            );
            with_certificate(&ca_pem, |ca| {
                leaf.verify_signature(Some(ca.public_key())).unwrap();
                assert_eq!(leaf.issuer().as_raw(), ca.subject().as_raw());
            });
        });
    }
}

#[test]
fn the_subject_has_both_groups() {
    let (_, ca) = ca_with(&PKCS_ECDSA_P256_SHA256);
    let pem = sign(&ca, &Sample::good().pem(&KeyPair::generate().unwrap())).unwrap();
    with_certificate(&pem, |leaf| {
        let name = leaf.subject();
        let groups: Vec<_> = name
            .iter_organization()
            .map(|o| o.as_str().unwrap())
            .collect();
        assert_eq!(groups, subject().groups);
        let names: Vec<_> = name
            .iter_common_name()
            .map(|cn| cn.as_str().unwrap())
            .collect();
        assert_eq!(names, [subject().user]);
    });
}

#[test]
fn two_certificates_have_two_serial_numbers() {
    let (_, ca) = ca_with(&PKCS_ECDSA_P256_SHA256);
    let request = Sample::good().pem(&KeyPair::generate().unwrap());
    let serial = |pem: String| with_certificate(&pem, |c| c.raw_serial().to_vec());
    let (first, second) = (
        serial(sign(&ca, &request).unwrap()),
        serial(sign(&ca, &request).unwrap()),
    );
    assert_ne!(first, second);
    assert_eq!(first.len(), 16);
}

#[test]
fn a_key_of_another_kind_is_refused() {
    let (_, ca) = ca_with(&PKCS_ECDSA_P256_SHA256);
    let signed = |algorithm| {
        let key = KeyPair::generate_for(algorithm).unwrap();
        sign(&ca, &Sample::good().pem(&key))
    };
    assert!(signed(&PKCS_ECDSA_P384_SHA384).is_ok());
    assert!(matches!(
        signed(&PKCS_ED25519),
        Err(SigningCaError::KeyKind)
    ));
    assert!(matches!(
        signed(&PKCS_RSA_SHA256),
        Err(SigningCaError::KeyKind)
    ));
}

#[test]
fn the_life_is_the_shortest_of_setting_wish_and_ca() {
    let (_, ca) = ca_with(&PKCS_ECDSA_P256_SHA256);
    let life = |setting, wish| {
        let validity = ca.validity(setting, wish, now()).unwrap();
        validity.not_after.duration_since(now()).unsigned_abs()
    };
    assert_eq!(life(30 * DAY, None), 30 * DAY);
    assert_eq!(life(30 * DAY, Some(DAY)), DAY);
    assert_eq!(life(30 * DAY, Some(90 * DAY)), 30 * DAY);
    assert_eq!(life(900 * DAY, None), 365 * DAY);
    assert_eq!(life(Duration::MAX, None), 365 * DAY);
}

#[test]
fn validity_begins_slightly_earlier_but_not_before_the_ca() {
    let (_, ca) = ca_with(&PKCS_ECDSA_P256_SHA256);
    let back = |life, at: Timestamp| {
        let validity = ca.validity(life, None, at).unwrap();
        at.duration_since(validity.not_before)
    };
    assert_eq!(back(30 * DAY, now()), SignedDuration::from_mins(5));
    assert_eq!(
        back(Duration::from_mins(10), now()),
        SignedDuration::from_secs(30)
    );
    let first = now() - SignedDuration::from_hours(24);
    assert_eq!(back(30 * DAY, first), SignedDuration::ZERO);
}

#[test]
fn an_expired_ca_signs_nothing() {
    let (_, ca) = ca_with(&PKCS_ECDSA_P256_SHA256);
    for at in [
        now() - SignedDuration::from_hours(48),
        now() + SignedDuration::from_hours(366 * 24),
    ] {
        let refused = ca.validity(DAY, None, at);
        assert!(matches!(refused, Err(SigningCaError::NotValidNow { .. })));
    }
}

#[test]
fn a_ca_that_cannot_sign_is_refused_when_read() {
    let (pem, ca) = ca_with(&PKCS_ECDSA_P256_SHA256);
    let other = KeyPair::generate().unwrap().serialize_pem();
    assert!(matches!(
        SigningCa::from_pem(&pem, &other),
        Err(SigningCaError::WrongKey)
    ));
    assert!(matches!(
        SigningCa::from_pem("x", &other),
        Err(SigningCaError::ReadCertificate)
    ));
    assert!(matches!(
        SigningCa::from_pem(&pem, "x"),
        Err(SigningCaError::ReadKey(_))
    ));
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::default()
        .self_signed(&key)
        .unwrap()
        .pem();
    let refused = SigningCa::from_pem(&leaf, &key.serialize_pem());
    assert!(matches!(refused, Err(SigningCaError::NotACa)));
    assert!(!format!("{ca:?}").contains("KEY"));
}
