//! The content of a Secret, as facts for decisions. No content makes this code panic.

use std::{collections::BTreeSet, net::IpAddr};

use jiff::Timestamp;
use ocm::sdk::signing_key;
use x509_parser::{
    certificate::X509Certificate, extensions::GeneralName, pem::parse_x509_pem, time::ASN1Time,
};

use super::Authority;

/// The CA's Secret, read: none if it does not exist, the reason if it is invalid.
pub type ReadAuthority = Option<Result<Box<StoredAuthority>, String>>;

/// The CA, and the state of its rotation.
#[derive(Clone, Debug)]
pub struct StoredAuthority {
    /// The CA that signs.
    pub ca: Authority,
    /// The next CA, while agents learn to trust it.
    pub next: Option<Authority>,
    /// Whether we created it, and so may replace it.
    pub ours: bool,
    /// The Secret's resource version, a precondition of the next write.
    pub version: String,
    /// The name of the requested rotation.
    pub asked: Option<String>,
    /// The name of the last request that was started.
    pub taken: Option<String>,
    /// The start of the present stage; none without a rotation.
    pub since: Option<Timestamp>,
}

impl StoredAuthority {
    /// Whether a rotation is requested that was not started.
    pub fn is_asked(&self) -> bool {
        self.asked.as_ref().is_some_and(|it| !it.is_empty()) && self.asked != self.taken
    }
}

/// A serving certificate's Secret, read; none if it does not exist.
pub type ReadLeaf = Option<StoredLeaf>;

/// A serving certificate in its Secret.
#[derive(Clone, Debug)]
pub struct StoredLeaf {
    /// Whether we created it, and so may replace it.
    pub ours: bool,
    /// The Secret's resource version, a precondition of its replacement.
    pub version: String,
    /// The parsed certificate, or why it is unusable.
    pub facts: Result<Leaf, String>,
}

/// A parsed serving certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Start of its life.
    pub not_before: Timestamp,
    /// End of its life.
    pub not_after: Timestamp,
    /// The DNS names and addresses that it covers.
    pub names: BTreeSet<String>,
    /// Whether the CA in use signed it.
    pub issued_by_ca: bool,
    /// Whether the certificates that the CA in use adds to each one accompany it.
    pub has_chain: bool,
    /// The certificate itself.
    pub der: Vec<u8>,
}

/// Parses a certificate and its key, and checks that the key belongs to the certificate.
pub fn leaf_facts(certificate: &str, key: &str, ca: &Authority) -> Result<Leaf, String> {
    let (_, pem) = parse_x509_pem(certificate.as_bytes()).map_err(in_certificate)?;
    let x509 = pem.parse_x509().map_err(in_certificate)?;
    let pair = signing_key(key).map_err(|error| format!("tls.key: {error}"))?;
    if *rcgen::PublicKeyData::subject_public_key_info(&pair) != *x509.public_key().raw {
        return Err("tls.key does not belong to tls.crt".to_owned());
    }
    let time = |at: ASN1Time| Timestamp::from_second(at.timestamp()).map_err(in_certificate);
    Ok(Leaf {
        not_before: time(x509.validity().not_before)?,
        not_after: time(x509.validity().not_after)?,
        names: names(&x509),
        issued_by_ca: is_issued_by(&x509, ca),
        has_chain: certificate.trim_end().ends_with(ca.chain.trim_end()),
        der: pem.contents.clone(),
    })
}

fn in_certificate(error: impl std::fmt::Display) -> String {
    format!("tls.crt: {error}")
}

fn names(certificate: &X509Certificate<'_>) -> BTreeSet<String> {
    let Ok(Some(extension)) = certificate.subject_alternative_name() else {
        return BTreeSet::new();
    };
    let entries = extension.value.general_names.iter();
    entries
        .filter_map(|name| {
            if let GeneralName::DNSName(dns) = name {
                Some((*dns).to_owned())
            } else if let GeneralName::IPAddress(bytes) = name {
                address(bytes).map(|ip| ip.to_string())
            } else {
                None
            }
        })
        .collect()
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
}

fn is_issued_by(leaf: &X509Certificate<'_>, ca: &Authority) -> bool {
    x509_parser::parse_x509_certificate(&ca.der)
        .is_ok_and(|(_, authority)| leaf.verify_signature(Some(authority.public_key())).is_ok())
}
