//! Why the agent could not connect or authenticate.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tonic::Status;

use super::connector;
use super::transport_choice::Outcome;

/// Timeout of name resolution, TCP and TLS together; a slower network would not carry the session either.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Why the agent could not connect or authenticate.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the variants")]
pub enum Error {
    #[error("use {address:?} as the principal's address")]
    Address { address: String },
    #[error("find a TLS configuration")]
    NoTls,
    #[error("connect to the principal at {address}")]
    Connect {
        address: String,
        source: tonic::transport::Error,
    },
    #[error("connect to the principal at {address}: timed out after {CONNECT_TIMEOUT:?}")]
    ConnectTimeout { address: String },
    #[error("connect to the principal")]
    Connector(#[from] connector::Error),
    #[error("prove the client certificate through a proxy: {what}")]
    Prove { what: &'static str },
    #[error("read the principal's version")]
    Version(#[source] Box<Status>),
    #[error("read user and password from {path:?}")]
    ReadUser { path: PathBuf, source: io::Error },
    #[error("read user and password from {path:?}: the first line is not user:password")]
    BadUser { path: PathBuf },
    #[error("authenticate with the principal")]
    Authenticate(#[source] Box<Status>),
    #[error("use the principal's answer: {what}")]
    BadAnswer { what: &'static str },
}

impl Error {
    /// Stable, bounded text for metric labels.
    pub(crate) fn reason(&self) -> &'static str {
        self.class().0
    }

    /// The outcome for the choice of the transport.
    pub(crate) fn outcome(&self) -> Outcome {
        self.class().1
    }

    fn class(&self) -> (&'static str, Outcome) {
        match self {
            Self::Connector(error) => (error.reason(), error.outcome()),
            Self::Address { .. } => ("BadAddress", Outcome::Unknown),
            Self::NoTls => ("NoCertificates", Outcome::Unknown),
            Self::ConnectTimeout { .. } => ("ConnectTimeout", Outcome::Unknown),
            Self::ReadUser { .. } | Self::BadUser { .. } => ("BadCredentials", Outcome::Unknown),
            // A server accepted the connection, but every principal sends its version to every client.
            Self::Connect { .. } => ("CannotConnect", Outcome::NotGrpc),
            Self::Version(_) => ("VersionFailed", Outcome::NotGrpc),
            Self::BadAnswer { .. } => ("BadAnswer", Outcome::NotGrpc),
            Self::Prove { .. } => ("CannotProve", Outcome::Connected),
            Self::Authenticate(_) => ("NotAuthenticated", Outcome::Connected),
        }
    }

    /// The principal's status, if it answered.
    pub(crate) fn status(&self) -> Option<&Status> {
        if let Self::Version(status) | Self::Authenticate(status) = self {
            Some(status)
        } else {
            None
        }
    }

    /// Whether the principal rejected our credentials.
    pub(crate) const fn is_refusal(&self) -> bool {
        matches!(self, Self::Authenticate(_))
    }
}
