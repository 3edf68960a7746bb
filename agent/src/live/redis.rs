//! A read-only client of this cluster's redis, Argo CD's cache of Applications.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::Stream;
use futures::stream::try_unfold;
use live::resp::{self, Event, Kind, Limits, Malformed, Scanner, Step, Value};
use runtime::connection::{self, Stream as Io};
use runtime::credentials::login::Login;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

/// Timeout of a connection and of each answer: less than the hub's.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of each piece of a value.
const PAUSE: Duration = Duration::from_secs(30);
/// Interval and timeout of pings on a subscription.
const PING: Duration = Duration::from_secs(30);
const PIECE: usize = 64 << 10;
/// Bounds of a value; the agent streams it, so its size costs no memory.
const LIMITS: Limits = Limits {
    depth: 4,
    elements: 64,
    line: 8 << 10,
    bytes: 1 << 30,
};

/// Why a request to redis failed; what an administrator can repair names the variables to set.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("connect to redis at {0} (if this is wrong, set REDIS_ADDR, or REDIS_TLS for TLS)")]
    Connect(String, #[source] io::Error),
    #[error(
        "redis at {0} refused the login (if another one is right, set REDIS_SECRET, REDIS_SECRET_KEY or \
         REDIS_USERNAME): {1}"
    )]
    Login(String, String),
    #[error("redis refused the request: {0}")]
    Refused(String),
    #[error("read from or write to redis")]
    Talk(#[from] io::Error),
    #[error("redis sent an invalid value")]
    Malformed(#[from] Malformed),
    #[error("redis sent an unexpected message")]
    Unexpected,
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        Self::other(error)
    }
}

/// Argo CD's redis.
#[derive(Debug)]
pub struct Redis(redis_discovery::Redis);

/// A value that is being read.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) length: u64,
    connection: Connection,
}

/// The messages of a channel.
#[derive(Debug)]
pub(crate) struct Messages(Connection);

impl Redis {
    /// A client of this redis.
    pub const fn new(redis: redis_discovery::Redis) -> Self {
        Self(redis)
    }

    /// The value of a key, if it has one.
    pub(crate) async fn get(&self, key: &str) -> Result<Option<Found>, Error> {
        let mut connection = self.connect().await?;
        let asking = async {
            connection.send(&[b"GET", key.as_bytes()]).await?;
            connection.length().await
        };
        let length = timeout(RESPONSE_TIMEOUT, asking).await.map_err(late)??;
        Ok(length.map(|length| Found { length, connection }))
    }

    /// Subscribes to the messages of a channel.
    pub(crate) async fn subscribe(&self, channel: &str) -> Result<Messages, Error> {
        let mut connection = self.connect().await?;
        let answer = connection.ask(&[b"SUBSCRIBE", channel.as_bytes()]).await?;
        if is_word(&answer, "subscribe") {
            Ok(Messages(connection))
        } else {
            Err(Error::Unexpected)
        }
    }

    async fn connect(&self) -> Result<Connection, Error> {
        let address = self.0.address();
        let cannot = |error| Error::Connect(address.clone(), error);
        let connecting = connection::connect(&address, self.0.tls());
        let io = timeout(RESPONSE_TIMEOUT, connecting)
            .await
            .map_err(|late| cannot(late.into()))?
            .map_err(cannot)?;
        let mut connection = Connection {
            io,
            buffer: BytesMut::new(),
            scanner: Scanner::new(LIMITS),
        };
        let login = self.0.login();
        match connection.log_in(login.as_deref()).await {
            Err(Error::Refused(text)) if text.contains("without any password configured") => {
                Ok(connection)
            }
            Err(Error::Refused(text)) => {
                self.0.refused();
                Err(Error::Login(address, text))
            }
            // A redis with TLS ends a connection without it in this way.
            Err(error @ (Error::Talk(_) | Error::Malformed(_))) => Err(cannot(error.into())),
            Err(error) => Err(error),
            Ok(_) => Ok(connection),
        }
    }
}

impl Found {
    /// A stream of its bytes.
    pub(crate) fn into_bytes(self) -> impl Stream<Item = io::Result<Bytes>> + Send {
        try_unfold(self.connection, |mut connection| async move {
            let piece = timeout(PAUSE, connection.piece()).await.map_err(late)??;
            Ok(piece.map(|piece| (piece, connection)))
        })
    }
}

impl Messages {
    /// A byte for each message.
    pub(crate) fn into_bytes(self) -> impl Stream<Item = io::Result<Bytes>> + Send {
        try_unfold(self.0, |mut connection| async move {
            let mut is_asked = false;
            loop {
                match timeout(PING, connection.value()).await {
                    Ok(value) => {
                        // Any answer shows that redis is alive.
                        is_asked = false;
                        if is_word(&value?, "message") {
                            return Ok(Some((Bytes::from_static(b"\n"), connection)));
                        }
                    }
                    Err(late) if is_asked => return Err(late.into()),
                    Err(_) => {
                        is_asked = true;
                        connection.send(&[b"PING"]).await?;
                    }
                }
            }
        })
    }
}

/// A part of a value.
enum Part {
    /// The length; none for a missing value.
    Length(Option<u64>),
    Data,
    End,
}

#[derive(Debug)]
struct Connection {
    io: Io,
    buffer: BytesMut,
    scanner: Scanner,
}

impl Connection {
    async fn send(&mut self, words: &[&[u8]]) -> io::Result<()> {
        self.io.write_all(&resp::command(words)).await?;
        // TLS may still have some of it.
        self.io.flush().await
    }

    /// Authenticates; without a login, shows whether redis needs one.
    async fn log_in(&mut self, login: Option<&Login>) -> Result<Value, Error> {
        let Some(login) = login else {
            return self.ask(&[b"PING"]).await;
        };
        let password = login.password.as_bytes();
        match &login.user {
            None => self.ask(&[b"AUTH", password]).await,
            Some(user) => self.ask(&[b"AUTH", user.as_bytes(), password]).await,
        }
    }

    /// Sends a command and reads a small answer.
    async fn ask(&mut self, words: &[&[u8]]) -> Result<Value, Error> {
        let asking = async {
            self.send(words).await?;
            self.value().await
        };
        let answer = timeout(RESPONSE_TIMEOUT, asking).await.map_err(late)??;
        match answer.as_error() {
            None => Ok(answer),
            Some(text) => Err(Error::Refused(String::from_utf8_lossy(text).into_owned())),
        }
    }

    /// The length of a value; none if the key has none.
    async fn length(&mut self) -> Result<Option<u64>, Error> {
        match self.part().await? {
            (Part::Length(length), _) => Ok(length),
            (Part::Data | Part::End, _) => Err(Error::Unexpected),
        }
    }

    /// The next bytes of a value; none at its end.
    async fn piece(&mut self) -> Result<Option<Bytes>, Error> {
        match self.part().await? {
            (Part::Data, bytes) => Ok(Some(bytes)),
            (Part::End, _) => Ok(None),
            (Part::Length(_), _) => Err(Error::Unexpected),
        }
    }

    /// The next part of a value, and its bytes.
    async fn part(&mut self) -> Result<(Part, Bytes), Error> {
        loop {
            let mut rest = self.buffer.as_ref();
            let before = rest.len();
            let part = match self.scanner.step(&mut rest)? {
                Step::Event(Event::Bytes(Kind::Bulk, length)) => Some(Part::Length(length)),
                Step::Event(Event::Data(_)) => Some(Part::Data),
                Step::Event(Event::Line(Kind::Error)) => {
                    let text = String::from_utf8_lossy(self.scanner.text());
                    return Err(Error::Refused(text.into_owned()));
                }
                Step::Event(_) => return Err(Error::Unexpected),
                Step::Done => Some(Part::End),
                Step::More => None,
            };
            let used = before.saturating_sub(rest.len());
            let bytes = self.buffer.split_to(used);
            match part {
                Some(part) => return Ok((part, bytes.freeze())),
                None => self.fill().await?,
            }
        }
    }

    /// A small value as a whole. Cancel-safe.
    async fn value(&mut self) -> Result<Value, Error> {
        loop {
            if let Some((value, used)) = resp::decode(&self.buffer, Limits::SMALL)? {
                drop(self.buffer.split_to(used));
                return Ok(value);
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> io::Result<()> {
        self.buffer.reserve(PIECE);
        match self.io.read_buf(&mut self.buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

fn is_word(value: &Value, word: &str) -> bool {
    let first = value.elements().first().and_then(Value::as_bytes);
    first == Some(word.as_bytes())
}

fn late(late: tokio::time::error::Elapsed) -> Error {
    Error::Talk(late.into())
}

#[cfg(test)]
mod tests;
