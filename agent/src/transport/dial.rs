//! Connects, authenticates, and returns a channel for a session.

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

/// Timeout of one call before the session.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);
/// Answers before the session are small.
pub(crate) const CALL_MESSAGE: usize = 1 << 20;

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

    /// The principal's status, if it answered.
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

    /// The outcome for the choice of the transport.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Self::Connector(error) => error.outcome(),
            // A server accepted the connection, but every principal sends its version to every client.
            Self::Connect { .. } | Self::Version(_) | Self::BadAnswer { .. } => Outcome::NotGrpc,
            Self::Authenticate(_) | Self::Prove { .. } => Outcome::Connected,
            Self::Address { .. }
            | Self::NoTls
            | Self::ConnectTimeout { .. }
            | Self::ReadUser { .. }
            | Self::BadUser { .. } => Outcome::Unknown,
        }
    }

    /// Whether the principal rejected our credentials.
    pub(crate) const fn is_refusal(&self) -> bool {
        matches!(self, Self::Authenticate(_))
    }
}

/// The principal's answer to the authentication.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Welcome {
    /// Argo CD's namespace on the hub; empty if the principal does not send it.
    pub principal_namespace: String,
    /// The principal's identity; a Go principal sends it later, with each object.
    pub principal_uid: Option<String>,
    /// Our name at the principal, which is also our namespace on the hub.
    pub agent_name: Option<String>,
    /// Our name at a Go principal: the subject of the token.
    pub subject: Option<String>,
    /// Capabilities of both ends beyond the Go protocol.
    pub capabilities: Capabilities,
}

/// An authenticated connection.
pub(crate) struct Opened {
    pub(crate) channel: Carrier,
    pub(crate) tokens: Tokens,
    pub(crate) welcome: Welcome,
}

/// The inputs of a dial.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'a> {
    pub(crate) hub: &'a Hub,
    pub(crate) network: &'a dyn Connect,
    /// The identity for the proof of a certificate behind a proxy that terminates TLS.
    pub(crate) identity: Option<&'a Identity>,
    pub(crate) argocd_namespace: &'a str,
    pub(crate) mode: Mode,
    /// Our capabilities.
    pub(crate) capabilities: &'a Capabilities,
}

/// Connects and authenticates.
pub(crate) async fn dial(caller: Caller<'_>) -> Result<Opened, Error> {
    let channel = caller.network.connect().await?;
    authenticate(caller, channel).await
}

/// Authenticates over an open connection.
pub(crate) async fn authenticate(caller: Caller<'_>, channel: Carrier) -> Result<Opened, Error> {
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
        // A Go principal accepts only its own version.
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

/// The proof that the principal requests with a nonce: a proxy terminates TLS and presents its own certificate.
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

/// One unary call with a timeout.
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
    fn the_shorter_answer_of_a_go_principal_is_accepted() {
        let welcome = read_answer(answer(), &Capabilities::ours());
        assert_eq!(welcome, Welcome::default());
        assert!(!welcome.capabilities.is_ours());
    }
}
