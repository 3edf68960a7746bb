use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
};

use super::{
    super::{SigningCa, SigningCaError},
    own_roots,
};

struct Ca {
    pem: String,
    der: Vec<u8>,
    key: String,
    issuer: Issuer<'static, KeyPair>,
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

fn ca(params: CertificateParams, key: KeyPair, above: Option<&Ca>) -> Ca {
    let certificate = match above {
        Some(above) => params.signed_by(&key, &above.issuer),
        None => params.self_signed(&key),
    };
    let certificate = certificate.unwrap();
    Ca {
        pem: certificate.pem(),
        der: certificate.der().to_vec(),
        key: key.serialize_pem(),
        issuer: Issuer::new(params, key),
    }
}

fn named(name: &str, above: Option<&Ca>) -> Ca {
    ca(params(name), KeyPair::generate().unwrap(), above)
}

fn text(cas: &[&Ca]) -> String {
    cas.iter().map(|it| it.pem.as_str()).collect()
}

fn read(of: &Ca, others: &[&Ca]) -> SigningCa {
    let text = text(&[of]) + &text(others);
    SigningCa::from_pem(&text, &of.key).unwrap()
}

fn trusts(root: &Ca, ca: &SigningCa) -> bool {
    ca.is_trusted_by(&[&root.der])
}

#[test]
fn intermediate_cas_accompany_certificates_and_the_root_does_not() {
    let root = named("root", None);
    let upper = named("upper", Some(&root));
    let lower = named("lower", Some(&upper));
    let expected = format!("{}{}", lower.pem, upper.pem);
    let earlier = named("earlier", None);
    for others in [
        vec![&upper],
        vec![&upper, &root],
        vec![&root, &upper],
        vec![&earlier, &upper],
    ] {
        assert_eq!(read(&lower, &others).chain(), expected);
    }
    assert_eq!(read(&lower, &[]).chain(), lower.pem);
    assert_eq!(read(&root, &[&upper, &named("root", None)]).chain(), "");
}

#[test]
fn a_ca_is_trusted_through_any_certificate_that_its_chain_leads_to() {
    let root = named("root", None);
    let upper = named("upper", Some(&root));
    let lower = named("lower", Some(&upper));
    let whole = read(&lower, &[&upper]);
    for (trusted, expected) in [
        (&root, true),
        (&upper, true),
        (&lower, true),
        (&named("root", None), false),
        (&named("upper", Some(&root)), false),
        (&named("other", None), false),
    ] {
        assert_eq!(trusts(trusted, &whole), expected);
    }
    let short = read(&lower, &[]);
    assert!(trusts(&upper, &short) && trusts(&lower, &short));
    assert!(!trusts(&root, &short), "nothing leads there");
    let nothing: [Vec<u8>; 0] = [];
    assert!(!whole.is_trusted_by(&nothing));
    assert!(!whole.is_trusted_by(&[b"x"]));
}

#[test]
fn a_renewed_ca_is_trusted_as_long_as_it_keeps_its_key() {
    let old = named("ca", None);
    let same = ca(params("ca"), KeyPair::from_pem(&old.key).unwrap(), None);
    assert!(trusts(&old, &read(&same, &[])));
    assert!(!trusts(&old, &read(&named("ca", None), &[])));
}

#[test]
fn cas_that_signed_each_other_end_the_chain() {
    let one = named("one", None);
    let other = named("other", Some(&one));
    let cross = ca(
        params("one"),
        KeyPair::from_pem(&one.key).unwrap(),
        Some(&other),
    );
    let chain = format!("{}{}", cross.pem, other.pem);
    assert_eq!(read(&cross, &[&other]).chain(), chain);
}

#[test]
fn own_roots_are_the_first_certificate_and_unrelated_ones() {
    let root = named("root", None);
    let upper = named("upper", Some(&root));
    let lower = named("lower", Some(&upper));
    let (other, namesake) = (named("other", None), named("upper", None));
    let cross = ca(
        params("upper"),
        KeyPair::from_pem(&upper.key).unwrap(),
        Some(&other),
    );
    for (given, expected) in [
        (vec![], vec![]),
        (vec![&root], vec![&root]),
        (vec![&lower], vec![&lower]),
        (vec![&lower, &upper, &root], vec![&lower]),
        (vec![&lower, &root, &upper, &upper], vec![&lower]),
        (vec![&lower, &upper, &cross, &other, &root], vec![&lower]),
        (vec![&lower, &other, &upper], vec![&lower, &other]),
        (vec![&lower, &namesake], vec![&lower, &namesake]),
        (vec![&root, &other, &lower], vec![&root, &other, &lower]),
    ] {
        assert_eq!(own_roots(&text(&given)), text(&expected));
    }
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let unreadable = text(&[&lower]) + broken;
    assert_eq!(own_roots(&unreadable), unreadable);
}

#[test]
fn a_subject_that_certificates_cannot_repeat_is_refused() {
    let mut params = params("ca");
    let repeated = DnType::CustomDnType(vec![2, 5, 4, 10]);
    params
        .distinguished_name
        .push(DnType::OrganizationName, "one");
    params.distinguished_name.push(repeated, "two");
    let ca = ca(params, KeyPair::generate().unwrap(), None);
    let refused = SigningCa::from_pem(&ca.pem, &ca.key);
    assert!(matches!(refused, Err(SigningCaError::CaSubject)));
}

#[test]
fn an_unreadable_certificate_behind_the_first_is_refused() {
    let ca = named("ca", None);
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for text in [format!("{}{broken}", ca.pem), format!("{broken}{}", ca.pem)] {
        let refused = SigningCa::from_pem(&text, &ca.key);
        assert!(matches!(refused, Err(SigningCaError::ReadCertificate)));
    }
}
