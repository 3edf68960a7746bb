//! Connections to host:port, with TLS or without.

use std::io;
use std::sync::Arc;

use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

use crate::credentials::ClientTls;
use crate::net::bracketed;

/// TLS, or TCP.
pub type Stream = Either<Box<TlsStream<TcpStream>>, TcpStream>;

/// Connects to an address (host and port). With TLS the certificate must be for that host; no application protocol is
/// negotiated.
///
/// # Errors
/// The address is unreachable, its certificate is not trusted, or no trusted certificates are loaded yet.
pub async fn connect(address: &str, tls: Option<&ClientTls>) -> io::Result<Stream> {
    let tcp = TcpStream::connect(address).await?;
    tcp.set_nodelay(true)?;
    let Some(tls) = tls else {
        return Ok(Either::Right(tcp));
    };
    let config = tls.current();
    let config = config.ok_or_else(|| io::Error::other("no trusted certificates loaded yet"))?;
    let mut config = Arc::unwrap_or_clone(config);
    // Those of HTTP/2.
    config.alpn_protocols.clear();
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = bracketed(host).unwrap_or(host);
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, tcp);
    Ok(Either::Left(Box::new(stream.await?)))
}
