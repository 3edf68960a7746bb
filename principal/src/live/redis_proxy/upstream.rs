//! The hub's own redis: one connection for each client that uses it.

use std::{fmt, io, sync::Arc, time::Duration};

use bytes::BytesMut;
use live::resp::{self, Event, Kind, Limits, Malformed, Scanner, Step, Value};
use runtime::credentials::{ClientTls, login::Login};
use rustls_pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;

use super::{Shared, command::Version, writer::Writer};

/// For connecting, and for pauses within a reply.
const TIMEOUT: Duration = Duration::from_secs(10);
const PIECE: usize = 16 << 10;
/// Replies are streamed, so their size needs no memory.
const LIMITS: Limits = Limits {
    depth: 16,
    elements: 1 << 24,
    line: 64 << 10,
    bytes: 1 << 30,
};

/// Why the hub's redis cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("connect to the hub's redis at {0}")]
    Connect(String, #[source] io::Error),
    #[error("the hub's redis refused the login: {0}")]
    Refused(String),
    #[error("read from or write to the hub's redis")]
    Io(#[from] io::Error),
    #[error("the hub's redis sent an invalid value")]
    Malformed(#[from] Malformed),
    #[error("the hub's redis closed the connection")]
    Closed,
    #[error("the client has not authenticated")]
    NotAuthenticated,
}

/// Why a reply did not reach the client.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotRelayed {
    #[error(transparent)]
    Upstream(#[from] Error),
    #[error("write to the client")]
    Client(#[source] io::Error),
}

/// TCP, or TLS over it.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send + fmt::Debug {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + fmt::Debug> Stream for S {}

/// A connection to the hub's redis.
#[derive(Debug)]
pub(super) struct Upstream {
    io: Box<dyn Stream>,
    buffer: BytesMut,
    scanner: Scanner,
}

impl Upstream {
    pub(super) async fn connect(
        shared: &Shared,
        login: &Login,
        version: Version,
    ) -> Result<Self, Error> {
        let (address, tls) = (&shared.settings.server, shared.server_tls.as_ref());
        let cannot = |error| Error::Connect(address.clone(), error);
        let io = timeout(TIMEOUT, connect_stream(address, tls))
            .await
            .map_err(|late| cannot(late.into()))?
            .map_err(cannot)?;
        let mut upstream = Self {
            io,
            buffer: BytesMut::new(),
            scanner: Scanner::new(LIMITS),
        };
        let password = login.password.as_bytes();
        let auth = match &login.user {
            None => resp::command(&[b"AUTH", password]),
            Some(user) => resp::command(&[b"AUTH", user.as_bytes(), password]),
        };
        upstream.write(&auth).await?;
        let answer = upstream.read_reply().await?;
        if let Some(text) = answer.as_error() {
            let text = String::from_utf8_lossy(text).into_owned();
            // A redis without a password accepts every client; the proxy has authenticated this one.
            if !text.contains("without any password configured") {
                return Err(Error::Refused(text));
            }
        }
        if version == Version::Three {
            upstream.write(&resp::command(&[b"HELLO", b"3"])).await?;
            if let Some(text) = upstream.read_reply().await?.as_error() {
                return Err(Error::Refused(String::from_utf8_lossy(text).into_owned()));
            }
        }
        Ok(upstream)
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let writing = async {
            self.io.write_all(bytes).await?;
            // TLS may still hold some of it.
            self.io.flush().await
        };
        let written = timeout(TIMEOUT, writing).await;
        Ok(written.map_err(io::Error::from)??)
    }

    /// Waits until data arrives. Cancel-safe.
    pub(super) async fn readable(&mut self) -> Result<(), Error> {
        if self.buffer.is_empty() {
            self.fill().await?;
        }
        Ok(())
    }

    /// Relays all pushes before the reply to a command, and the reply.
    pub(super) async fn answer<W: AsyncWrite + Unpin>(
        &mut self,
        into: &mut Writer<W>,
    ) -> Result<(), NotRelayed> {
        while self.relay(into).await? == Some(Kind::Push) {}
        Ok(())
    }

    /// Streams one value, and returns its kind if it is a group.
    pub(super) async fn relay<W: AsyncWrite + Unpin>(
        &mut self,
        into: &mut Writer<W>,
    ) -> Result<Option<Kind>, NotRelayed> {
        let (mut group, mut is_first) = (None, true);
        loop {
            let mut rest = self.buffer.as_ref();
            let before = rest.len();
            let step = self.scanner.step(&mut rest).map_err(Error::from)?;
            let used = before.saturating_sub(rest.len());
            if let (true, Step::Event(event)) = (is_first, step) {
                is_first = false;
                group = match event {
                    Event::Group(kind, _) => Some(kind),
                    Event::Line(_) | Event::Bytes(..) | Event::Data(_) => None,
                };
            }
            let (is_done, is_all) = (step == Step::Done, step == Step::More);
            let used = self.buffer.split_to(used);
            into.bytes(&used).await.map_err(NotRelayed::Client)?;
            if is_done {
                return Ok(group);
            }
            if is_all {
                let filled = timeout(TIMEOUT, self.fill()).await;
                filled.map_err(|late| Error::Io(late.into()))??;
            }
        }
    }

    /// A reply to the proxy itself.
    async fn read_reply(&mut self) -> Result<Value, Error> {
        loop {
            if let Some((value, used)) = resp::decode(&self.buffer, Limits::SMALL)? {
                drop(self.buffer.split_to(used));
                return Ok(value);
            }
            let filled = timeout(TIMEOUT, self.fill()).await;
            filled.map_err(io::Error::from)??;
        }
    }

    async fn fill(&mut self) -> Result<(), Error> {
        self.buffer.reserve(PIECE);
        match self.io.read_buf(&mut self.buffer).await? {
            0 => Err(Error::Closed),
            _ => Ok(()),
        }
    }
}

async fn connect_stream(address: &str, tls: Option<&ClientTls>) -> io::Result<Box<dyn Stream>> {
    let tcp = TcpStream::connect(address).await?;
    tcp.set_nodelay(true)?;
    let Some(tls) = tls else {
        return Ok(Box::new(tcp));
    };
    let config = tls.current();
    let config = config.ok_or_else(|| io::Error::other("the CA of the hub's redis is unknown"))?;
    let mut config = Arc::unwrap_or_clone(config);
    // That of HTTP/2, which redis does not speak.
    config.alpn_protocols.clear();
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned();
    let name = ServerName::try_from(host).map_err(io::Error::other)?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, tcp);
    Ok(Box::new(stream.await?))
}
