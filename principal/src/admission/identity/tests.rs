use super::*;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

fn certificate(subject: &[(DnType, &str)], uris: &[&str]) -> Vec<u8> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    for (kind, value) in subject {
        params.distinguished_name.push(kind.clone(), *value);
    }
    params.subject_alt_names = uris
        .iter()
        .map(|uri| SanType::URI((*uri).try_into().unwrap()))
        .collect();
    let key = KeyPair::generate().unwrap();
    params.self_signed(&key).unwrap().der().to_vec()
}

fn ocm_cn(cluster: &str, addon: &str, agent: &str) -> String {
    format!("system:open-cluster-management:cluster:{cluster}:addon:{addon}:agent:{agent}")
}

fn who(method: &Method, cn: &str) -> Result<String, NotIdentified> {
    method
        .cluster_of(&certificate(&[(DnType::CommonName, cn)], &[]))
        .map(|name| name.to_string())
}

#[test]
fn ocm_common_name_identifies_the_cluster() {
    let ours = ocm_cn("spoke1", "argocd-agent-addon", "argocd-agent-addon");
    let before = ocm_cn("spoke1", "argocd-agent-addon", "argocd-agent-addon-agent");
    assert_eq!(who(&Method::ocm(), &ours), Ok("spoke1".to_owned()));
    assert_eq!(who(&Method::ocm(), &before), Ok("spoke1".to_owned()));
}

#[test]
fn malformed_common_name_is_rejected() {
    let addon = "argocd-agent-addon";
    let good = ocm_cn("spoke1", addon, addon);
    let cases = [
        ("spoke1".to_owned(), NotIdentified::Form),
        (format!(" {good}"), NotIdentified::Form),
        (format!("{good}x"), NotIdentified::Form),
        (format!("{good},CN=spoke2"), NotIdentified::Form),
        (
            ocm_cn("spoke1", "another-addon", addon),
            NotIdentified::Form,
        ),
        (
            ocm_cn("spoke1", addon, "another-agent"),
            NotIdentified::Form,
        ),
        (ocm_cn("", addon, addon), NotIdentified::Name),
        (ocm_cn("Spoke1", addon, addon), NotIdentified::Name),
        (ocm_cn("spoke1:addon:x", addon, addon), NotIdentified::Name),
        (ocm_cn("spoke1.example", addon, addon), NotIdentified::Name),
        (
            "system:open-cluster-management:spoke1:agent".to_owned(),
            NotIdentified::Form,
        ),
    ];
    for (cn, why) in cases {
        assert_eq!(who(&Method::ocm(), &cn), Err(why), "{cn}");
    }
}

#[test]
fn a_prefix_of_a_name_is_another_name() {
    let cn = ocm_cn("ab", "argocd-agent-addon", "argocd-agent-addon");
    assert_eq!(who(&Method::ocm(), &cn), Ok("ab".to_owned()));
    assert_eq!(who(&Method::Cn, "a"), Ok("a".to_owned()));
}

#[test]
fn without_a_common_name_there_is_no_cluster() {
    let none = certificate(&[(DnType::OrganizationName, "CN=spoke1")], &[]);
    assert_eq!(Method::Cn.cluster_of(&none), Err(NotIdentified::CommonName));
    assert_eq!(
        Method::ocm().cluster_of(&none),
        Err(NotIdentified::CommonName)
    );
}

#[test]
fn upstreams_default_pattern_means_the_common_name_only() {
    let method = Method::from_flag("mtls:CN=([^,]+)").unwrap();
    let posing = certificate(
        &[
            (DnType::CommonName, "spoke1"),
            (DnType::OrganizationName, "x,CN=spoke2"),
        ],
        &[],
    );
    assert_eq!(
        method.cluster_of(&posing).map(|n| n.to_string()),
        Ok("spoke1".to_owned())
    );
}

#[test]
fn subject_pattern_matches_the_subject_as_go_prints_it() {
    let method = Method::from_flag("mtls:subject:^CN=([^,]+),OU=x,O=y$").unwrap();
    let subject = [
        (DnType::OrganizationName, "y"),
        (DnType::OrganizationalUnitName, "x"),
        (DnType::CommonName, "spoke1"),
    ];
    let found = method.cluster_of(&certificate(&subject, &[]));
    assert_eq!(found.map(|n| n.to_string()), Ok("spoke1".to_owned()));
    assert_eq!(go_escaped(" a,b=c+\"d\" "), "\\ a\\,b=c\\+\\\"d\\\"\\ ");
}

#[test]
fn exactly_one_uri_san_identifies_the_cluster() {
    let method = Method::from_flag("mtls:uri:^spiffe://hub/agent/([^/]+)$").unwrap();
    let one = certificate(&[], &["spiffe://hub/agent/spoke1"]);
    let two = certificate(
        &[],
        &["spiffe://hub/agent/spoke1", "spiffe://hub/agent/spoke2"],
    );
    assert_eq!(
        method.cluster_of(&one).map(|n| n.to_string()),
        Ok("spoke1".to_owned())
    );
    assert_eq!(method.cluster_of(&two), Err(NotIdentified::Uri));
    assert_eq!(
        method.cluster_of(&certificate(&[], &[])),
        Err(NotIdentified::Uri)
    );
}

#[test]
fn a_method_that_cannot_work_is_refused_at_the_start() {
    for bad in [
        "",
        "userpass:",
        "header:x:y",
        "header:a b:(.+)",
        "mtls:",
        "mtls:subject:",
        "mtls:subject:CN=x",
        "mtls:uri:(",
        "header:x",
    ] {
        assert!(Method::from_flag(bad).is_err(), "{bad}");
    }
}

#[test]
fn header_pattern_captures_the_cluster_name() {
    let flag = "header:X-Forwarded-Client-Cert:URI=spiffe://[^/]+/ns/([^/]+)/";
    let method = Method::from_flag(flag).unwrap();
    let named = |value: &str| method.cluster_in(value).map(|name| name.to_string());
    assert_eq!(
        named("By=x;URI=spiffe://mesh/ns/spoke1/sa/y"),
        Ok("spoke1".to_owned())
    );
    assert_eq!(named("By=x"), Err(NotIdentified::Form));
    assert_eq!(
        named("URI=spiffe://mesh/ns/Spoke_1/"),
        Err(NotIdentified::Name)
    );
    assert_eq!(Method::ocm().cluster_in("spoke1"), Err(NotIdentified::Form));
    let certificate = certificate(&[(DnType::CommonName, "spoke1")], &[]);
    assert_eq!(method.cluster_of(&certificate), Err(NotIdentified::Form));
}

#[test]
fn malformed_certificate_identifies_no_cluster() {
    let good = certificate(&[(DnType::CommonName, "spoke1")], &[]);
    for cut in 0..good.len() {
        assert_eq!(
            Method::Cn.cluster_of(&good[..cut]),
            Err(NotIdentified::Unreadable)
        );
    }
}

#[test]
fn a_certificate_has_a_thumbprint_and_an_end() {
    let der = CertificateDer::from(certificate(&[(DnType::CommonName, "spoke1")], &[]));
    let other = CertificateDer::from(certificate(&[(DnType::CommonName, "spoke1")], &[]));
    let peer = PeerCertificate::from_chain(std::slice::from_ref(&der)).unwrap();
    let again = PeerCertificate::from_chain(std::slice::from_ref(&der)).unwrap();
    assert_eq!(peer.thumbprint, again.thumbprint);
    assert_ne!(
        peer.thumbprint,
        PeerCertificate::from_chain(&[other]).unwrap().thumbprint
    );
    assert_eq!(peer.leaf(), der.as_ref());
    assert!(PeerCertificate::from_chain(&[]).is_none());
}
