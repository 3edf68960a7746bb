//! Keys, certificate requests as OCM's agents make them, and parsing of certificates.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr},
};

use anyhow::{Context, Result, anyhow};
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256,
    PublicKeyData as _, SanType, SigningKey as _,
};
use x509_parser::prelude::{FromDer as _, X509Certificate, X509Name};

/// A certificate for the loopback, and the CA that signed it, all as PEM.
#[derive(Clone)]
pub(crate) struct Serving {
    pub(crate) ca: String,
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Makes a CA and one certificate for servers on the loopback.
pub(crate) fn serving() -> Result<Serving> {
    let ca_key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut ca = CertificateParams::new(Vec::<String>::new())?;
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.distinguished_name
        .push(rcgen::DnType::CommonName, "lab OCM webhook CA");
    let ca_cert = ca.self_signed(&ca_key)?;
    let issuer = Issuer::new(ca, ca_key);

    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut leaf = CertificateParams::new(vec!["localhost".to_owned()])?;
    leaf.subject_alt_names
        .push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    leaf.extended_key_usages
        .push(rcgen::ExtendedKeyUsagePurpose::ServerAuth);
    let cert = leaf.signed_by(&key, &issuer)?;
    Ok(Serving {
        ca: ca_cert.pem(),
        certificate: cert.pem(),
        key: key.serialize_pem(),
    })
}

/// The subject of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Subject {
    pub(crate) common_name: String,
    pub(crate) organizations: BTreeSet<String>,
    pub(crate) units: BTreeSet<String>,
}

/// A new P-256 key, as PEM, and a certificate request signed by it, as PEM.
pub(crate) struct Request {
    pub(crate) key_pem: String,
    pub(crate) csr_pem: String,
}

/// Makes a key and a certificate request, in exactly the form that OCM's agents (Go's crypto/x509) use.
///
/// Encoded by hand because `rcgen` keeps one value per attribute type, while Go puts all O values
/// into one RDN of several values, and an approver must cope with that form.
pub(crate) fn request(subject: &Subject, dns_names: &[&str]) -> Result<Request> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let extensions = if dns_names.is_empty() {
        Vec::new()
    } else {
        der::extension_request(dns_names)
    };
    let info = der::tagged(
        0x30,
        &[
            der::tagged(0x02, &[vec![0]]),
            der::name(subject),
            key.subject_public_key_info(),
            der::tagged(0xa0, &[extensions]),
        ],
    );
    let signature = key
        .sign(&info)
        .map_err(|error| anyhow!("sign a CSR: {error}"))?;
    let algorithm = der::tagged(0x30, &[der::oid(der::ECDSA_WITH_SHA256)]);
    let bits = der::tagged(0x03, &[vec![0], signature]);
    let csr = der::tagged(0x30, &[info, algorithm, bits]);
    Ok(Request {
        key_pem: sec1(&key)?,
        csr_pem: der::pem("CERTIFICATE REQUEST", &csr),
    })
}

/// The key as `EC PRIVATE KEY`, the form that Go's agents write.
fn sec1(key: &KeyPair) -> Result<String> {
    // In the PKCS#8 form the scalar follows the version of the inner ECPrivateKey.
    const BEFORE_SCALAR: &[u8] = &[0x02, 0x01, 0x01, 0x04, 0x20];
    let pkcs8 = key.serialize_der();
    let at = pkcs8
        .windows(BEFORE_SCALAR.len())
        .position(|window| window == BEFORE_SCALAR);
    let scalar = at
        .and_then(|at| pkcs8.get(at + BEFORE_SCALAR.len()..)?.get(..32))
        .context("a P-256 key of an unknown form")?;
    let public = der::tagged(0x03, &[vec![0], key.der_bytes().to_vec()]);
    let sec1 = der::tagged(
        0x30,
        &[
            der::tagged(0x02, &[vec![1]]),
            der::tagged(0x04, &[scalar.to_vec()]),
            der::tagged(0xa0, &[der::oid(der::PRIME256V1)]),
            der::tagged(0xa1, &[public]),
        ],
    );
    Ok(der::pem("EC PRIVATE KEY", &sec1))
}

/// The parts of DER that a certificate request needs.
mod der {
    use base64::Engine as _;

    use super::Subject;

    pub(super) const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
    pub(super) const PRIME256V1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
    const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
    const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
    const UNIT: &[u8] = &[0x55, 0x04, 0x0b];
    const EXTENSION_REQUEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x0e];
    const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];

    /// A tag, the length, and the parts one after the other.
    pub(super) fn tagged(tag: u8, parts: &[Vec<u8>]) -> Vec<u8> {
        let body = parts.concat();
        let length = body.len().to_be_bytes();
        let significant: Vec<u8> = length.into_iter().skip_while(|byte| *byte == 0).collect();
        let mut out = vec![tag];
        if let Ok(short @ 0..=127) = u8::try_from(body.len()) {
            out.push(short);
        } else {
            // At most eight bytes of length, so the count fits.
            out.push(0x80 | u8::try_from(significant.len()).unwrap_or(8));
            out.extend(significant);
        }
        out.extend(body);
        out
    }

    pub(super) fn oid(encoded: &[u8]) -> Vec<u8> {
        tagged(0x06, &[encoded.to_vec()])
    }

    /// PrintableString where the text allows it, else UTF8String, like Go.
    fn text(value: &str) -> Vec<u8> {
        let printable = |c: char| c.is_ascii_alphanumeric() || " '()+,-./:=?*&".contains(c);
        let tag = if value.chars().all(printable) {
            0x13
        } else {
            0x0c
        };
        tagged(tag, &[value.as_bytes().to_vec()])
    }

    /// One RDN with all values of one attribute; a SET OF is in the order of its encodings.
    fn rdn<'a>(attribute: &[u8], values: impl Iterator<Item = &'a String>) -> Vec<u8> {
        let mut pairs: Vec<Vec<u8>> = values
            .map(|value| tagged(0x30, &[oid(attribute), text(value)]))
            .collect();
        pairs.sort();
        if pairs.is_empty() {
            Vec::new()
        } else {
            tagged(0x31, &pairs)
        }
    }

    pub(super) fn name(subject: &Subject) -> Vec<u8> {
        let common = std::iter::once(&subject.common_name);
        tagged(
            0x30,
            &[
                rdn(ORGANIZATION, subject.organizations.iter()),
                rdn(UNIT, subject.units.iter()),
                rdn(COMMON_NAME, common),
            ],
        )
    }

    /// The attribute that asks for DNS names.
    pub(super) fn extension_request(dns_names: &[&str]) -> Vec<u8> {
        let one = |name: &&str| tagged(0x82, &[name.as_bytes().to_vec()]);
        let names = tagged(0x30, &dns_names.iter().map(one).collect::<Vec<_>>());
        let extension = tagged(0x30, &[oid(SUBJECT_ALT_NAME), tagged(0x04, &[names])]);
        let set = tagged(0x31, &[tagged(0x30, &[extension])]);
        tagged(0x30, &[oid(EXTENSION_REQUEST), set])
    }

    pub(super) fn pem(label: &str, der: &[u8]) -> String {
        let text = base64::engine::general_purpose::STANDARD.encode(der);
        let mut out = format!("-----BEGIN {label}-----\n");
        let end = format!("\n-----END {label}-----\n");
        for (index, character) in text.chars().enumerate() {
            if index > 0 && index % 64 == 0 {
                out.push('\n');
            }
            out.push(character);
        }
        out + &end
    }
}

/// One certificate as PEM.
pub(crate) fn certificate_pem(der: &[u8]) -> String {
    der::pem("CERTIFICATE", der)
}

/// The fields of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    pub(crate) subject: Subject,
    pub(crate) not_before: Timestamp,
    pub(crate) not_after: Timestamp,
}

impl Certificate {
    /// Reads the first certificate of a PEM bundle.
    pub(crate) fn read(pem: &[u8]) -> Result<Self> {
        let (_, block) = x509_parser::pem::parse_x509_pem(pem)
            .map_err(|error| anyhow!("read a certificate as PEM: {error}"))?;
        let (_, certificate) = X509Certificate::from_der(&block.contents)
            .map_err(|error| anyhow!("read a certificate: {error}"))?;
        let at =
            |seconds| Timestamp::from_second(seconds).context("a date far outside the calendar");
        Ok(Self {
            subject: subject(certificate.subject()),
            not_before: at(certificate.validity().not_before.timestamp())?,
            not_after: at(certificate.validity().not_after.timestamp())?,
        })
    }
}

/// The subject of a certificate request in PEM.
pub(crate) fn subject_of_request(pem: &[u8]) -> Result<Subject> {
    let (_, block) = x509_parser::pem::parse_x509_pem(pem)
        .map_err(|error| anyhow!("read a CSR as PEM: {error}"))?;
    let (_, csr) =
        x509_parser::certification_request::X509CertificationRequest::from_der(&block.contents)
            .map_err(|error| anyhow!("read a CSR: {error}"))?;
    csr.verify_signature()
        .map_err(|error| anyhow!("a CSR not signed by its own key: {error}"))?;
    Ok(subject(&csr.certification_request_info.subject))
}

fn subject(name: &X509Name<'_>) -> Subject {
    let values =
        |attributes: &mut dyn Iterator<Item = &x509_parser::x509::AttributeTypeAndValue<'_>>| {
            attributes
                .filter_map(|one| one.as_str().ok())
                .map(str::to_owned)
                .collect::<BTreeSet<String>>()
        };
    Subject {
        common_name: values(&mut name.iter_common_name())
            .into_iter()
            .next()
            .unwrap_or_default(),
        organizations: values(&mut name.iter_organization()),
        units: values(&mut name.iter_organizational_unit()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csr_has_all_organizations_and_is_self_signed() {
        let wanted = Subject {
            common_name: format!("system:open-cluster-management:{}", "x".repeat(80)),
            organizations: BTreeSet::from(["one:group".to_owned(), "another:group".to_owned()]),
            units: BTreeSet::from(["unit".to_owned()]),
        };
        let made = request(&wanted, &["a.addon.open-cluster-management.io"]).unwrap();
        assert_eq!(subject_of_request(made.csr_pem.as_bytes()).unwrap(), wanted);

        // One RDN with two values, as Go writes it.
        let (_, block) = x509_parser::pem::parse_x509_pem(made.csr_pem.as_bytes()).unwrap();
        let (_, csr) =
            x509_parser::certification_request::X509CertificationRequest::from_der(&block.contents)
                .unwrap();
        let rdns: Vec<usize> = csr
            .certification_request_info
            .subject
            .iter_rdn()
            .map(|rdn| rdn.iter().count())
            .collect();
        assert_eq!(rdns, [2, 1, 1]);
    }

    #[test]
    fn a_key_has_the_form_of_go_and_is_the_one_of_the_request() {
        use rustls::pki_types::{PrivateKeyDer, pem::PemObject as _};

        let made = request(&Subject::default(), &[]).unwrap();
        assert!(made.key_pem.starts_with("-----BEGIN EC PRIVATE KEY-----"));
        let der = PrivateKeyDer::from_pem_slice(made.key_pem.as_bytes()).unwrap();
        let key = rustls::crypto::aws_lc_rs::sign::any_ecdsa_type(&der).unwrap();
        let public = key.public_key().unwrap();
        let (_, block) = x509_parser::pem::parse_x509_pem(made.csr_pem.as_bytes()).unwrap();
        let (_, csr) =
            x509_parser::certification_request::X509CertificationRequest::from_der(&block.contents)
                .unwrap();
        assert_eq!(
            csr.certification_request_info.subject_pki.raw,
            public.as_ref()
        );
    }

    #[test]
    fn a_serving_certificate_is_for_the_loopback() {
        let made = serving().unwrap();
        assert!(Certificate::read(made.certificate.as_bytes()).is_ok());
        assert!(made.ca.contains("CERTIFICATE"));
    }
}
