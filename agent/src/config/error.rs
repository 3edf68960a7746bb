//! Why settings are invalid.

use runtime::trace;

/// Why the settings are invalid. An administrator has to correct them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The principal's address is missing.
    #[error("--server-address (ARGOCD_AGENT_REMOTE_SERVER) is required")]
    NoServer,
    /// The address is neither a DNS name nor an IP address.
    #[error(
        "--server-address (ARGOCD_AGENT_REMOTE_SERVER) {0:?} is neither a DNS name nor an IP address; set the port \
        with its own flag"
    )]
    Server(String),
    /// The mode is unknown.
    #[error("agent mode {0:?} is neither managed nor autonomous")]
    Mode(String),
    /// The method of authentication is unknown.
    #[error("--creds {0:?} is neither mtls:any nor userpass:<file> nor header:")]
    Credentials(String),
    /// The forward proxy is invalid. The message omits its URL, which may contain a password.
    #[error("--https-proxy (HTTPS_PROXY): {0}")]
    Proxy(&'static str),
    /// Plaintext with certificates, or a header without plaintext.
    #[error(
        "--insecure-plaintext needs --creds header: or userpass:<file>, and header: needs --insecure-plaintext"
    )]
    Plaintext,
    /// A certificate without its key, or a key without its certificate.
    #[error("--tls-client-cert and --tls-client-key must be set together")]
    HalfCertificate,
    /// The name of the user is invalid.
    #[error("--ui-user {0:?} is not the name of a user")]
    User(String),
    /// The address of redis is invalid.
    #[error("--redis-addr (REDIS_ADDR) {0:?} is not host:port, such as argocd-redis:6379")]
    Redis(String),
    /// A setting of traces is invalid.
    #[error(transparent)]
    Traces(#[from] trace::Invalid),
    /// A value that the flag does not allow.
    #[error("{flag} {value:?} is not one of {allowed}")]
    Word {
        /// The flag.
        flag: &'static str,
        /// The invalid value.
        value: String,
        /// The allowed values.
        allowed: String,
    },
    /// An unsupported setting that the agent must not ignore.
    #[error("{flag} is not supported yet: {why}")]
    Unsupported {
        /// The flag.
        flag: &'static str,
        /// What to do instead.
        why: &'static str,
    },
}
