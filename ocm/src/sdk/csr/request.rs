//! The content of a certificate request.
//!
//! The signer (kube-controller-manager for the hub's own signer) has another parser. So the text must be
//! unambiguous: one PEM block, nothing around it, no headers, and DER without trailing data.

use std::collections::BTreeSet;

use x509_parser::{
    certification_request::X509CertificationRequest,
    cri_attributes::ParsedCriAttribute,
    extensions::{GeneralName, ParsedExtension},
    oid_registry::{
        OID_PKCS9_EXTENSION_REQUEST, OID_X509_COMMON_NAME, OID_X509_EXT_SUBJECT_ALT_NAME,
        OID_X509_ORGANIZATION_NAME, OID_X509_ORGANIZATIONAL_UNIT,
    },
    pem::parse_x509_pem,
    prelude::FromDer as _,
};

use super::Refusal;

const UNSIGNED: &str = "the request is not signed with its own key";
const BEGIN: &str = "-----BEGIN CERTIFICATE REQUEST-----";
const END: &str = "-----END CERTIFICATE REQUEST-----";

/// The parts of a request that matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    /// The only common name.
    pub(crate) common_name: String,
    /// All organizations.
    pub(crate) organizations: BTreeSet<String>,
    /// All organizational units.
    pub(crate) organizational_units: BTreeSet<String>,
    /// All alternative names; `None` for one that is not a DNS name.
    pub(crate) alternative_names: Vec<Option<String>>,
}

impl Request {
    /// Parses a request and verifies its signature, which proves that the requester has the key.
    pub(crate) fn parse(pem: &[u8]) -> Result<Self, Refusal> {
        let der = der(pem)?;
        let request = certification_request(&der)?;
        request
            .verify_signature()
            .map_err(|_broken| Refusal::new("WrongSignature", UNSIGNED))?;
        let subject = subject(&request)?;
        Ok(Self {
            alternative_names: alternative_names(&request)?,
            ..subject
        })
    }
}

/// The public key of a request (its `SubjectPublicKeyInfo`), in DER.
pub(crate) fn public_key(pem: &[u8]) -> Result<Vec<u8>, Refusal> {
    let der = der(pem)?;
    let request = certification_request(&der)?;
    Ok(request.certification_request_info.subject_pki.raw.to_vec())
}

fn der(pem: &[u8]) -> Result<Vec<u8>, Refusal> {
    let text = std::str::from_utf8(pem).map_err(|_broken| Refusal::malformed("not text"))?;
    let text = text.trim_end();
    let body = text
        .strip_prefix(BEGIN)
        .and_then(|rest| rest.strip_suffix(END))
        .ok_or_else(|| Refusal::malformed("not one PEM block of a certificate request"))?;
    let base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=\r\n".contains(&byte);
    if !body.starts_with(['\r', '\n']) || !body.bytes().all(base64) {
        return Err(Refusal::malformed("not plain base64 between BEGIN and END"));
    }
    let (_, pem) = parse_x509_pem(text.as_bytes()).map_err(|_broken| Refusal::malformed("PEM"))?;
    Ok(pem.contents)
}

fn certification_request(der: &[u8]) -> Result<X509CertificationRequest<'_>, Refusal> {
    let (rest, request) = X509CertificationRequest::from_der(der)
        .map_err(|_broken| Refusal::malformed("not a PKCS#10 request"))?;
    if rest.is_empty() {
        Ok(request)
    } else {
        Err(Refusal::malformed("data after the request"))
    }
}

fn subject(request: &X509CertificationRequest<'_>) -> Result<Request, Refusal> {
    let (mut subject, mut common) = (Request::default(), None);
    for attribute in request.certification_request_info.subject.iter_attributes() {
        let text = attribute
            .as_str()
            .map_err(|_broken| Refusal::malformed("subject not text"))?;
        let kind = attribute.attr_type();
        if *kind == OID_X509_COMMON_NAME {
            if common.replace(text.to_owned()).is_some() {
                return Err(Refusal::malformed("more than one common name"));
            }
        } else if *kind == OID_X509_ORGANIZATION_NAME {
            subject.organizations.insert(text.to_owned());
        } else if *kind == OID_X509_ORGANIZATIONAL_UNIT {
            subject.organizational_units.insert(text.to_owned());
        } else {
            return Err(Refusal::malformed("a subject with more than CN, O and OU"));
        }
    }
    subject.common_name = common.ok_or_else(|| Refusal::malformed("no common name"))?;
    Ok(subject)
}

/// Alternative names of all requested extensions; an extension that cannot be read counts against
/// the request.
fn alternative_names(
    request: &X509CertificationRequest<'_>,
) -> Result<Vec<Option<String>>, Refusal> {
    let mut names = Vec::new();
    for attribute in request.certification_request_info.iter_attributes() {
        if attribute.oid != OID_PKCS9_EXTENSION_REQUEST {
            continue;
        }
        let ParsedCriAttribute::ExtensionRequest(requested) = attribute.parsed_attribute() else {
            return Err(Refusal::malformed("unreadable extensions"));
        };
        for extension in &requested.extensions {
            if extension.oid != OID_X509_EXT_SUBJECT_ALT_NAME {
                continue;
            }
            let ParsedExtension::SubjectAlternativeName(list) = extension.parsed_extension() else {
                return Err(Refusal::malformed("unreadable alternative names"));
            };
            names.extend(list.general_names.iter().map(dns_name));
        }
    }
    Ok(names)
}

fn dns_name(name: &GeneralName<'_>) -> Option<String> {
    if let GeneralName::DNSName(name) = name {
        Some((*name).to_owned())
    } else {
        None
    }
}
