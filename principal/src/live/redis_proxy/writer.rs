//! Writes replies to a client.

use std::{io, time::Duration};

use live::resp::{Kind, Value};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _, BufWriter},
    time::timeout,
};

use super::command::Version;

/// The prefix of redis at which clients retry.
const BUSY: &str = "TRYAGAIN too many requests at the same time";
/// The connection of a client that does not read for this time is closed.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Writes to a client, with a timeout.
#[derive(Debug)]
pub(super) struct Writer<W: AsyncWrite> {
    io: BufWriter<W>,
    pub(super) version: Version,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    pub(super) fn new(io: W) -> Self {
        Self {
            io: BufWriter::new(io),
            version: Version::default(),
        }
    }

    /// Some bytes, which may stay here until [`Self::flush`].
    pub(super) async fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        timeout(WRITE_TIMEOUT, self.io.write_all(bytes)).await?
    }

    /// The begin of a bulk string of this length.
    pub(super) async fn begin_bulk(&mut self, length: usize) -> io::Result<()> {
        self.bytes(format!("${length}\r\n").as_bytes()).await
    }

    pub(super) async fn flush(&mut self) -> io::Result<()> {
        timeout(WRITE_TIMEOUT, self.io.flush()).await?
    }

    pub(super) async fn value(&mut self, value: &Value) -> io::Result<()> {
        self.bytes(&value.to_bytes()).await
    }

    pub(super) async fn error(&mut self, text: &str) -> io::Result<()> {
        self.value(&Value::error(text)).await
    }

    /// Too many requests: the client retries.
    pub(super) async fn busy(&mut self) -> io::Result<()> {
        self.error(BUSY).await
    }

    /// A key that has no value, which is no error.
    pub(super) async fn null(&mut self) -> io::Result<()> {
        self.value(&self.nothing()).await
    }

    pub(super) const fn nothing(&self) -> Value {
        match self.version {
            Version::Two => Value::Nothing(Kind::Bulk),
            Version::Three => Value::Line(Kind::Null, vec![]),
        }
    }

    /// A push message.
    pub(super) async fn push(&mut self, elements: Vec<Value>) -> io::Result<()> {
        let kind = match self.version {
            Version::Two => Kind::Array,
            Version::Three => Kind::Push,
        };
        self.value(&Value::Group(kind, elements)).await
    }

    /// The reply to HELLO.
    pub(super) async fn hello(&mut self) -> io::Result<()> {
        let (kind, number) = match self.version {
            Version::Two => (Kind::Array, 2),
            Version::Three => (Kind::Map, 3),
        };
        let facts = [
            ("server", Value::bytes("redis")),
            // Of the language, and older than what clients ask for beyond it.
            ("version", Value::bytes("7.0.0")),
            ("proto", Value::integer(number)),
            ("id", Value::integer(1)),
            ("mode", Value::bytes("standalone")),
            ("role", Value::bytes("master")),
            ("modules", Value::Group(Kind::Array, vec![])),
        ];
        let facts = facts.into_iter();
        let facts = facts.flat_map(|(name, fact)| [Value::bytes(name), fact]);
        self.value(&Value::Group(kind, facts.collect())).await
    }
}
