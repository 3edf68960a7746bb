//! Parsing and checking of TLS material; pure.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use jiff::Timestamp;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, SignatureScheme};
use rustls_pki_types::pem::{self, PemObject as _};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest as _, Sha256};
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// The TLS provider of all our connections.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// Why material is invalid. No variant has any part of a key.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The certificate chain is not PEM.
    #[error("read the certificate chain")]
    ReadChain(#[source] pem::Error),
    /// There is a key, but no certificate.
    #[error("no certificate found")]
    NoCertificate,
    /// The private key is not PEM, or there is none.
    #[error("read the private key")]
    ReadKey(#[source] pem::Error),
    /// The leaf is not an X.509 certificate.
    #[error("parse the certificate")]
    ParseCertificate(#[source] x509_parser::nom::Err<x509_parser::error::X509Error>),
    /// The key has an unsupported type, or belongs to another certificate.
    #[error("match the private key with the certificate")]
    MatchKey(#[source] rustls::Error),
    /// The certificate has expired.
    #[error("the certificate expired at {not_after}")]
    Expired {
        /// When.
        not_after: Timestamp,
    },
    /// The trusted roots are not PEM.
    #[error("read the trusted certificates")]
    ReadRoots(#[source] pem::Error),
    /// The trusted roots have no certificate.
    #[error("no trusted certificate found")]
    NoRoots,
    /// A trusted root is not a usable certificate.
    #[error("parse a trusted certificate")]
    ParseRoot(#[source] rustls::Error),
    /// A configuration needs a certificate and there is none yet.
    #[error("no certificate loaded yet")]
    IdentityMissing,
    /// A configuration needs trusted roots and there are none yet.
    #[error("no trusted certificates loaded yet")]
    RootsMissing,
    /// The TLS library rejects the material.
    #[error("build the TLS configuration")]
    Build(#[source] rustls::Error),
    /// The TLS library rejects the trusted certificates.
    #[error("build the verifier of client certificates")]
    BuildVerifier(#[source] rustls::server::VerifierBuilderError),
}

/// PEM texts; never printed.
#[derive(Clone, Default, derive_more::Debug)]
#[debug("Pem")]
pub struct Pem {
    /// The leaf and its intermediates.
    pub chain: Option<Vec<u8>>,
    /// The private key of the leaf.
    pub key: Option<Vec<u8>>,
    /// Trusted certificates; several texts may be joined.
    pub roots: Option<Vec<u8>>,
}

impl Pem {
    /// Hash of the content, to detect a change without a second copy of a key.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.chain, &self.key, &self.roots).hash(&mut hasher);
        hasher.finish()
    }
}

/// A certificate with its private key; checked to match, and not expired when parsed.
#[derive(Clone, derive_more::Debug)]
pub struct Identity {
    #[debug(skip)]
    certified: Arc<CertifiedKey>,
    /// Start of its validity.
    pub not_before: Timestamp,
    /// End of its validity.
    pub not_after: Timestamp,
    /// Its subject, as text for people.
    pub subject: String,
    /// The key that signed it, if the certificate names it.
    pub authority: Option<KeyId>,
}

/// Signature schemes of TLS 1.3, in order of preference.
const SCHEMES: [SignatureScheme; 7] = [
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ECDSA_NISTP521_SHA512,
    SignatureScheme::ED25519,
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::RSA_PSS_SHA384,
    SignatureScheme::RSA_PSS_SHA512,
];

/// A signature and its scheme, as TLS numbers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// The scheme.
    pub scheme: u16,
    /// The signature.
    pub bytes: Vec<u8>,
}

/// The identifier of a key, as certificates use it for their own key and that of their issuer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Debug)]
pub struct KeyId(#[debug("{}", hex::encode(_0))] Vec<u8>);

impl KeyId {
    /// The key that signed a certificate, according to the certificate.
    pub fn of_issuer(certificate: &X509Certificate<'_>) -> Option<Self> {
        certificate.iter_extensions().find_map(|extension| {
            let ParsedExtension::AuthorityKeyIdentifier(found) = extension.parsed_extension()
            else {
                return None;
            };
            Some(Self(found.key_identifier.as_ref()?.0.to_vec()))
        })
    }

    /// The key of a certificate, according to the certificate.
    pub fn of_subject(certificate: &X509Certificate<'_>) -> Option<Self> {
        certificate.iter_extensions().find_map(|extension| {
            let ParsedExtension::SubjectKeyIdentifier(id) = extension.parsed_extension() else {
                return None;
            };
            Some(Self(id.0.to_vec()))
        })
    }
}

/// The SHA-256 of a certificate in hexadecimal, which identifies it in messages about trust.
pub fn fingerprint(certificate: &[u8]) -> String {
    hex::encode(Sha256::digest(certificate))
}

impl Identity {
    /// The leaf and its intermediates.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.certified.cert
    }

    /// Presents this identity in every handshake.
    pub(super) fn resolver(&self) -> Arc<SingleCertAndKey> {
        Arc::new(SingleCertAndKey::from((*self.certified).clone()))
    }

    /// Signs with the key of the leaf and a scheme of TLS 1.3; none if the key supports none.
    pub fn sign(&self, message: &[u8]) -> Option<Signature> {
        let signer = self.certified.key.choose_scheme(&SCHEMES)?;
        let scheme = u16::from(signer.scheme());
        let bytes = signer.sign(message).ok()?;
        Some(Signature { scheme, bytes })
    }
}

/// Trusted certificates.
#[derive(Debug, Clone)]
pub struct Roots {
    /// The certificates in DER.
    pub certificates: Vec<CertificateDer<'static>>,
    store: Arc<RootCertStore>,
}

impl Roots {
    /// The certificates as a store of the TLS library.
    pub fn store(&self) -> Arc<RootCertStore> {
        Arc::clone(&self.store)
    }

    /// The fingerprints of the trusted certificates.
    pub fn fingerprints(&self) -> BTreeSet<String> {
        self.certificates.iter().map(|it| fingerprint(it)).collect()
    }
}

/// Checked TLS material; unknown and unused parts are absent.
#[derive(Debug, Clone, Default)]
pub struct Material {
    /// Our certificate and key.
    pub identity: Option<Identity>,
    /// The trusted certificates.
    pub roots: Option<Roots>,
}

impl Material {
    /// Parses and checks PEM texts; `now` decides about expiry.
    ///
    /// # Errors
    /// A part is invalid; the whole material is rejected.
    pub fn parse(pem: &Pem, now: Timestamp) -> Result<Self, Error> {
        let identity = match (&pem.chain, &pem.key) {
            (None, None) => None,
            (chain, key) => Some(identity(
                chain.as_deref().unwrap_or_default(),
                key.as_deref().unwrap_or_default(),
                now,
            )?),
        };
        let roots = pem.roots.as_deref().map(roots).transpose()?;
        Ok(Self { identity, roots })
    }

    /// When the certificate expires, if there is one.
    pub fn not_after(&self) -> Option<Timestamp> {
        self.identity.as_ref().map(|identity| identity.not_after)
    }
}

fn identity(chain: &[u8], key: &[u8], now: Timestamp) -> Result<Identity, Error> {
    let chain = certificates(chain).map_err(Error::ReadChain)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(Error::ReadKey)?;
    let leaf = chain.first().ok_or(Error::NoCertificate)?;
    let (_, parsed) = X509Certificate::from_der(leaf).map_err(Error::ParseCertificate)?;
    let time = |time: x509_parser::time::ASN1Time| {
        // A time beyond the range of Timestamp never matters.
        Timestamp::from_second(time.timestamp()).unwrap_or(Timestamp::MAX)
    };
    let validity = parsed.validity();
    let (not_before, not_after) = (time(validity.not_before), time(validity.not_after));
    let subject = parsed.subject().to_string();
    let authority = KeyId::of_issuer(&parsed);
    // Checks that the key belongs to the leaf.
    let certified =
        CertifiedKey::from_der(chain.clone(), key, &provider()).map_err(Error::MatchKey)?;
    if not_after <= now {
        return Err(Error::Expired { not_after });
    }
    Ok(Identity {
        certified: Arc::new(certified),
        not_before,
        not_after,
        subject,
        authority,
    })
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    CertificateDer::pem_slice_iter(pem).collect()
}

fn roots(pem: &[u8]) -> Result<Roots, Error> {
    let certificates = certificates(pem).map_err(Error::ReadRoots)?;
    if certificates.is_empty() {
        return Err(Error::NoRoots);
    }
    let mut store = RootCertStore::empty();
    for certificate in &certificates {
        store.add(certificate.clone()).map_err(Error::ParseRoot)?;
    }
    Ok(Roots {
        certificates,
        store: Arc::new(store),
    })
}
