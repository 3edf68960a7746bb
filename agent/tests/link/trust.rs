//! Certificates.

use std::sync::Arc;

use jiff::Timestamp;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use runtime::credentials::{Material, Pem};

/// A certificate authority.
pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key, as PEM.
pub(super) struct Leaf {
    pub(super) chain: String,
    pub(super) key: String,
}

impl Authority {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(super) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(super) fn leaf(&self, name: &str) -> Leaf {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Leaf {
            chain: certificate.pem(),
            key: key.serialize_pem(),
        }
    }

    /// The credentials of an agent with this name that trusts `roots`.
    pub(super) fn material(&self, name: &str, roots: &str) -> Arc<Material> {
        let Leaf { chain, key } = self.leaf(name);
        let pem = Pem {
            chain: Some(chain.into_bytes()),
            key: Some(key.into_bytes()),
            roots: Some(roots.as_bytes().to_vec()),
        };
        Arc::new(Material::parse(&pem, Timestamp::now()).unwrap())
    }
}
