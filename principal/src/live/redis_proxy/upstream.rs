//! The hub's own redis: one connection for each client that uses it.

use std::{borrow::Cow, io, time::Duration};

use bytes::BytesMut;
use live::resp::{self, Event, Kind, Limits, Scanner, Step};
use runtime::{
    connection::{self, Stream},
    credentials::login::Login,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};

use super::{
    command::Version,
    error::{Ended, UpstreamError},
    shared::Shared,
    writer::Writer,
};

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

/// A connection to the hub's redis.
#[derive(Debug)]
pub(super) struct Upstream {
    io: Stream,
    buffer: BytesMut,
    scanner: Scanner,
}

impl Upstream {
    pub(super) async fn connect(
        shared: &Shared,
        login: &Login,
        version: Version,
    ) -> Result<Self, UpstreamError> {
        let (address, tls) = (shared.server.address(), shared.server.tls());
        let cannot = |error| UpstreamError::Connect(address.clone(), error);
        let io = timeout(TIMEOUT, connection::connect(&address, tls))
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
        // A redis without a password accepts every client; the proxy has authenticated this one.
        let has_no_password = |text: &String| text.contains("without any password configured");
        let refused = upstream.command(&auth).await?;
        if let Some(text) = refused.filter(|text| !has_no_password(text)) {
            shared.server.refused();
            return Err(UpstreamError::Refused(text));
        }
        if version == Version::Three
            && let Some(text) = upstream.command(&resp::command(&[b"HELLO", b"3"])).await?
        {
            return Err(UpstreamError::Refused(text));
        }
        Ok(upstream)
    }

    /// Sends a command of the proxy itself; returns the error that is its reply.
    async fn command(&mut self, command: &[u8]) -> Result<Option<String>, UpstreamError> {
        self.write(command).await?;
        loop {
            if let Some((value, used)) = resp::decode(&self.buffer, Limits::SMALL)? {
                drop(self.buffer.split_to(used));
                let error = value.as_error().map(String::from_utf8_lossy);
                return Ok(error.map(Cow::into_owned));
            }
            let filled = timeout(TIMEOUT, self.fill()).await;
            filled.map_err(io::Error::from)??;
        }
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), UpstreamError> {
        let writing = async {
            self.io.write_all(bytes).await?;
            // TLS may still hold some of it.
            self.io.flush().await
        };
        let written = timeout(TIMEOUT, writing).await;
        Ok(written.map_err(io::Error::from)??)
    }

    /// Waits until data arrives. Cancel-safe.
    pub(super) async fn readable(&mut self) -> Result<(), UpstreamError> {
        if self.buffer.is_empty() {
            self.fill().await?;
        }
        Ok(())
    }

    /// Relays all pushes before the reply to a command, and the reply.
    pub(super) async fn answer<W: AsyncWrite + Unpin>(
        &mut self,
        into: &mut Writer<W>,
    ) -> Result<(), Ended> {
        while self.relay(into).await? == Some(Kind::Push) {}
        Ok(())
    }

    /// Streams one value, and returns its kind if it is a group.
    pub(super) async fn relay<W: AsyncWrite + Unpin>(
        &mut self,
        into: &mut Writer<W>,
    ) -> Result<Option<Kind>, Ended> {
        let (mut group, mut is_first) = (None, true);
        loop {
            let mut rest = self.buffer.as_ref();
            let before = rest.len();
            let step = self.scanner.step(&mut rest).map_err(UpstreamError::from)?;
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
            into.bytes(&used).await?;
            if is_done {
                return Ok(group);
            }
            if is_all {
                let filled = timeout(TIMEOUT, self.fill()).await;
                filled.map_err(|late| UpstreamError::Io(late.into()))??;
            }
        }
    }

    async fn fill(&mut self) -> Result<(), UpstreamError> {
        self.buffer.reserve(PIECE);
        match self.io.read_buf(&mut self.buffer).await? {
            0 => Err(UpstreamError::Closed),
            _ => Ok(()),
        }
    }
}
