use jiff::ToSpan as _;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use runtime::credentials::Pem;
use time::OffsetDateTime;

use super::*;

type Ca = CertifiedIssuer<'static, KeyPair>;

fn ca() -> Ca {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn at(time: Timestamp) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(time.as_second()).unwrap()
}

/// A leaf of `ca` that is valid from `now` for so many hours, with trust in `roots`.
fn material(ca: &Ca, now: Timestamp, hours: i64, roots: &[&Ca]) -> Material {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.use_authority_key_identifier_extension = true;
    params.not_before = at(now);
    params.not_after = at(now + hours.hours());
    let roots: String = roots.iter().map(|ca| ca.pem()).collect();
    let pem = Pem {
        chain: Some(params.signed_by(&key, ca).unwrap().pem().into_bytes()),
        key: Some(key.serialize_pem().into_bytes()),
        roots: Some(roots.into_bytes()),
    };
    Material::parse(&pem, now).unwrap()
}

fn now() -> Timestamp {
    "2026-11-20T12:00:00Z".parse().unwrap()
}

#[test]
fn a_renewed_certificate_is_used_shortly_before_the_old_one_expires() {
    let (ca, now) = (ca(), now());
    let (old, new) = (
        material(&ca, now, 10, &[&ca]),
        material(&ca, now + 8.hours(), 10, &[&ca]),
    );
    assert_eq!(
        until_due(&old, &new, now + 8.hours()),
        Some(Duration::from_mins(115))
    );
    assert_eq!(until_due(&old, &old, now + 8.hours()), None);
    assert_eq!(until_due(&new, &old, now + 8.hours()), None);
}

#[test]
fn removed_ca_reconnects_and_added_ca_does_not() {
    let (one, other, now) = (ca(), ca(), now());
    let alone = material(&one, now, 10, &[&one]);
    let both = Material {
        roots: material(&one, now, 10, &[&one, &other]).roots,
        ..alone.clone()
    };
    assert_eq!(until_due(&alone, &both, now), None);
    assert_eq!(until_due(&both, &alone, now), Some(Duration::ZERO));
}

#[test]
fn a_certificate_of_another_authority_reconnects() {
    let (one, other, now) = (ca(), ca(), now());
    let old = material(&one, now, 10, &[&one, &other]);
    let new = material(&other, now, 10, &[&one, &other]);
    assert_eq!(until_due(&old, &new, now), Some(Duration::ZERO));
}

#[tokio::test]
async fn changed_trust_is_reported_to_the_principal_once() {
    let (one, other, now) = (ca(), ca(), Timestamp::now());
    let alone = Arc::new(material(&one, now, 10, &[&one]));
    let both = Material {
        roots: material(&one, now, 10, &[&one, &other]).roots,
        ..Material::clone(&alone)
    };
    let (latest, follow) = watch::channel(Arc::clone(&alone));
    let mut renewal = Renewal::new(alone, follow);
    assert_eq!(renewal.trusts().map(|all| all.len()), Some(1));
    latest.send_replace(Arc::new(both));
    assert_eq!(renewal.renewed_credentials().await, Renewed::Trust);
    assert_eq!(renewal.trusts().map(|all| all.len()), Some(2));
    assert!(futures::poll!(Box::pin(renewal.renewed_credentials())).is_pending());
}
