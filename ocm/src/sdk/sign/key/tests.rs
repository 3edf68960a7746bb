use k8s_openapi::ByteString;
use rcgen::{PKCS_ECDSA_P521_SHA512, PKCS_RSA_SHA256, SignatureAlgorithm};
use serde_json::json;
use x509_parser::{der_parser::parse_der, prelude::FromDer as _};

use super::*;

fn pem(label: &str, der: &[u8]) -> String {
    let body = json!(ByteString(der.to_vec()));
    let body = body.as_str().unwrap();
    format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
}

/// The content of PKCS#8: PKCS#1 for an RSA key, SEC1 for an ECDSA key.
fn content(pkcs8: &[u8]) -> Vec<u8> {
    let (_, parsed) = parse_der(pkcs8).unwrap();
    let parts = parsed.as_sequence().unwrap();
    parts[2].as_slice().unwrap().to_vec()
}

#[test]
fn keys_are_read_in_every_usual_form() {
    for (algorithm, label) in [
        (&PKCS_RSA_SHA256, Some("RSA PRIVATE KEY")),
        (&PKCS_ECDSA_P256_SHA256, Some("EC PRIVATE KEY")),
        (&PKCS_ECDSA_P384_SHA384, Some("EC PRIVATE KEY")),
        (&PKCS_ED25519, None),
    ] {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let plain = key.serialize_pem();
        let after_parameters = format!("{}{plain}", pem("EC PARAMETERS", &[6, 1, 42]));
        let traditional = label.map(|label| pem(label, &content(key.serialized_der())));
        for text in [plain, after_parameters].into_iter().chain(traditional) {
            let read = signing_key(&text).unwrap();
            assert_eq!(
                read.public_key_raw(),
                key.public_key_raw(),
                "{algorithm:?} {label:?}"
            );
            assert_eq!(read.algorithm(), algorithm);
        }
    }
}

#[test]
fn a_text_without_a_usable_key_is_refused() {
    let key = KeyPair::generate().unwrap();
    let cut: String = key.serialize_pem().lines().take(2).collect();
    for text in [
        "",
        "x",
        cut.as_str(),
        pem("EC PARAMETERS", &[6, 1, 42]).as_str(),
        pem("ENCRYPTED PRIVATE KEY", &[48, 4, 48, 0, 4, 0]).as_str(),
        pem("PRIVATE KEY", &[]).as_str(),
        pem("RSA PRIVATE KEY", &[48, 255, 255, 255]).as_str(),
    ] {
        assert!(signing_key(text).is_err(), "{text}");
    }
}

/// An RSA public key without a private one.
struct Rsa(Vec<u8>);

impl rcgen::PublicKeyData for Rsa {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_RSA_SHA256
    }
}

fn rsa(bits: usize) -> Rsa {
    let modulus: Vec<u8> = [vec![0_u8], vec![0xc5_u8; bits / 8]].concat();
    let parts = [der(2, &modulus), der(2, &[1, 0, 1])].concat();
    Rsa(der(48, &parts))
}

fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
    let length = match (high, low) {
        (0, 0..=127) => vec![low],
        (0, _) => vec![0x81, low],
        _ => vec![0x82, high, low],
    };
    [vec![tag], length, content.to_vec()].concat()
}

fn checked(key: &impl rcgen::PublicKeyData) -> Result<(), String> {
    let der = key.subject_public_key_info();
    let read = x509::SubjectPublicKeyInfo::from_der(&der);
    let (_, key) = read.map_err(|error| error.to_string())?;
    check(&key).map_err(|error| error.to_string())
}

#[test]
fn a_ca_may_have_any_key_that_peers_can_verify() {
    for algorithm in [
        &PKCS_ECDSA_P256_SHA256,
        &PKCS_ECDSA_P384_SHA384,
        &PKCS_ED25519,
        &PKCS_RSA_SHA256,
    ] {
        let key = KeyPair::generate_for(algorithm).unwrap();
        assert_eq!(checked(&key), Ok(()), "{algorithm:?}");
    }
    for bits in [2048, 3072, 4096, 8192] {
        assert_eq!(checked(&rsa(bits)), Ok(()), "{bits}");
    }
    for bits in [512, 1024, 16384] {
        let refused = checked(&rsa(bits)).unwrap_err();
        assert!(refused.contains(&format!("is RSA with {bits} bits; issue the CA again")));
    }
    let other = KeyPair::generate_for(&PKCS_ECDSA_P521_SHA512).unwrap();
    let refused = checked(&other).unwrap_err();
    assert!(refused.contains("is ECDSA on another curve; issue the CA again"));
}
