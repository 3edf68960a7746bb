//! Connections to host:port, with TLS or without.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;
use tower::{BoxError, Service, ServiceExt as _};

use crate::credentials::ClientTls;
use crate::net::{authority, host_and_port};

/// TLS, or TCP.
pub type Stream = Either<Box<TlsStream<TcpStream>>, TcpStream>;

/// How long the addresses of one family may take together. Each gets an equal share, so that a silent one leaves time for
/// the next.
const FAMILY: Duration = Duration::from_secs(10);
/// How long the family of the first address is alone, as RFC 8305 (section 8) recommends.
const HEAD_START: Duration = Duration::from_millis(250);

/// Connects to a host (a name, or an address without brackets) by TCP, without delay for small messages.
///
/// Where a name has addresses of both families, the resolver's first choice is tried at once, and the other family beside
/// it after a quarter of a second or its failure (happy eyeballs); the first connection wins. So a family without a
/// working route costs a fraction of a second, and there are never more than two attempts at a time.
///
/// # Errors
/// The name is unknown, or no address is reachable.
pub async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    by(HttpConnector::new(), FAMILY, host, port).await
}

async fn by<R>(
    mut connector: HttpConnector<R>,
    family: Duration,
    host: &str,
    port: u16,
) -> io::Result<TcpStream>
where
    HttpConnector<R>: Service<Uri, Response = TokioIo<TcpStream>, Error: Into<BoxError>>,
{
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(family));
    connector.set_happy_eyeballs_timeout(Some(HEAD_START));
    let to = Uri::builder()
        .scheme("http")
        .authority(authority(host, port))
        .path_and_query("/")
        .build()
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let connected = connector.oneshot(to).await;
    connected
        .map(TokioIo::into_inner)
        .map_err(|error| system_error(error.into()))
}

/// The error of the system, whose kind and text users know, without the texts of the library around it.
fn system_error(error: BoxError) -> io::Error {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(&*error);
    while let Some(at) = cause {
        if let Some(system) = at.downcast_ref::<io::Error>() {
            return match system.raw_os_error() {
                Some(code) => io::Error::from_raw_os_error(code),
                None if system.kind() == io::ErrorKind::TimedOut => io::ErrorKind::TimedOut.into(),
                None => io::Error::new(system.kind(), system.to_string()),
            };
        }
        cause = at.source();
    }
    io::Error::other(error)
}

/// Connects to an address (host and port). With TLS the certificate must be for that host; no application protocol is
/// negotiated.
///
/// # Errors
/// The address is unreachable, its certificate is not trusted, or no trusted certificates are loaded yet.
pub async fn connect(address: &str, tls: Option<&ClientTls>) -> io::Result<Stream> {
    let (host, port) = host_and_port(address, None)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "expected host:port"))?;
    let tcp = tcp(host, port).await?;
    let Some(tls) = tls else {
        return Ok(Either::Right(tcp));
    };
    let config = tls.current();
    let config = config.ok_or_else(|| io::Error::other("no trusted certificates loaded yet"))?;
    let mut config = Arc::unwrap_or_clone(config);
    // Those of HTTP/2.
    config.alpn_protocols.clear();
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, tcp);
    Ok(Either::Left(Box::new(stream.await?)))
}

#[cfg(test)]
mod tests;
