//! Opens byte streams to the principal: TCP, through a forward proxy if one is set, and TLS.

use std::{error::Error as StdError, io, sync::Arc};

use http::Uri;
use hyper_util::{client::legacy::connect::proxy::Tunnel, rt::TokioIo};
use runtime::{
    connection,
    credentials::{Material, Pem, provider},
    net::authority,
};
use rustls::{AlertDescription, ClientConfig, Error as Tls};
use rustls_pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;
use tower::Service as _;

use super::transport_choice::Outcome;
use crate::config::{Hub, proxy::Route};

/// Why the connection failed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the variants")]
pub enum Error {
    #[error("reach {to}")]
    Tcp { to: String, source: io::Error },
    #[error("use the certificates of the proxy {proxy}: {why}")]
    ProxyTrust { proxy: String, why: String },
    #[error("TLS handshake with the proxy {proxy}")]
    ProxyTls { proxy: String, source: io::Error },
    #[error("connect to {to} through the proxy {proxy}")]
    Tunnel {
        to: String,
        proxy: String,
        source: Box<dyn StdError + Send + Sync>,
    },
    #[error("TLS handshake with {to}")]
    Tls { to: String, source: io::Error },
}

impl Error {
    /// Stable, bounded text for metric labels.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Tcp { source, .. } if source.kind() == io::ErrorKind::TimedOut => {
                "ConnectTimeout"
            }
            Self::Tcp { .. } => "CannotConnect",
            Self::ProxyTrust { .. } | Self::ProxyTls { .. } | Self::Tunnel { .. } => "ProxyFailed",
            Self::Tls { .. } => "TlsFailed",
        }
    }

    /// The outcome for the choice of the transport.
    pub(crate) fn outcome(&self) -> Outcome {
        let Self::Tls { source, .. } = self else {
            return Outcome::Unknown;
        };
        // A peer that closes during the handshake may reject the offered protocols.
        match source
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<Tls>())
        {
            None | Some(Tls::AlertReceived(AlertDescription::NoApplicationProtocol)) => {
                Outcome::NotGrpc
            }
            Some(_) => Outcome::Unknown,
        }
    }
}

/// The byte stream of a connection.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// An open connection.
pub(crate) struct Reached {
    pub(crate) io: Box<dyn Io>,
    /// Whether the peer negotiated HTTP/2; none without TLS.
    pub(crate) http2: Option<bool>,
}

/// Opens connections to one address.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    host: String,
    port: u16,
    name: ServerName<'static>,
    /// None without TLS.
    tls: Option<Arc<ClientConfig>>,
    proxy: Option<Route>,
}

/// The protocols to offer in the TLS handshake.
pub(crate) const BOTH: [&[u8]; 2] = [b"h2", b"http/1.1"];
pub(crate) const HTTP1: [&[u8]; 1] = [b"http/1.1"];

impl Connector {
    /// A connector with these settings; none if the address is invalid.
    pub(crate) fn new(hub: &Hub, tls: Option<Arc<ClientConfig>>) -> Option<Self> {
        Some(Self {
            name: ServerName::try_from(hub.host.clone()).ok()?,
            proxy: hub.proxy.route(&hub.host, hub.port),
            host: hub.host.clone(),
            port: hub.port,
            tls,
        })
    }

    /// `host:port`, with the brackets of an IPv6 address.
    pub(crate) fn authority(&self) -> String {
        authority(&self.host, self.port)
    }

    /// Connects, through the proxy if one is set, up to the TLS handshake.
    pub(crate) async fn connect(&self, protocols: &[&[u8]]) -> Result<Reached, Error> {
        let io: Box<dyn Io> = match &self.proxy {
            None => Box::new(tcp(&self.host, self.port).await?),
            Some(route) => self.through(route).await?,
        };
        let Some(config) = &self.tls else {
            return Ok(Reached { io, http2: None });
        };
        let mut config = ClientConfig::clone(config);
        config.alpn_protocols = protocols.iter().map(|it| it.to_vec()).collect();
        let connecting = TlsConnector::from(Arc::new(config)).connect(self.name.clone(), io);
        let tls = connecting.await.map_err(|source| Error::Tls {
            to: self.authority(),
            source,
        })?;
        let http2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok(Reached {
            io: Box::new(tls),
            http2: Some(http2),
        })
    }

    async fn through(&self, route: &Route) -> Result<Box<dyn Io>, Error> {
        let proxy = authority(&route.host, route.port);
        let tcp = tcp(&route.host, route.port).await?;
        let io: Box<dyn Io> = if route.tls {
            let config = trusting(route).await.map_err(|why| Error::ProxyTrust {
                proxy: proxy.clone(),
                why,
            })?;
            let failed = |source| Error::ProxyTls {
                proxy: proxy.clone(),
                source,
            };
            let name = ServerName::try_from(route.host.clone());
            let name = name.map_err(|error| failed(io::Error::other(error)))?;
            let connecting = TlsConnector::from(config).connect(name, tcp);
            Box::new(connecting.await.map_err(failed)?)
        } else {
            Box::new(tcp)
        };
        let failed = |source| Error::Tunnel {
            to: self.authority(),
            proxy: proxy.clone(),
            source,
        };
        let connector = once(io);
        let to = format!("https://{}", self.authority());
        let to: Uri = to.parse().map_err(|error| failed(Box::new(error)))?;
        let mut tunnel = Tunnel::new(Uri::from_static("http://proxy"), connector);
        if let Some(credentials) = &route.credentials {
            tunnel = tunnel.with_auth(credentials.clone());
        }
        let io = tunnel.call(to).await;
        let io = io.map_err(|error| failed(Box::new(error)))?;
        Ok(Box::new(io.into_inner()))
    }
}

/// Gives this connection to the first caller.
pub(crate) fn once(
    io: Box<dyn Io>,
) -> impl tower::Service<Uri, Response = TokioIo<Box<dyn Io>>, Error = io::Error, Future: Send> + Send
{
    let mut once = Some(TokioIo::new(io));
    tower::service_fn(move |_: Uri| {
        let io = once.take();
        async move { io.ok_or_else(|| io::ErrorKind::ConnectionReset.into()) }
    })
}

async fn tcp(host: &str, port: u16) -> Result<TcpStream, Error> {
    let connected = connection::tcp(host, port).await;
    connected.map_err(|source| Error::Tcp {
        to: authority(host, port),
        source,
    })
}

/// The TLS configuration for the proxy; read at each dial, so that a new bundle needs no restart.
async fn trusting(route: &Route) -> Result<Arc<ClientConfig>, String> {
    let Some(path) = &route.ca else {
        return Err("set --proxy-ca-path, or caBundle in the proxyConfig".to_owned());
    };
    let roots = tokio::fs::read(path).await.map_err(error_text)?;
    let pem = Pem {
        roots: Some(roots),
        ..Pem::default()
    };
    let now = runtime::clock::Clock::system().now();
    let material = Material::parse(&pem, now).map_err(error_text)?;
    let roots = material.roots.ok_or("it has no certificate")?;
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(error_text)?
        .with_root_certificates(roots.store())
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn error_text(error: impl StdError + 'static) -> String {
    runtime::error::Chain(&error).to_string()
}

#[cfg(test)]
mod tests {
    use rustls::ServerConfig;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// A proxy behind TLS that accepts any target for one peer; returns the request.
    async fn proxy_once(listener: TcpListener, key: rcgen::CertifiedKey<rcgen::KeyPair>) -> String {
        let chain = vec![key.cert.der().clone()];
        let key = key.signing_key.serialize_der().try_into().unwrap();
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let (tcp, _) = listener.accept().await.unwrap();
        let Ok(mut tls) = acceptor.accept(tcp).await else {
            return String::new();
        };
        let mut asked = vec![];
        while !asked.ends_with(b"\r\n\r\n") {
            asked.push(tls.read_u8().await.unwrap());
        }
        tls.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let byte = tls.read_u8().await.unwrap();
        tls.write_u8(byte).await.unwrap();
        String::from_utf8(asked).unwrap()
    }

    #[tokio::test]
    async fn a_tls_proxy_is_used_only_if_its_certificate_is_trusted() {
        let certificate = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (proxys, other) = (certificate(), certificate());
        let directory = tempfile::tempdir().unwrap();
        for (trusted, is_trusted) in [(proxys.cert.pem(), true), (other.cert.pem(), false)] {
            let path = directory.path().join("ca.crt");
            tokio::fs::write(&path, trusted).await.unwrap();
            let listener = TcpListener::bind(("localhost", 0)).await.unwrap();
            let connector = Connector {
                host: "hub.example".to_owned(),
                port: 8443,
                name: "hub.example".try_into().unwrap(),
                tls: None,
                proxy: Some(Route {
                    host: "localhost".to_owned(),
                    port: listener.local_addr().unwrap().port(),
                    tls: true,
                    credentials: Some("Basic bWU6cEBzcw==".try_into().unwrap()),
                    ca: Some(path.clone()),
                }),
            };
            let key = rcgen::CertifiedKey {
                cert: proxys.cert.clone(),
                signing_key: rcgen::KeyPair::from_pem(&proxys.signing_key.serialize_pem()).unwrap(),
            };
            let echo = async {
                let mut reached = connector.connect(&BOTH).await?;
                reached.io.write_u8(7).await.unwrap();
                Ok::<_, Error>(reached.io.read_u8().await.unwrap())
            };
            let (asked, echoed) = tokio::join!(proxy_once(listener, key), echo);
            if is_trusted {
                assert_eq!(echoed.unwrap(), 7);
                assert!(asked.starts_with("CONNECT hub.example:8443 "), "{asked}");
                assert!(asked.contains("Basic bWU6cEBzcw=="), "{asked}");
            } else {
                assert_eq!(
                    asked, "",
                    "an untrusted proxy gets neither the target nor a password"
                );
                assert!(matches!(echoed.err(), Some(Error::ProxyTls { .. })));
            }
        }
    }

    #[test]
    fn only_an_aborted_handshake_suggests_that_http2_is_blocked() {
        let tls = |error: Tls| Error::Tls {
            to: "hub".to_owned(),
            source: io::Error::new(io::ErrorKind::InvalidData, error),
        };
        let no_protocol = Tls::AlertReceived(AlertDescription::NoApplicationProtocol);
        assert_eq!(tls(no_protocol).outcome(), Outcome::NotGrpc);
        let eof = Error::Tls {
            to: "hub".to_owned(),
            source: io::ErrorKind::UnexpectedEof.into(),
        };
        assert_eq!(eof.outcome(), Outcome::NotGrpc);
        let untrusted = Tls::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        assert_eq!(tls(untrusted).outcome(), Outcome::Unknown);
        let away = Error::Tcp {
            to: "hub".to_owned(),
            source: io::ErrorKind::ConnectionRefused.into(),
        };
        assert_eq!(away.outcome(), Outcome::Unknown);
    }

    #[test]
    fn silent_address_is_a_timeout() {
        for (kind, reason) in [
            (io::ErrorKind::TimedOut, "ConnectTimeout"),
            (io::ErrorKind::ConnectionRefused, "CannotConnect"),
        ] {
            let error = Error::Tcp {
                to: "hub".to_owned(),
                source: kind.into(),
            };
            assert_eq!(error.reason(), reason);
        }
    }
}
