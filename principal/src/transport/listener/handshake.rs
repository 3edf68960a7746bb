//! The steps of a TLS handshake, and the metric label of its failure.

use std::{io, sync::Arc};

use rustls::{
    CertificateError, Error as Tls, ServerConfig,
    server::{Accepted, Acceptor},
};
use tokio::{io::AsyncWriteExt as _, net::TcpStream};
use tokio_rustls::{Accept, StartHandshake, server::TlsStream};
use tokio_util::either::Either;

use crate::admission::identity::PeerCertificate;

/// The response to HTTP without TLS.
const SPEAK_TLS: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\
    Content-Length: 54\r\n\r\nThis port speaks TLS; an agent must not use plaintext\n";

/// Bytes of a hello. Those of agents and browsers have at most 5 KiB, with keys for post-quantum exchange.
const LARGEST_HELLO: usize = 16 << 10;

/// A connection behind its handshake: over TLS, or in plaintext where a service mesh has terminated TLS.
pub(crate) type Stream = Either<Box<TlsStream<TcpStream>>, TcpStream>;

/// Waits for the first byte, and answers a peer that speaks HTTP without TLS.
pub(super) async fn first_byte(socket: &mut TcpStream) -> Result<(), &'static str> {
    let mut first = [0];
    let peeked = socket.peek(&mut first).await.map_err(|_gone| "closed")?;
    // A record of TLS begins with 22; a request of HTTP with a capital letter.
    if peeked == 1 && first.iter().all(u8::is_ascii_uppercase) {
        drop(socket.write_all(SPEAK_TLS).await);
        drop(socket.shutdown().await);
        return Err("plain_http");
    }
    Ok(())
}

/// Reads the peer's hello. Cancel-safe for the connection as a whole only.
pub(super) async fn read_hello(socket: &TcpStream) -> Result<Accepted, &'static str> {
    let (mut acceptor, mut read) = (Acceptor::default(), 0_usize);
    loop {
        socket.readable().await.map_err(|_gone| "closed")?;
        read = match acceptor.read_tls(&mut Ready(socket)) {
            Ok(0) => return Err("closed"),
            Ok(count) => read.saturating_add(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(_gone) => return Err("closed"),
        };
        match acceptor.accept() {
            Ok(Some(hello)) => return Ok(hello),
            Ok(None) if read < LARGEST_HELLO => {}
            Ok(None) => return Err("garbage"),
            Err((error, mut alert)) => {
                drop(alert.write_all(&mut Ready(socket)));
                return Err(of_tls(&error));
            }
        }
    }
}

/// Answers the hello: the key exchange at once, the rest when the result is polled.
pub(super) fn answer(
    hello: Accepted,
    config: Arc<ServerConfig>,
    socket: TcpStream,
) -> Accept<TcpStream> {
    StartHandshake::from_parts(hello, socket).into_stream(config)
}

/// The connection behind its handshake, and the certificate that the peer has shown.
pub(super) fn authenticated(
    stream: TlsStream<TcpStream>,
) -> Result<(Stream, Option<PeerCertificate>), &'static str> {
    let (_, state) = stream.get_ref();
    let certificate = match state.peer_certificates() {
        None => None,
        Some(chain) => Some(PeerCertificate::from_chain(chain).ok_or("no_certificate")?),
    };
    Ok((Stream::Left(Box::new(stream)), certificate))
}

/// Reads and writes what is possible without waiting.
struct Ready<'a>(&'a TcpStream);

impl io::Read for Ready<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buffer)
    }
}

impl io::Write for Ready<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The metric label of a failed handshake. Bytes that are not TLS are `garbage`.
pub(super) fn outcome(error: &io::Error) -> &'static str {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref());
    tls.map_or("closed", of_tls)
}

fn of_tls(tls: &Tls) -> &'static str {
    if matches!(tls, Tls::NoCertificatesPresented) {
        return "no_certificate";
    }
    if let Tls::InvalidCertificate(reason) = tls {
        return certificate(reason);
    }
    if matches!(tls, Tls::AlertReceived(_)) {
        return "refused_by_peer";
    }
    if matches!(tls, Tls::PeerIncompatible(_) | Tls::NoApplicationProtocol) {
        return "incompatible";
    }
    if matches!(
        tls,
        Tls::InvalidMessage(_)
            | Tls::InappropriateMessage { .. }
            | Tls::InappropriateHandshakeMessage { .. }
            | Tls::PeerMisbehaved(_)
            | Tls::DecryptError
            | Tls::PeerSentOversizedRecord
    ) {
        return "garbage";
    }
    "other"
}

fn certificate(reason: &CertificateError) -> &'static str {
    if matches!(
        reason,
        CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. }
    ) {
        return "expired";
    }
    if matches!(reason, CertificateError::BadEncoding) {
        return "garbage";
    }
    "untrusted"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tls_failure_has_a_metric_label() {
        let word = |tls: Tls| outcome(&io::Error::new(io::ErrorKind::InvalidData, tls));
        assert_eq!(word(Tls::NoCertificatesPresented), "no_certificate");
        assert_eq!(
            word(Tls::InvalidCertificate(CertificateError::Expired)),
            "expired"
        );
        assert_eq!(
            word(Tls::InvalidCertificate(CertificateError::UnknownIssuer)),
            "untrusted"
        );
        assert_eq!(word(Tls::PeerSentOversizedRecord), "garbage");
        assert_eq!(word(Tls::DecryptError), "garbage");
        assert_eq!(
            outcome(&io::Error::from(io::ErrorKind::UnexpectedEof)),
            "closed"
        );
    }
}
