use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::clock::Clock;
use crate::error::Chain;
use crate::parts::Parts;

struct Leaf {
    chain: String,
    key: String,
}

fn ca() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn leaf(ca: &CertifiedIssuer<'static, KeyPair>, name: &str) -> Leaf {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, ca).unwrap();
    Leaf {
        chain: certificate.pem(),
        key: key.serialize_pem(),
    }
}

fn pem(leaf: &Leaf, ca: &CertifiedIssuer<'static, KeyPair>) -> Pem {
    Pem {
        chain: Some(leaf.chain.clone().into_bytes()),
        key: Some(leaf.key.clone().into_bytes()),
        roots: Some(ca.pem().into_bytes()),
    }
}

fn why(pem: &Pem, now: Timestamp) -> String {
    Chain(&Material::parse(pem, now).unwrap_err()).to_string()
}

#[test]
fn good_material_makes_both_configurations() {
    let ca = ca();
    let material = Material::parse(&pem(&leaf(&ca, "spoke1"), &ca), Timestamp::now()).unwrap();
    assert!(server_config(&material, ClientAuth::Required).is_ok());
    assert!(client_config(&material).is_ok());
}

#[test]
fn key_of_another_certificate_is_rejected() {
    let ca = ca();
    let mut pem = pem(&leaf(&ca, "spoke1"), &ca);
    pem.key = Some(leaf(&ca, "spoke2").key.into_bytes());
    assert!(why(&pem, Timestamp::now()).starts_with("match the private key with the certificate"));
}

#[test]
fn expired_certificate_error_has_the_date() {
    let ca = ca();
    let long_after = Timestamp::now() + SignedDuration::from_hours(24 * 365 * 4000);
    let why = why(&pem(&leaf(&ca, "spoke1"), &ca), long_after);
    assert!(why.starts_with("the certificate expired at 4096-"), "{why}");
}

#[test]
fn empty_and_mangled_pem_is_rejected_with_a_cause() {
    let ca = ca();
    let good = pem(&leaf(&ca, "spoke1"), &ca);
    let now = Timestamp::now();
    let without_chain = Pem {
        chain: Some(vec![]),
        ..good.clone()
    };
    assert!(why(&without_chain, now).contains("no certificate found"));
    let without_roots = Pem {
        roots: Some(vec![]),
        ..good.clone()
    };
    assert!(why(&without_roots, now).contains("no trusted certificate found"));
    let mangled = Pem {
        key: Some(b"-----BEGIN PRIVATE KEY-----\nAAAA".to_vec()),
        ..good
    };
    assert!(why(&mangled, now).starts_with("read the private key"));
}

#[test]
fn nothing_that_is_printed_holds_a_key() {
    let ca = ca();
    let pem = pem(&leaf(&ca, "spoke1"), &ca);
    let material = Material::parse(&pem, Timestamp::now()).unwrap();
    let key_line = String::from_utf8(pem.key.clone().unwrap()).unwrap();
    let canary = key_line.lines().nth(1).unwrap();
    for text in [
        format!("{pem:?}"),
        format!("{material:?}"),
        format!("{:?}", material.identity),
    ] {
        assert!(
            !text.contains(canary) && !text.to_lowercase().contains("private"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn changed_files_are_reloaded_and_invalid_ones_are_not() {
    let parts = Parts::new(CancellationToken::new());
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let write = |pem: &Pem| {
        std::fs::write(at("chain"), pem.chain.as_ref().unwrap()).unwrap();
        std::fs::write(at("key"), pem.key.as_ref().unwrap()).unwrap();
        std::fs::write(at("roots"), pem.roots.as_ref().unwrap()).unwrap();
    };
    let ca = ca();
    let (first, second) = (pem(&leaf(&ca, "one"), &ca), pem(&leaf(&ca, "two"), &ca));
    write(&first);

    let paths = files::Paths {
        chain: Some(at("chain")),
        key: Some(at("key")),
        roots: Some(at("roots")),
    };
    let mut material = files::watch(paths, Clock::system(), &parts.spawner()).await;
    let tls = ClientTls::follow(material.clone(), &parts.spawner());
    let before = material.borrow_and_update().identity.clone().unwrap();
    let config = tls.current().unwrap();
    let mut in_effect = tls.material();

    write(&Pem {
        key: first.key.clone(),
        ..second.clone()
    });
    let bad = tokio::time::timeout(files::POLL_INTERVAL * 2, material.changed());
    assert!(
        bad.await.is_err(),
        "a chain with another key must not be taken over"
    );

    write(&second);
    let taken = tokio::time::timeout(Duration::from_secs(30), material.changed());
    taken.await.unwrap().unwrap();
    let after = material.borrow_and_update().identity.clone().unwrap();
    assert_ne!(before.chain(), after.chain());
    // A client that reconnects on this notification must present the new certificate: there is no second notification.
    let shows = |it: &Arc<Material>| it.identity.as_ref().unwrap().chain() == after.chain();
    let notified = tokio::time::timeout(Duration::from_secs(30), in_effect.wait_for(shows));
    drop(notified.await.unwrap().unwrap());
    assert!(!Arc::ptr_eq(&config, &tls.current().unwrap()));
}

#[tokio::test]
async fn roots_and_leaf_may_come_from_different_sources() {
    let parts = Parts::new(CancellationToken::new());
    let ca = ca();
    let all = Material::parse(&pem(&leaf(&ca, "one"), &ca), Timestamp::now()).unwrap();
    let leaf_only = Material {
        identity: all.identity.clone(),
        roots: None,
    };
    let (identity, roots) = (
        watch::Sender::new(Arc::new(leaf_only)),
        watch::Sender::new(Arc::default()),
    );
    let mut both = combine(identity.subscribe(), roots.subscribe(), &parts.spawner());
    assert!(client_config(&both.borrow_and_update()).is_err());
    roots.send_replace(Arc::new(Material {
        identity: None,
        roots: all.roots,
    }));
    both.changed().await.unwrap();
    assert!(client_config(&both.borrow_and_update()).is_ok());
}
