//! From presented credentials, usually a verified certificate, to the name of a cluster.
//!
//! One method is configured; a certificate that does not fit it exactly identifies no cluster. Everything here is pure
//! and faces a peer: no input makes it panic, and no pattern matches in part.

use std::path::PathBuf;

use http::HeaderName;
use jiff::Timestamp;
use regex::Regex;
use runtime::credentials::KeyId;
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use sha2::{Digest as _, Sha256};
use x509_parser::{
    certificate::X509Certificate, extensions::GeneralName, prelude::FromDer as _, x509::X509Name,
};

use crate::fleet::ClusterName;

pub mod visitor;

/// How a certificate names the cluster.
#[derive(Clone, Debug)]
pub enum Method {
    /// The common name that OCM gives to an add-on's agent, compared as a whole.
    Ocm {
        /// The add-on's name.
        addon: String,
        /// The agent names that are accepted.
        agents: Vec<String>,
    },
    /// The common name is the cluster's name, as in upstream's own PKI.
    Cn,
    /// The first group of a pattern over the whole subject, written as Go writes it.
    Subject(Regex),
    /// The first group of a pattern over the one URI name.
    Uri(Regex),
    /// User and password, in a file with bcrypt hashes; the user is the cluster.
    UserPass(PathBuf),
    /// The first group of a pattern over a header that a mesh sets. Needs a listener without TLS.
    Header {
        /// The header's name.
        name: HeaderName,
        /// The pattern of its value.
        pattern: Regex,
    },
}

/// Why a certificate identifies no cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotIdentified {
    /// It cannot be read.
    #[error("the certificate cannot be read")]
    Unreadable,
    /// It has no common name, or several.
    #[error("the certificate does not have exactly one common name")]
    CommonName,
    /// It has no URI name, or several.
    #[error("the certificate does not have exactly one URI name")]
    Uri,
    /// Its name is of another form.
    #[error("the certificate's name has an unexpected form")]
    Form,
    /// The name in it cannot be a cluster.
    #[error("the certificate does not name a cluster")]
    Name,
}

/// A pattern or a method that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InvalidMethod {
    /// Not one of the known methods.
    #[error(
        "unknown authentication method {0:?}, want mtls:ocm, mtls:subject:<pattern>, mtls:uri:<pattern>, \
         userpass:<file> or header:<name>:<pattern>"
    )]
    Unknown(String),
    /// The pattern is not a regular expression.
    #[error("read the pattern of the authentication method")]
    Pattern(#[source] Box<regex::Error>),
    /// The header's name is none.
    #[error("{0:?} cannot be the name of a header")]
    Header(String),
    /// The pattern has no group to take the name from.
    #[error("the pattern of the authentication method has no group")]
    NoGroup,
}

const OCM_PREFIX: &str = "system:open-cluster-management:cluster:";

impl Method {
    /// Certificates that OCM issues for `argocd-agent-addon`, of our agent and of the one it replaces.
    pub fn ocm() -> Self {
        Self::Ocm {
            addon: "argocd-agent-addon".to_owned(),
            agents: vec![
                "argocd-agent-addon".to_owned(),
                "argocd-agent-addon-agent".to_owned(),
            ],
        }
    }

    /// Reads upstream's `--auth` value: `mtls:subject:<pattern>`, `mtls:<pattern>`, `mtls:uri:<pattern>`,
    /// `userpass:<file>` or `header:<name>:<pattern>`.
    ///
    /// Upstream's default pattern `CN=([^,]+)` looks anywhere in the printed subject, where another attribute can
    /// pose as the common name. It means the common name, so that is what it becomes here.
    pub fn from_flag(flag: &str) -> Result<Self, InvalidMethod> {
        let unknown = || InvalidMethod::Unknown(flag.to_owned());
        match flag.split_once(':') {
            Some(("userpass", path)) if !path.is_empty() => return Ok(Self::UserPass(path.into())),
            Some(("header", rest)) => return header(rest, unknown),
            Some(_) | None => {}
        }
        let rest = flag.strip_prefix("mtls:").ok_or_else(unknown)?;
        if rest == "ocm" {
            return Ok(Self::ocm());
        }
        if let Some(pattern) = rest.strip_prefix("uri:") {
            return pattern_with_group(pattern).map(Self::Uri);
        }
        let pattern = rest.strip_prefix("subject:").unwrap_or(rest);
        match pattern {
            "" => Err(unknown()),
            "CN=([^,]+)" => Ok(Self::Cn),
            other => pattern_with_group(other).map(Self::Subject),
        }
    }

    /// The cluster that this verified leaf certificate speaks for.
    pub fn cluster_of(&self, leaf: &[u8]) -> Result<ClusterName, NotIdentified> {
        let (_, certificate) =
            X509Certificate::from_der(leaf).map_err(|_unreadable| NotIdentified::Unreadable)?;
        let name = match self {
            Self::Ocm { addon, agents } => {
                ocm_cluster(common_name(&certificate)?, addon, agents)?.to_owned()
            }
            Self::Cn => common_name(&certificate)?.to_owned(),
            Self::Subject(pattern) => first_group(pattern, &go_subject(certificate.subject()))?,
            Self::Uri(pattern) => first_group(pattern, only_uri(&certificate)?)?,
            // A certificate says nothing there.
            Self::UserPass(_) | Self::Header { .. } => return Err(NotIdentified::Form),
        };
        ClusterName::try_from(name.as_str()).map_err(|_invalid| NotIdentified::Name)
    }

    /// The cluster that the value of the configured header names.
    pub fn cluster_in(&self, header: &str) -> Result<ClusterName, NotIdentified> {
        let Self::Header { name: _, pattern } = self else {
            return Err(NotIdentified::Form);
        };
        let name = first_group(pattern, header)?;
        ClusterName::try_from(name.as_str()).map_err(|_invalid| NotIdentified::Name)
    }

    /// The word in `AuthRequest.method` that goes with it.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Ocm { .. } | Self::Cn | Self::Subject(_) | Self::Uri(_) => "mtls",
            Self::UserPass(_) => "userpass",
            Self::Header { .. } => "header",
        }
    }
}

fn header(rest: &str, unknown: impl Fn() -> InvalidMethod) -> Result<Method, InvalidMethod> {
    let (name, pattern) = rest.split_once(':').ok_or_else(&unknown)?;
    let name: HeaderName = name
        .parse()
        .map_err(|_invalid| InvalidMethod::Header(name.to_owned()))?;
    pattern_with_group(pattern).map(|pattern| Method::Header { name, pattern })
}

fn pattern_with_group(pattern: &str) -> Result<Regex, InvalidMethod> {
    let regex = Regex::new(pattern).map_err(|e| InvalidMethod::Pattern(Box::new(e)))?;
    let has_group = regex.captures_len() > 1;
    has_group.then_some(regex).ok_or(InvalidMethod::NoGroup)
}

fn first_group(pattern: &Regex, text: &str) -> Result<String, NotIdentified> {
    let group = pattern.captures(text).and_then(|captures| captures.get(1));
    let name = group.map(|group| group.as_str().to_owned());
    name.ok_or(NotIdentified::Form)
}

fn common_name<'a>(certificate: &'a X509Certificate<'_>) -> Result<&'a str, NotIdentified> {
    let only = only(certificate.subject().iter_common_name()).ok_or(NotIdentified::CommonName)?;
    only.as_str().map_err(|_not_text| NotIdentified::CommonName)
}

fn ocm_cluster<'a>(cn: &'a str, addon: &str, agents: &[String]) -> Result<&'a str, NotIdentified> {
    let rest = cn.strip_prefix(OCM_PREFIX).ok_or(NotIdentified::Form)?;
    agents
        .iter()
        .find_map(|agent| rest.strip_suffix(&format!(":addon:{addon}:agent:{agent}")))
        .ok_or(NotIdentified::Form)
}

fn only_uri<'a>(certificate: &'a X509Certificate<'_>) -> Result<&'a str, NotIdentified> {
    let names = certificate
        .subject_alternative_name()
        .map_err(|_unreadable| NotIdentified::Unreadable)?
        .ok_or(NotIdentified::Uri)?;
    let names = names.value.general_names.iter();
    let uris = names.filter_map(|name| {
        if let GeneralName::URI(uri) = name {
            Some(*uri)
        } else {
            None
        }
    });
    only(uris).ok_or(NotIdentified::Uri)
}

/// The item, if there is just one.
fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let first = items.next()?;
    items.next().is_none().then_some(first)
}

/// The subject as Go's `pkix.Name.String` writes it: last attribute first, separated by commas.
fn go_subject(subject: &X509Name<'_>) -> String {
    let parts = subject.iter().map(|rdn| {
        let attributes = rdn.iter().map(|attribute| {
            let value = go_escaped(attribute.as_str().unwrap_or_default());
            format!("{}={value}", go_attribute(attribute.attr_type()))
        });
        attributes.collect::<Vec<_>>().join("+")
    });
    let mut parts = parts.collect::<Vec<_>>();
    parts.reverse();
    parts.join(",")
}

fn go_attribute(oid: &x509_parser::der_parser::Oid<'_>) -> String {
    let dotted = oid.to_id_string();
    let short = match dotted.as_str() {
        "2.5.4.3" => "CN",
        "2.5.4.5" => "SERIALNUMBER",
        "2.5.4.6" => "C",
        "2.5.4.7" => "L",
        "2.5.4.8" => "ST",
        "2.5.4.9" => "STREET",
        "2.5.4.10" => "O",
        "2.5.4.11" => "OU",
        "2.5.4.17" => "POSTALCODE",
        other => other,
    };
    short.to_owned()
}

/// RFC 2253: the separators cannot be forged from inside a value.
fn go_escaped(value: &str) -> String {
    let last = value.chars().count().saturating_sub(1);
    let mut out = String::with_capacity(value.len());
    for (at, c) in value.chars().enumerate() {
        let escape = match c {
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' => true,
            '#' => at == 0,
            ' ' => at == 0 || at == last,
            _ => false,
        };
        if escape {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// The SHA-256 of a certificate, to which tokens are bound.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Debug)]
#[debug("{}", hex::encode(_0))]
pub struct Thumbprint([u8; 32]);

impl Thumbprint {
    /// The bytes of the digest.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The binding of a token that is bound to no certificate.
    pub(crate) const fn from_digest(digest: [u8; 32]) -> Self {
        Self(digest)
    }
}

/// The certificate of a connection, whose chain TLS has verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerCertificate {
    chain: Vec<CertificateDer<'static>>,
    /// The binding of tokens.
    pub thumbprint: Thumbprint,
    /// When it begins to be valid.
    pub not_before: Timestamp,
    /// When it stops being valid; no session outlives that.
    pub not_after: Timestamp,
    /// Its serial number in hexadecimal digits.
    pub serial: String,
    /// The only common name, if there is just one.
    common_name: Option<String>,
    /// The key that signed it, as far as it says.
    pub authority: Option<KeyId>,
    /// Its organizational units.
    pub units: Vec<String>,
}

impl PeerCertificate {
    /// Takes the chain as the TLS stack hands it over, leaf first; `None` when there is none to read.
    pub fn from_chain(chain: &[CertificateDer<'_>]) -> Option<Self> {
        let leaf = chain.first()?;
        let (_, parsed) = X509Certificate::from_der(leaf).ok()?;
        let time = |time: x509_parser::time::ASN1Time| Timestamp::from_second(time.timestamp());
        let units = parsed.subject().iter_organizational_unit();
        Some(Self {
            thumbprint: Thumbprint(Sha256::digest(leaf).into()),
            not_before: time(parsed.validity().not_before).ok()?,
            not_after: time(parsed.validity().not_after).ok()?,
            serial: hex::encode(parsed.raw_serial()),
            common_name: common_name(&parsed).ok().map(str::to_owned),
            authority: KeyId::of_issuer(&parsed),
            units: units
                .filter_map(|unit| unit.as_str().ok().map(str::to_owned))
                .collect(),
            chain: chain.iter().map(|der| der.clone().into_owned()).collect(),
        })
    }

    /// Takes the chain in PEM, leaf first; `None` when there is none to read.
    pub fn from_pem(chain: &str) -> Option<Self> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
        Self::from_chain(&chain.ok()?)
    }

    /// The leaf.
    pub fn leaf(&self) -> &[u8] {
        self.chain.first().map_or(&[], |der| der.as_ref())
    }

    /// Whether its common name is, as a whole, one of these.
    pub fn is_one_of(&self, names: &[String]) -> bool {
        self.common_name
            .as_ref()
            .is_some_and(|name| names.contains(name))
    }

    /// Leaf first, as the peer sent it.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }
}

#[cfg(test)]
mod tests;
