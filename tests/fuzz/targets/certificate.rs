//! Certificates of agents and of Argo CD, as DER or with names of the fuzzer.

use std::sync::LazyLock;

use principal::ClusterName;
use principal::admission::identity::{
    Method, NotIdentified, PeerCertificate,
    visitor::{Visitors, name_for},
};
use rcgen::string::Ia5String;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};
use rustls_pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

/// The first byte of an input that is the DER of a certificate; others are names, one a line.
const DER: u8 = 0x30;
const URI: &str = "spiffe://hub.example/cluster/";

static KEY: LazyLock<KeyPair> = LazyLock::new(|| KeyPair::generate().expect("a key"));
static BY_URI: LazyLock<Method> = LazyLock::new(|| {
    Method::from_flag("mtls:uri:^spiffe://hub\\.example/cluster/([^/]+)$").expect("a pattern")
});
static BY_SUBJECT: LazyLock<Method> =
    LazyLock::new(|| Method::from_flag("mtls:subject:^CN=([^,+]+),O=agents$").expect("a pattern"));

pub(crate) fn check(input: &[u8]) {
    let made = match input.first() {
        Some(&DER) => Some(input.to_vec()),
        _ => str::from_utf8(input).ok().and_then(certificate),
    };
    if let Some(der) = made {
        named(&der);
        if let Some(peer) = PeerCertificate::from_chain(&[CertificateDer::from(der.clone())]) {
            assert_eq!(peer.leaf(), der);
        }
    }
}

/// Each way to name a cluster reads the whole of exactly one name, and a certificate never opens two doors.
fn named(der: &[u8]) {
    let names = X509Certificate::from_der(der)
        .ok()
        .map(|(_, parsed)| names(&parsed));
    let (common, uris) = names.unwrap_or_default();
    let addon = "argocd-agent-addon";
    let ocm = |cluster: &str, agent| {
        format!("system:open-cluster-management:cluster:{cluster}:addon:{addon}:agent:{agent}")
    };
    let by_ocm = cluster(Method::ocm().cluster_of(der));
    if let Some(cluster) = &by_ocm {
        let [only] = common.as_slice() else {
            panic!("{common:?}")
        };
        let agents = [addon, "argocd-agent-addon-agent"];
        assert!(
            agents.iter().any(|agent| *only == ocm(cluster, agent)),
            "{only}"
        );
    }
    if let Some(cluster) = cluster(Method::Cn.cluster_of(der)) {
        assert_eq!(common, [cluster]);
    }
    if let Some(cluster) = cluster(BY_URI.cluster_of(der)) {
        assert_eq!(uris, [format!("{URI}{cluster}")]);
    }
    if let Some(cluster) = cluster(BY_SUBJECT.cluster_of(der)) {
        assert_eq!(common, [cluster]);
    }
    let by_visitor = cluster(Visitors::Named.cluster_of(der));
    if let Some(cluster) = &by_visitor {
        assert_eq!(common, [name_for(cluster)]);
    }
    assert!(by_ocm.is_none() || by_visitor.is_none(), "{common:?}");
}

/// The name, which is a label of DNS.
fn cluster(found: Result<ClusterName, NotIdentified>) -> Option<String> {
    let name = found.ok()?.to_string();
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    assert!(
        (1..=63).contains(&name.len()) && name.bytes().all(inner),
        "{name}"
    );
    Some(name)
}

/// All common names and all URI names.
fn names(certificate: &X509Certificate<'_>) -> (Vec<String>, Vec<String>) {
    let common = certificate.subject().iter_common_name();
    let common = common.map(|name| name.as_str().unwrap_or("\0").to_owned());
    let others = certificate.subject_alternative_name().ok().flatten();
    let others = others
        .into_iter()
        .flat_map(|names| &names.value.general_names);
    let uris = others.filter_map(|name| {
        if let GeneralName::URI(uri) = name {
            Some((*uri).to_owned())
        } else {
            None
        }
    });
    (common.collect(), uris.collect())
}

/// A certificate with the names of these lines: the first character chooses the attribute.
fn certificate(lines: &str) -> Option<Vec<u8>> {
    let mut params = CertificateParams::default();
    let mut subject = DistinguishedName::new();
    for line in lines.lines().take(8) {
        let mut rest = line.chars();
        let (kind, value) = (rest.next(), rest.as_str());
        match kind {
            Some('C') => subject.push(DnType::CommonName, value),
            Some('O') => subject.push(DnType::OrganizationName, value),
            Some('U') => subject.push(DnType::OrganizationalUnitName, value),
            Some('u') => {
                let uri = Ia5String::try_from(value).ok()?;
                params.subject_alt_names.push(SanType::URI(uri));
            }
            _ => {}
        }
    }
    params.distinguished_name = subject;
    Some(params.self_signed(&*KEY).ok()?.der().to_vec())
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let ocm = "system:open-cluster-management:cluster:spoke1:addon:argocd-agent-addon:agent:argocd-agent-addon";
    let lines = [
        format!("C{ocm}"),
        format!("C{ocm}-agent\nUkey 1"),
        format!("C{ocm}\nC{ocm}"),
        "Cspoke1".to_owned(),
        "Oagents\nCspoke1".to_owned(),
        "OCN=spoke2,O=agents\nUx+CN=spoke3\nCspoke1".to_owned(),
        format!("C{}", name_for("spoke1")),
        format!("u{URI}spoke1"),
        format!("u{URI}spoke1\nu{URI}spoke2\nCspoke1"),
    ];
    let ders = lines.iter().filter_map(|lines| certificate(lines));
    let texts = lines.iter().map(|lines| lines.as_bytes().to_vec());
    texts.chain(ders).collect()
}
