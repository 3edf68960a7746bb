//! Connects, authenticates, and hands over a channel on which a session can be opened.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use protocol::Mode;
use protocol::proof;
use protocol::version::{self, Capabilities};
use protocol::wire::authapi::authentication_client::AuthenticationClient;
use protocol::wire::authapi::{AuthRequest, AuthResponse, Proof};
use protocol::wire::versionapi::version_client::VersionClient;
use protocol::wire::versionapi::{VersionRequest, VersionResponse};
use runtime::credentials::Identity;
use tonic::{Request, Status};

use super::connect::{CONNECT_TIMEOUT, Carrier, Connect};
use super::connector;
use super::tokens::Tokens;
use super::transport_choice::Outcome;
use crate::config::{Hub, Method};

/// One answer of the principal before the session.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);
/// Answers before the session are small.
pub(crate) const CALL_MESSAGE: usize = 1 << 20;

/// Why no session came about.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
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
    pub(crate) const fn reason(&self) -> &'static str {
        match self {
            Self::Address { .. } => "BadAddress",
            Self::NoTls => "NoCertificates",
            Self::Connect { .. } => "CannotConnect",
            Self::ConnectTimeout { .. } => "ConnectTimeout",
            Self::Connector(error) => error.reason(),
            Self::Prove { .. } => "CannotProve",
            Self::Version(_) => "VersionFailed",
            Self::ReadUser { .. } | Self::BadUser { .. } => "BadCredentials",
            Self::Authenticate(_) => "NotAuthenticated",
            Self::BadAnswer { .. } => "BadAnswer",
        }
    }

    /// What the principal said, if it said anything.
    pub(crate) fn status(&self) -> Option<&Status> {
        match self {
            Self::Version(status) | Self::Authenticate(status) => Some(status),
            Self::Address { .. }
            | Self::NoTls
            | Self::Connect { .. }
            | Self::ConnectTimeout { .. }
            | Self::Connector(_)
            | Self::Prove { .. }
            | Self::ReadUser { .. }
            | Self::BadUser { .. }
            | Self::BadAnswer { .. } => None,
        }
    }

    /// What it says about the way that was tried.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Self::Connector(error) => error.outcome(),
            // Somebody accepted the connection, and every principal tells its version to everybody.
            Self::Connect { .. } | Self::Version(_) | Self::BadAnswer { .. } => Outcome::NotGrpc,
            Self::Authenticate(_) | Self::Prove { .. } => Outcome::Connected,
            Self::Address { .. }
            | Self::NoTls
            | Self::ConnectTimeout { .. }
            | Self::ReadUser { .. }
            | Self::BadUser { .. } => Outcome::Unknown,
        }
    }

    /// Whether the principal did not let us in.
    pub(crate) const fn is_refusal(&self) -> bool {
        matches!(self, Self::Authenticate(_))
    }
}

/// What the principal said about itself and about us.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Welcome {
    /// Argo CD's namespace on the hub; empty when the principal does not say.
    pub principal_namespace: String,
    /// The principal's identity; a Go principal says it later, with each object.
    pub principal_uid: Option<String>,
    /// Who the principal takes us for, which is also our namespace on the hub.
    pub agent_name: Option<String>,
    /// The same as a Go principal says it: the subject of the token.
    pub subject: Option<String>,
    /// What both ends can do beyond the Go protocol.
    pub capabilities: Capabilities,
}

/// A connection that may open a session.
pub(crate) struct Opened {
    pub(crate) channel: Carrier,
    pub(crate) tokens: Tokens,
    pub(crate) welcome: Welcome,
}

/// Who dials, and where to.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'a> {
    pub(crate) hub: &'a Hub,
    pub(crate) network: &'a dyn Connect,
    /// For the proof where a proxy ends TLS.
    pub(crate) identity: Option<&'a Identity>,
    pub(crate) argocd_namespace: &'a str,
    pub(crate) mode: Mode,
    /// What we can do.
    pub(crate) capabilities: &'a Capabilities,
}

/// Connects and authenticates, once.
pub(crate) async fn dial(caller: Caller<'_>) -> Result<Opened, Error> {
    let channel = caller.network.connect().await?;
    introduce(caller, channel).await
}

/// Authenticates over a connection that is open.
pub(crate) async fn introduce(caller: Caller<'_>, channel: Carrier) -> Result<Opened, Error> {
    let Caller {
        hub,
        network,
        identity,
        argocd_namespace,
        mode,
        capabilities: ours,
    } = caller;
    let principal = principal_version(channel.clone()).await?;
    let request = AuthRequest {
        method: method_name(&hub.method).to_owned(),
        credentials: credentials(&hub.method).await?,
        mode: mode.as_str().to_owned(),
        // A Go principal takes only its own version.
        version: version::bare(&principal.version).to_owned(),
        agent_namespace: argocd_namespace.to_owned(),
        capabilities: ours.to_words(),
        proof: prove(&hub.host, identity, &principal)?,
    };
    let answer = call(
        AuthenticationClient::new(channel.clone())
            .max_decoding_message_size(CALL_MESSAGE)
            .authenticate(Request::new(request.clone())),
    )
    .await
    .map_err(|status| Error::Authenticate(Box::new(status)))?;
    let tokens = Tokens::new(request, &answer)?;
    let welcome = read_answer(answer, ours);
    tracing::info!(
        principal_version = %principal.version,
        agent_name = welcome.agent_name.as_deref().unwrap_or_default(),
        transport = network.transport(),
        "authenticated"
    );
    Ok(Opened {
        channel,
        tokens,
        welcome,
    })
}

async fn principal_version(channel: Carrier) -> Result<VersionResponse, Error> {
    let mut client = VersionClient::new(channel).max_decoding_message_size(CALL_MESSAGE);
    let answer = call(client.version(Request::new(VersionRequest {})))
        .await
        .map_err(|status| Error::Version(Box::new(status)))?;
    if version::is_presentable(version::bare(&answer.version)) {
        Ok(answer)
    } else {
        Err(Error::BadAnswer {
            what: "invalid version",
        })
    }
}

/// The proof that is asked for with a nonce: a proxy on the way ends TLS, and shows the principal its own certificate.
fn prove(
    host: &str,
    identity: Option<&Identity>,
    principal: &VersionResponse,
) -> Result<Option<Proof>, Error> {
    let VersionResponse {
        version: _,
        nonce,
        principal_uid,
    } = principal;
    if nonce.is_empty() {
        return Ok(None);
    }
    let cannot = |what| Error::Prove { what };
    if nonce.len() > proof::LONGEST || principal_uid.len() > proof::LONGEST {
        return Err(cannot("the data to sign is too long"));
    }
    let identity = identity.ok_or_else(|| cannot("no certificate found"))?;
    let signature = identity
        .sign(&proof::signed(host, principal_uid, nonce))
        .ok_or_else(|| cannot("the key cannot sign"))?;
    let chain = identity.chain().iter();
    Ok(Some(Proof {
        chain: chain
            .map(|der| bytes::Bytes::copy_from_slice(der))
            .collect(),
        scheme: signature.scheme.into(),
        signature: signature.bytes.into(),
        server_name: host.to_owned(),
        nonce: nonce.clone(),
    }))
}

fn read_answer(answer: AuthResponse, ours: &Capabilities) -> Welcome {
    let AuthResponse {
        access_token,
        refresh_token: _,
        version: _,
        principal_namespace,
        principal_uid,
        capabilities,
        agent_name,
    } = answer;
    let some = |text: String| (!text.is_empty()).then_some(text);
    Welcome {
        principal_namespace,
        principal_uid: some(principal_uid),
        agent_name: some(agent_name),
        subject: protocol::token::subject(&access_token),
        capabilities: ours.negotiate(&Capabilities::read(&capabilities)),
    }
}

/// One unary call, within its time.
pub(crate) async fn call<T>(
    call: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> Result<T, Status> {
    tokio::time::timeout(CALL_TIMEOUT, call)
        .await
        .unwrap_or_else(|_elapsed| Err(Status::deadline_exceeded("timed out")))
        .map(tonic::Response::into_inner)
}

const fn method_name(method: &Method) -> &'static str {
    match method {
        Method::Mtls => "mtls",
        Method::UserPass(_) => "userpass",
        Method::Header => "header",
    }
}

async fn credentials(method: &Method) -> Result<std::collections::HashMap<String, String>, Error> {
    let Method::UserPass(path) = method else {
        return Ok([].into());
    };
    // Read at each dial, so that a changed password needs no restart.
    let text = tokio::fs::read_to_string(path)
        .await
        .map_err(|source| Error::ReadUser {
            path: path.clone(),
            source,
        })?;
    let line = text.lines().next().unwrap_or_default();
    let (user, password) = line
        .split_once(':')
        .ok_or_else(|| Error::BadUser { path: path.clone() })?;
    Ok([("clientid", user), ("clientsecret", password)]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> AuthResponse {
        AuthResponse {
            access_token: "a.b.c".to_owned(),
            ..AuthResponse::default()
        }
    }

    #[test]
    fn a_go_principal_says_less_and_is_welcome_too() {
        let welcome = read_answer(answer(), &Capabilities::ours());
        assert_eq!(welcome, Welcome::default());
        assert!(!welcome.capabilities.is_ours());
    }
}
