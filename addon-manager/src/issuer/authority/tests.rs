use std::{collections::BTreeSet, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
    PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256, PublicKeyData,
    SignatureAlgorithm,
};
use runtime::credentials::provider;
use rustls::{
    RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier as _},
    pki_types::{ServerName, UnixTime},
    server::WebPkiClientVerifier,
};

use super::*;
use crate::issuer::{
    facts::leaf_facts,
    make::{self, Leaf},
};

fn now() -> Timestamp {
    "2026-11-20T12:00:00Z".parse().unwrap()
}

/// A CA of a user, as cert-manager or openssl makes it.
struct Theirs {
    certificate: String,
    key: KeyPair,
    issuer: Issuer<'static, KeyPair>,
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

impl Theirs {
    fn made(params: CertificateParams, key: KeyPair, above: Option<&Self>) -> Self {
        let certificate = match above {
            Some(above) => params.signed_by(&key, &above.issuer),
            None => params.self_signed(&key),
        };
        let copy = KeyPair::try_from(key.serialize_der()).unwrap();
        Self {
            certificate: certificate.unwrap().pem(),
            issuer: Issuer::new(params, copy),
            key,
        }
    }

    fn root(name: &str, key: KeyPair) -> Self {
        Self::made(params(name), key, None)
    }

    fn below(above: &Self, name: &str, key: KeyPair) -> Self {
        Self::made(params(name), key, Some(above))
    }

    /// The key as cert-manager writes an RSA key by default: PKCS#1.
    fn pkcs1(&self) -> String {
        // The key begins behind the version and the algorithm of PKCS#8, which have always this size for RSA.
        let body = STANDARD.encode(&self.key.serialized_der()[26..]);
        let lines: Vec<_> = body.as_bytes().chunks(64).collect();
        let lines = String::from_utf8(lines.join(&b'\n')).unwrap();
        format!("-----BEGIN RSA PRIVATE KEY-----\n{lines}\n-----END RSA PRIVATE KEY-----\n")
    }

    fn authority(&self, key: String, roots: Option<&Self>) -> Result<Authority, String> {
        let roots = roots.map(|roots| roots.certificate.clone());
        Authority::from_pem(self.certificate.clone(), key, roots)
    }
}

fn key(algorithm: &'static SignatureAlgorithm) -> KeyPair {
    KeyPair::generate_for(algorithm).unwrap()
}

fn certificates(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .map(Result::unwrap)
        .collect()
}

fn store(bundle: &str) -> Arc<RootCertStore> {
    let mut store = RootCertStore::empty();
    for root in certificates(bundle) {
        store.add(root).unwrap();
    }
    Arc::new(store)
}

fn at(now: Timestamp) -> UnixTime {
    let seconds = u64::try_from(now.as_second()).unwrap();
    UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds))
}

/// Checks a client certificate as the principal and the resource proxy do.
fn lets_in(bundle: &str, leaf: &Leaf) -> bool {
    let chain = certificates(&leaf.certificate);
    let verifier = WebPkiClientVerifier::builder_with_provider(store(bundle), provider());
    let verifier = verifier.build().unwrap();
    verifier
        .verify_client_cert(&chain[0], &chain[1..], at(now()))
        .is_ok()
}

/// Checks a serving certificate as agents do.
fn dials(bundle: &str, leaf: &Leaf) -> bool {
    let chain = certificates(&leaf.certificate);
    let verifier = WebPkiServerVerifier::builder_with_provider(store(bundle), provider());
    let verifier = verifier.build().unwrap();
    let name = ServerName::try_from("hub.example.org").unwrap();
    verifier
        .verify_server_cert(&chain[0], &chain[1..], &name, &[], at(now()))
        .is_ok()
}

/// Both ends accept what the CA signs, and no other CA of the same name.
fn serves(ca: &Authority, namesake: &Theirs) {
    let client = make::visitor(ca, "argocd-agent:resource-proxy:c", now()).unwrap();
    let server = make::serving(ca, &["hub.example.org".to_owned()].into(), now()).unwrap();
    assert!(lets_in(&ca.bundle, &client) && dials(&ca.bundle, &server));
    let other = &namesake.certificate;
    assert!(!lets_in(other, &client) && !dials(other, &server));
    for leaf in [client, server] {
        let facts = leaf_facts(&leaf.certificate, &leaf.key, ca).unwrap();
        assert!(
            facts.issued_by_ca && facts.has_chain,
            "it would be issued again in each round"
        );
        let sent = certificates(&leaf.certificate).len() - 1;
        assert_eq!(sent, certificates(&ca.chain).len());
    }
}

#[test]
fn a_supplied_ca_may_have_a_key_of_any_usual_kind() {
    let namesake = Theirs::root("ca", key(&PKCS_ECDSA_P256_SHA256));
    for algorithm in [
        &PKCS_RSA_SHA256,
        &PKCS_ECDSA_P256_SHA256,
        &PKCS_ECDSA_P384_SHA384,
        &PKCS_ED25519,
    ] {
        let theirs = Theirs::root("ca", key(algorithm));
        let ca = theirs.authority(theirs.key.serialize_pem(), None).unwrap();
        serves(&ca, &namesake);
        // cert-manager writes the certificate of a self-signed CA into both fields.
        let both = theirs.authority(theirs.key.serialize_pem(), Some(&theirs));
        assert_eq!(both.unwrap(), ca);
    }
}

#[test]
fn an_rsa_ca_of_cert_manager_signs() {
    let theirs = Theirs::root("ca", key(&PKCS_RSA_SHA256));
    let ca = theirs.authority(theirs.pkcs1(), Some(&theirs)).unwrap();
    serves(&ca, &Theirs::root("ca", key(&PKCS_RSA_SHA256)));
    assert!(ca.chain.is_empty());
}

#[test]
fn certificates_of_an_intermediate_ca_lead_to_its_root() {
    let root = Theirs::root("root", key(&PKCS_RSA_SHA256));
    let upper = Theirs::below(&root, "upper", key(&PKCS_ECDSA_P384_SHA384));
    let mut lower = Theirs::below(&upper, "lower", key(&PKCS_RSA_SHA256));
    let namesake = Theirs::root("root", key(&PKCS_RSA_SHA256));
    let short = lower.authority(lower.pkcs1(), Some(&root));
    assert_eq!(short.unwrap_err(), NOT_TRUSTED);
    serves(
        &lower.authority(lower.pkcs1(), Some(&upper)).unwrap(),
        &namesake,
    );
    serves(&lower.authority(lower.pkcs1(), None).unwrap(), &namesake);
    lower.certificate.push_str(&upper.certificate);
    let whole = lower.authority(lower.pkcs1(), Some(&root)).unwrap();
    serves(&whole, &namesake);
    let other = lower.authority(lower.pkcs1(), Some(&namesake));
    assert_eq!(other.unwrap_err(), NOT_TRUSTED);
}

#[test]
fn certificates_without_the_cas_above_count_as_such() {
    let root = Theirs::root("root", key(&PKCS_ECDSA_P256_SHA256));
    let upper = Theirs::below(&root, "upper", key(&PKCS_ECDSA_P256_SHA256));
    let mut lower = Theirs::below(&upper, "lower", key(&PKCS_ECDSA_P256_SHA256));
    let read = |lower: &Theirs, roots| lower.authority(lower.key.serialize_pem(), roots).unwrap();
    let before = read(&lower, None);
    lower.certificate.push_str(&upper.certificate);
    let after = read(&lower, Some(&root));
    let bare = Authority {
        chain: String::new(),
        ..before.clone()
    };
    let names: BTreeSet<String> = ["hub.example.org".to_owned()].into();
    for (ca, has_chain) in [(&bare, false), (&before, false), (&after, true)] {
        let leaf = make::serving(ca, &names, now()).unwrap();
        assert_eq!(dials(&after.bundle, &leaf), has_chain);
        let facts = leaf_facts(&leaf.certificate, &leaf.key, &after).unwrap();
        assert_eq!((facts.issued_by_ca, facts.has_chain), (true, has_chain));
    }
}

#[test]
fn cas_above_are_trusted_only_with_ca_crt() {
    let root = Theirs::root("root", key(&PKCS_ECDSA_P256_SHA256));
    let upper = Theirs::below(&root, "upper", key(&PKCS_ECDSA_P256_SHA256));
    let mut lower = Theirs::below(&upper, "lower", key(&PKCS_ECDSA_P256_SHA256));
    let cousin = Theirs::below(&upper, "cousin", key(&PKCS_ECDSA_P256_SHA256));
    let cousin = cousin.authority(cousin.key.serialize_pem(), None).unwrap();
    let other = Theirs::root("other", key(&PKCS_ECDSA_P256_SHA256));
    let own = format!("{}{}", lower.certificate, other.certificate);
    for further in [&upper, &other, &root] {
        lower.certificate.push_str(&further.certificate);
    }
    let ca = lower.authority(lower.key.serialize_pem(), None).unwrap();
    assert_eq!(ca.bundle, own);
    let accepted = |roots: Option<&Theirs>| {
        let roots = roots.map(|it| ("ca.crt", &it.certificate));
        let data = roots.into_iter().chain([("tls.crt", &ca.certificate)]);
        let data: BTreeMap<String, ByteString> = data
            .map(|(key, text)| (key.to_owned(), ByteString(text.clone().into_bytes())))
            .collect();
        String::from_utf8(client_roots(&data)).unwrap()
    };
    let [mine, theirs] = [&ca, &cousin].map(|ca| make::visitor(ca, "a", now()).unwrap());
    for (roots, expected) in [(None, false), (Some(&other), false), (Some(&upper), true)] {
        let accepted = accepted(roots);
        assert!(lets_in(&accepted, &mine), "the CA that signs");
        assert_eq!(lets_in(&accepted, &theirs), expected);
    }
    assert!(!lets_in(&ca.bundle, &theirs));
}

#[test]
fn a_renewal_under_the_same_root_or_with_the_same_key_is_seamless() {
    let root = Theirs::root("root", key(&PKCS_RSA_SHA256));
    let [old, new] = [(); 2].map(|()| {
        let theirs = Theirs::below(&root, "ca", key(&PKCS_RSA_SHA256));
        theirs.authority(theirs.pkcs1(), Some(&root)).unwrap()
    });
    let names: BTreeSet<String> = ["hub.example.org".to_owned()].into();
    for (before, after) in [(&old, &new), (&new, &old)] {
        let client = make::visitor(before, "a", now()).unwrap();
        assert!(lets_in(&after.bundle, &client));
        let server = make::serving(after, &names, now()).unwrap();
        assert!(dials(&before.bundle, &server));
    }
    let one = Theirs::root("ca", key(&PKCS_RSA_SHA256));
    let same_key = KeyPair::try_from(one.key.serialize_der()).unwrap();
    let mut renewed = params("ca");
    renewed.not_after = rcgen::date_time_ymd(3000, 1, 1);
    let again = Theirs::made(renewed, same_key, None);
    assert_ne!(one.certificate, again.certificate);
    let old = one.authority(one.pkcs1(), None).unwrap();
    let new = again.authority(again.pkcs1(), Some(&one)).unwrap();
    let client = make::visitor(&old, "a", now()).unwrap();
    assert!(lets_in(&again.certificate, &client));
    let facts = leaf_facts(&client.certificate, &client.key, &new).unwrap();
    assert!(facts.issued_by_ca, "nothing is issued again");
}

/// An RSA public key of 1024 bits.
struct Small(Vec<u8>);

impl PublicKeyData for Small {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_RSA_SHA256
    }
}

fn small() -> Small {
    let start = [0x30_u8, 0x81, 0x89, 2, 0x81, 0x81, 0];
    let (modulus, exponent) = ([0xc5_u8; 128], [2_u8, 3, 1, 0, 1]);
    Small([start.as_slice(), modulus.as_slice(), exponent.as_slice()].concat())
}

#[test]
fn a_ca_that_cannot_sign_is_refused_with_its_field() {
    let ca = make::authority(now()).unwrap();
    let other = make::authority(now()).unwrap();
    let leaf = make::serving(&ca, &["a".to_owned()].into(), now()).unwrap();
    let root = Theirs::root("root", key(&PKCS_ECDSA_P256_SHA256));
    let small = params("small").signed_by(&small(), &root.issuer);
    let small = small.unwrap().pem();
    for (certificate, key, expected) in [
        (
            "nonsense",
            "",
            "tls.crt: the CA's certificate is not readable",
        ),
        (
            leaf.certificate.as_str(),
            leaf.key.as_str(),
            "tls.crt: the CA's certificate is not one of a CA",
        ),
        (
            ca.certificate.as_str(),
            "",
            "tls.key: the CA's key is not readable; it must be PEM",
        ),
        (
            ca.certificate.as_str(),
            other.key.as_str(),
            "tls.key: the CA's key does not belong to its certificate",
        ),
        (
            small.as_str(),
            ca.key.as_str(),
            "tls.crt: the CA's key must be RSA with 2048 to 8192 bits",
        ),
    ] {
        let refused = Authority::from_pem(certificate.to_owned(), key.to_owned(), None);
        let refused = refused.unwrap_err();
        assert!(refused.starts_with(expected), "{refused}");
    }
}

#[test]
fn roots_that_do_not_trust_the_ca_are_refused() {
    let ca = make::authority(now()).unwrap();
    let other = make::authority(now()).unwrap();
    let broken = "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
    let read = |roots: &str| {
        let roots = Some(roots.to_owned());
        Authority::from_pem(ca.certificate.clone(), ca.key.clone(), roots)
    };
    assert_eq!(read(&other.certificate).unwrap_err(), NOT_TRUSTED);
    assert_eq!(read("nonsense").unwrap_err(), NOT_TRUSTED);
    assert!(read(broken).unwrap_err().starts_with("ca.crt: "));
    for blank in ["", " \n"] {
        assert_eq!(read(blank).unwrap().bundle, ca.certificate);
    }
    let both = format!("{}{}", other.certificate, ca.certificate);
    assert_eq!(read(&both).unwrap().bundle, both);
}

#[test]
fn the_key_is_not_shown() {
    let ca = make::authority(now()).unwrap();
    let key_body = ca.key.lines().nth(1).unwrap().to_owned();
    assert!(!format!("{ca:?}").contains(&key_body));
}
