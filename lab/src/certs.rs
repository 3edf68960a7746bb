//! Certificates for the control planes: one authority for each cluster, created at each start.

use std::net::IpAddr;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use time::{Duration, OffsetDateTime};

/// How long our certificates are valid. A lab does not run for longer.
const VALIDITY: Duration = Duration::days(30);

/// A certificate and its key, as PEM.
#[derive(Clone)]
pub struct Pair {
    /// The certificate.
    pub cert: String,
    /// The private key, PKCS#8.
    pub key: String,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair").finish_non_exhaustive()
    }
}

/// A certificate authority.
pub struct Authority {
    pair: Pair,
    issuer: Issuer<'static, KeyPair>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    /// Makes an authority of this common name.
    pub fn new(name: &str) -> Result<Self> {
        let mut params = params(name, None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().context("generate the authority's key")?;
        let cert = params
            .self_signed(&key)
            .context("sign the authority's certificate")?;
        let pair = Pair {
            cert: cert.pem(),
            key: key.serialize_pem(),
        };
        Ok(Self {
            pair,
            issuer: Issuer::new(params, key),
        })
    }

    /// The authority's own certificate and key.
    pub const fn pair(&self) -> &Pair {
        &self.pair
    }

    /// Issues a serving certificate.
    pub fn serving(&self, name: &str, names: &[&str], addresses: &[IpAddr]) -> Result<Pair> {
        let mut params = params(name, None);
        for name in names {
            let name = (*name)
                .try_into()
                .with_context(|| format!("{name:?} in a certificate"))?;
            params.subject_alt_names.push(SanType::DnsName(name));
        }
        params
            .subject_alt_names
            .extend(addresses.iter().copied().map(SanType::IpAddress));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(params)
    }

    /// Issues a client certificate: Kubernetes reads the user from the name and the group from the organization.
    /// (rcgen can write only one organization.)
    pub fn client(&self, name: &str, organization: Option<&str>) -> Result<Pair> {
        let mut params = params(name, organization);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params)
    }

    fn issue(&self, mut params: CertificateParams) -> Result<Pair> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().context("generate a key")?;
        let cert = params
            .signed_by(&key, &self.issuer)
            .context("sign a certificate")?;
        Ok(Pair {
            cert: cert.pem(),
            key: key.serialize_pem(),
        })
    }
}

fn params(name: &str, organization: Option<&str>) -> CertificateParams {
    let mut params = CertificateParams::default();
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    if let Some(organization) = organization {
        subject.push(DnType::OrganizationName, organization);
    }
    params.distinguished_name = subject;
    // A clock that is slightly behind must not reject a new certificate.
    params.not_before = OffsetDateTime::now_utc() - Duration::minutes(5);
    params.not_after = OffsetDateTime::now_utc() + VALIDITY;
    params
}

/// A key pair for service account tokens: the public and the private key, as PEM.
pub(crate) fn token_keys() -> Result<(String, String)> {
    let key = KeyPair::generate().context("generate the key of service account tokens")?;
    Ok((key.public_key_pem(), key.serialize_pem()))
}
