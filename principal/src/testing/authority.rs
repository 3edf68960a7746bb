//! A certificate authority and its leaves. Shared with the tests in `tests/`, so it knows nothing of this crate.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};
use runtime::credentials::{Material, Pem};
use time::{Duration, OffsetDateTime};

/// An RSA private key in PEM.
pub(crate) fn rsa_key() -> String {
    let (kind, size) = (&rcgen::PKCS_RSA_SHA512, rcgen::RsaKeySize::_2048);
    KeyPair::generate_rsa_for(kind, size)
        .unwrap()
        .serialize_pem()
}

/// A certificate authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key.
pub(crate) struct Leaf {
    pub(crate) chain: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name = common_name("test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Like OCM's certificate for the agent of a cluster.
    pub(crate) fn agent(&self, cluster: &str) -> Leaf {
        let addon = "argocd-agent-addon";
        self.client(&format!(
            "system:open-cluster-management:cluster:{cluster}:addon:{addon}:agent:{addon}"
        ))
    }

    pub(crate) fn client(&self, cn: &str) -> Leaf {
        self.leaf(
            common_name(cn),
            ExtendedKeyUsagePurpose::ClientAuth,
            Duration::hours(1),
        )
    }

    pub(crate) fn expired(&self, cluster: &str) -> Leaf {
        let addon = "argocd-agent-addon";
        let cn =
            format!("system:open-cluster-management:cluster:{cluster}:addon:{addon}:agent:{addon}");
        self.leaf(
            common_name(&cn),
            ExtendedKeyUsagePurpose::ClientAuth,
            -Duration::hours(1),
        )
    }

    pub(crate) fn server(&self) -> Leaf {
        self.leaf(
            common_name("localhost"),
            ExtendedKeyUsagePurpose::ServerAuth,
            Duration::hours(1),
        )
    }

    pub(crate) fn leaf(
        &self,
        subject: DistinguishedName,
        usage: ExtendedKeyUsagePurpose,
        life: Duration,
    ) -> Leaf {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name = subject;
        self.sign(params, usage, life)
    }

    /// Replaces the usage and the validity of the parameters.
    pub(crate) fn sign(
        &self,
        mut params: CertificateParams,
        usage: ExtendedKeyUsagePurpose,
        life: Duration,
    ) -> Leaf {
        params.extended_key_usages = vec![usage];
        params.not_before = OffsetDateTime::now_utc() - Duration::hours(2);
        params.not_after = OffsetDateTime::now_utc() + life;
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Leaf {
            chain: certificate.pem(),
            key: key.serialize_pem(),
        }
    }
}

impl Leaf {
    /// Key material with these trusted roots.
    pub(crate) fn material(&self, roots: &Authority) -> Material {
        let pem = Pem {
            chain: Some(self.chain.clone().into_bytes()),
            key: Some(self.key.clone().into_bytes()),
            roots: Some(roots.pem().into_bytes()),
        };
        // At the epoch nothing has expired yet: an expired certificate has to be presented too.
        Material::parse(&pem, jiff::Timestamp::UNIX_EPOCH).unwrap()
    }
}

pub(crate) fn common_name(cn: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, cn);
    name
}
