//! The CA as a value: its certificates and its key.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use ocm::sdk::{SigningCa, SigningCaError, own_roots};
use runtime::{
    credentials::{KeyId, fingerprint},
    error::Chain,
};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use x509_parser::parse_x509_certificate;

/// The certificate authority, read and checked: the key belongs to the certificate, and peers accept what it signs.
#[derive(Clone, derive_more::Debug, PartialEq, Eq)]
#[debug("Authority({certificate})")]
pub struct Authority {
    /// The certificate that signs, as PEM. Those of the CAs above it may follow.
    pub certificate: String,
    /// Its private key, as PEM. For the Secret and for signing, never for logs.
    pub key: String,
    /// The CAs that both ends trust, as PEM: this certificate or one above it, and a second one during a rotation.
    pub bundle: String,
    /// The certificates that accompany each one that it signs, as PEM; empty if it is a root.
    pub chain: String,
    /// The certificate that signs, as DER.
    pub der: Vec<u8>,
    /// The fingerprint of its certificate, by which agents report trust.
    pub fingerprint: String,
    /// The identifier of its key.
    pub key_id: Option<KeyId>,
    /// The organizational unit of the agents' certificates that it signs; none for the first CA.
    ///
    /// OCM's registration agent requests a new certificate when the required subject differs from that of the present
    /// certificate. So the next CA of a rotation has its own unit, and every agent gets a certificate from it within
    /// seconds instead of near the end of the old one's life.
    pub unit: Option<String>,
    /// The start of its validity.
    pub not_before: Timestamp,
    /// The end of its validity.
    pub not_after: Timestamp,
}

/// Agents and Argo CD reject what the CA signs.
const NOT_TRUSTED: &str = "the CA in tls.crt leads to no certificate in ca.crt, so agents would reject what it signs: \
add the intermediate CAs between them to tls.crt, or this CA to ca.crt";

impl Authority {
    /// Parses the CA and checks it.
    ///
    /// `bundle` contains the certificates that peers should trust, if these are others than `certificate`: during a
    /// rotation, and above an intermediate CA. Without it they trust no CA above the one that signs.
    pub fn from_pem(
        certificate: String,
        key: String,
        bundle: Option<String>,
    ) -> Result<Self, String> {
        let bundle = bundle.filter(|text| !text.trim().is_empty());
        let bundle = bundle.unwrap_or_else(|| own_roots(&certificate));
        let ca = SigningCa::from_pem(&certificate, &key).map_err(|error| refusal(&error))?;
        let roots = CertificateDer::pem_slice_iter(bundle.as_bytes());
        let roots: Result<Vec<_>, _> = roots.collect();
        let roots = roots.map_err(|error| format!("ca.crt: {error}"))?;
        if !ca.is_trusted_by(&roots) {
            return Err(NOT_TRUSTED.to_owned());
        }
        let der = ca.certificate().to_vec();
        let key_id = parse_x509_certificate(&der)
            .ok()
            .and_then(|(_, x509)| KeyId::of_subject(&x509));
        Ok(Self {
            chain: ca.chain().to_owned(),
            not_before: ca.not_before(),
            not_after: ca.not_after(),
            key_id,
            unit: None,
            fingerprint: fingerprint(&der),
            der,
            certificate,
            key,
            bundle,
        })
    }
}

/// The CAs whose client certificates the hub's servers accept, as PEM, of the data of the CA's Secret.
///
/// These are the CAs in `ca.crt` and the one that signs, so that a change of the CAs above it rejects no certificate.
pub fn client_roots(data: &BTreeMap<String, ByteString>) -> Vec<u8> {
    let text = |key: &str| {
        let value = data.get(key);
        value
            .map(|it| String::from_utf8_lossy(&it.0))
            .unwrap_or_default()
    };
    format!("{}\n{}", text("ca.crt"), own_roots(&text("tls.crt"))).into_bytes()
}

fn refusal(error: &SigningCaError) -> String {
    let is_key = matches!(error, SigningCaError::ReadKey(_) | SigningCaError::WrongKey);
    let field = if is_key { "tls.key" } else { "tls.crt" };
    format!("{field}: {}", Chain(error))
}

#[cfg(test)]
mod tests;
