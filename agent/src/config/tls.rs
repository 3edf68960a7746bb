//! The sources of certificates.

use std::path::PathBuf;

use super::error::Error;
use crate::args::TlsArgs;

/// The sources of certificates.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The source of our client certificate.
    pub identity: IdentitySource,
    /// The source of the trusted certificates.
    pub roots: RootsSource,
}

/// The source of our client certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdentitySource {
    /// Two files.
    Files {
        /// The certificate chain.
        chain: PathBuf,
        /// The private key.
        key: PathBuf,
    },
    /// A Secret in Argo CD's namespace.
    Secret(String),
}

/// The source of the trusted certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootsSource {
    /// A file.
    File(PathBuf),
    /// A Secret in Argo CD's namespace.
    Secret(String),
}

impl TryFrom<&TlsArgs> for Tls {
    type Error = Error;

    fn try_from(args: &TlsArgs) -> Result<Self, Error> {
        let identity = match (&args.tls_client_cert, &args.tls_client_key) {
            (Some(chain), Some(key)) => IdentitySource::Files {
                chain: chain.clone(),
                key: key.clone(),
            },
            (None, None) => IdentitySource::Secret(args.tls_secret_name.clone()),
            _ => return Err(Error::HalfCertificate),
        };
        let roots = match &args.root_ca_path {
            Some(path) => RootsSource::File(path.clone()),
            None => RootsSource::Secret(args.root_ca_secret_name.clone()),
        };
        Ok(Self { identity, roots })
    }
}
