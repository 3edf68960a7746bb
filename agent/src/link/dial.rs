//! Connects, authenticates, and hands over a channel on which a session can be opened.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::Uri;
use hyper_util::rt::TokioIo;
use protocol::Mode;
use protocol::version::{self, Capabilities};
use protocol::wire::authapi::authentication_client::AuthenticationClient;
use protocol::wire::authapi::{AuthRequest, AuthResponse};
use protocol::wire::versionapi::VersionRequest;
use protocol::wire::versionapi::version_client::VersionClient;
use runtime::credentials::ClientTls;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::body::Body;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Endpoint;
use tonic::{Request, Status};
use tower::ServiceExt as _;
use tower::util::BoxCloneSyncService;

use crate::config::{Hub, Method};

/// Name resolution, TCP and TLS together; a slower network would not carry the session either.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// One answer of the principal before the session.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);
/// Windows of HTTP/2, so that what a peer can make us hold is known.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 2 << 20;
/// Answers before the session are small.
const CALL_MESSAGE: usize = 1 << 20;

/// Carries calls to the principal: one connection of HTTP/2, or what stands for it.
pub type Carrier = BoxCloneSyncService<http::Request<Body>, http::Response<Body>, Status>;

/// Makes connections to the principal: over the network, or in a simulation of it.
pub trait Connect: fmt::Debug + Send + Sync + 'static {
    /// Whether there is what it takes to try, such as certificates.
    fn is_ready(&self) -> bool;

    /// One connection, new each time.
    fn connect(&self) -> BoxFuture<'_, Result<Carrier, Error>>;
}

/// Connects over TCP, TLS and HTTP/2.
#[derive(Debug)]
pub struct Tls {
    /// Where the principal is.
    pub hub: Hub,
    /// Certificates as they are now.
    pub tls: ClientTls,
}

impl Connect for Tls {
    fn is_ready(&self) -> bool {
        self.tls.current().is_some()
    }

    fn connect(&self) -> BoxFuture<'_, Result<Carrier, Error>> {
        async {
            let config = self.tls.current().ok_or(Error::NoTls)?;
            connect(&self.hub, config).await
        }
        .boxed()
    }
}

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
    #[error("connect to the principal at {address}: no answer in {CONNECT_TIMEOUT:?}")]
    ConnectTimeout { address: String },
    #[error("ask the principal for its version")]
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
    pub(super) const fn reason(&self) -> &'static str {
        match self {
            Self::Address { .. } => "BadAddress",
            Self::NoTls => "NoCertificates",
            Self::Connect { .. } => "CannotConnect",
            Self::ConnectTimeout { .. } => "ConnectTimeout",
            Self::Version(_) => "VersionFailed",
            Self::ReadUser { .. } | Self::BadUser { .. } => "BadCredentials",
            Self::Authenticate(_) => "NotAuthenticated",
            Self::BadAnswer { .. } => "BadAnswer",
        }
    }

    /// What the principal said, if it said anything.
    pub(super) fn status(&self) -> Option<&Status> {
        match self {
            Self::Version(status) | Self::Authenticate(status) => Some(status),
            Self::Address { .. }
            | Self::NoTls
            | Self::Connect { .. }
            | Self::ConnectTimeout { .. }
            | Self::ReadUser { .. }
            | Self::BadUser { .. }
            | Self::BadAnswer { .. } => None,
        }
    }

    /// Whether the principal did not let us in.
    pub(super) const fn is_refusal(&self) -> bool {
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
pub(super) struct Opened {
    pub(super) channel: Carrier,
    pub(super) token: MetadataValue<Ascii>,
    pub(super) welcome: Welcome,
}

/// Connects and authenticates, once.
pub(super) async fn dial(
    hub: &Hub,
    network: &dyn Connect,
    argocd_namespace: &str,
    mode: Mode,
) -> Result<Opened, Error> {
    let channel = network.connect().await?;
    let version = principal_version(channel.clone()).await?;
    let request = AuthRequest {
        method: method_name(&hub.method).to_owned(),
        credentials: credentials(&hub.method).await?,
        mode: mode.as_str().to_owned(),
        // A Go principal takes only its own version.
        version: version::bare(&version).to_owned(),
        agent_namespace: argocd_namespace.to_owned(),
        capabilities: Capabilities::ours().to_words(),
    };
    let answer = call(
        AuthenticationClient::new(channel.clone())
            .max_decoding_message_size(CALL_MESSAGE)
            .authenticate(Request::new(request)),
    )
    .await
    .map_err(|status| Error::Authenticate(Box::new(status)))?;
    let (token, welcome) = read_answer(answer)?;
    tracing::info!(
        principal_version = %version,
        agent_name = welcome.agent_name.as_deref().unwrap_or_default(),
        "authenticated"
    );
    Ok(Opened {
        channel,
        token,
        welcome,
    })
}

async fn principal_version(channel: Carrier) -> Result<String, Error> {
    let mut client = VersionClient::new(channel).max_decoding_message_size(CALL_MESSAGE);
    let answer = call(client.version(Request::new(VersionRequest {})))
        .await
        .map_err(|status| Error::Version(Box::new(status)))?;
    if version::is_presentable(version::bare(&answer.version)) {
        Ok(answer.version)
    } else {
        Err(Error::BadAnswer {
            what: "its version is not one",
        })
    }
}

fn read_answer(answer: AuthResponse) -> Result<(MetadataValue<Ascii>, Welcome), Error> {
    let AuthResponse {
        access_token,
        refresh_token: _,
        version: _,
        principal_namespace,
        principal_uid,
        capabilities,
        agent_name,
    } = answer;
    if access_token.is_empty() {
        return Err(Error::BadAnswer {
            what: "it has no access token",
        });
    }
    let mut token: MetadataValue<Ascii> =
        access_token.parse().map_err(|_error| Error::BadAnswer {
            what: "its access token is not text",
        })?;
    token.set_sensitive(true);
    let some = |text: String| (!text.is_empty()).then_some(text);
    let welcome = Welcome {
        principal_namespace,
        principal_uid: some(principal_uid),
        agent_name: some(agent_name),
        subject: protocol::token::subject(&access_token),
        capabilities: Capabilities::ours().negotiate(&Capabilities::read(&capabilities)),
    };
    Ok((token, welcome))
}

/// One unary call, within its time.
async fn call<T>(
    call: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> Result<T, Status> {
    tokio::time::timeout(CALL_TIMEOUT, call)
        .await
        .unwrap_or_else(|_elapsed| Err(Status::deadline_exceeded("no answer in time")))
        .map(tonic::Response::into_inner)
}

const fn method_name(method: &Method) -> &'static str {
    match method {
        Method::Mtls => "mtls",
        Method::UserPass(_) => "userpass",
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

async fn connect(hub: &Hub, config: Arc<ClientConfig>) -> Result<Carrier, Error> {
    let Hub {
        host,
        port,
        keep_alive,
        ..
    } = hub;
    let address = authority(host, *port);
    let bad_address = || Error::Address {
        address: address.clone(),
    };
    let name = ServerName::try_from(host.clone()).map_err(|_error| bad_address())?;
    let uri = |scheme| format!("{scheme}://{address}").parse::<Uri>();
    let origin = uri("https").map_err(|_error| bad_address())?;
    // tonic refuses https when it does not do TLS itself; `origin` is what goes on the wire.
    let mut endpoint = Endpoint::from(uri("http").map_err(|_error| bad_address())?)
        .origin(origin)
        .user_agent(concat!("argocd-agent/", env!("CARGO_PKG_VERSION")))
        .map_err(|source| Error::Connect {
            address: address.clone(),
            source,
        })?
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .tcp_nodelay(true);
    if let Some(interval) = keep_alive {
        endpoint = endpoint
            .http2_keep_alive_interval(*interval)
            .keep_alive_while_idle(false);
    }
    let (host, port) = (host.clone(), *port);
    let connector = tower::service_fn(move |_: Uri| {
        let (host, name, config) = (host.clone(), name.clone(), Arc::clone(&config));
        async move {
            let tcp = TcpStream::connect((host, port)).await?;
            tcp.set_nodelay(true)?;
            let tls = TlsConnector::from(config).connect(name, tcp).await?;
            Ok::<_, io::Error>(TokioIo::new(tls))
        }
    });
    let channel = tokio::time::timeout(CONNECT_TIMEOUT, endpoint.connect_with_connector(connector))
        .await
        .map_err(|_elapsed| Error::ConnectTimeout {
            address: address.clone(),
        })?
        .map_err(|source| Error::Connect { address, source })?;
    Ok(BoxCloneSyncService::new(
        channel.map_err(|error| Status::from_error(Box::new(error))),
    ))
}

/// `host:port`, with the brackets that an address of version 6 needs.
fn authority(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
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
        let (_, welcome) = read_answer(answer()).unwrap();
        assert_eq!(welcome, Welcome::default());
        assert!(!welcome.capabilities.is_ours());
    }

    #[test]
    fn a_token_that_is_missing_or_no_header_is_an_error() {
        for token in ["", "line\nbreak"] {
            let answer = AuthResponse {
                access_token: token.to_owned(),
                ..answer()
            };
            assert!(
                matches!(read_answer(answer), Err(Error::BadAnswer { .. })),
                "{token:?}"
            );
        }
    }

    #[test]
    fn an_address_of_version_6_gets_brackets() {
        assert_eq!(authority("::1", 443), "[::1]:443");
        assert_eq!(authority("hub.example", 443), "hub.example:443");
    }
}
