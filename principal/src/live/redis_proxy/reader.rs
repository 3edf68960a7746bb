//! Reads the commands of a client from a stream.

use std::io;

use bytes::BytesMut;
use live::resp::{Event, Kind, Limits, Malformed, Scanner, Step};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The parsed part of a command: the rest is streamed.
pub(super) const KEPT: usize = 64 << 10;
/// Bytes per read.
const PIECE: usize = 16 << 10;
/// A command and its largest argument; redis itself takes no more.
const LIMITS: Limits = Limits {
    depth: 1,
    elements: 1024,
    line: 64,
    bytes: 512 << 20,
};

/// A command as received.
#[derive(Debug, Default)]
pub(super) struct RawCommand {
    /// Its complete words.
    pub(super) words: Vec<Vec<u8>>,
    /// All bytes that were read.
    pub(super) bytes: Vec<u8>,
    /// Whether this is all of it.
    pub(super) is_whole: bool,
}

/// Why there is no further command.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("read from the client")]
    Read(#[from] io::Error),
    #[error("Protocol error: {0}")]
    Malformed(#[from] Malformed),
    #[error("Protocol error: a command is an array of bulk strings")]
    NoCommand,
}

/// Reads commands.
#[derive(Debug)]
pub(super) struct Reader<R> {
    io: R,
    buffer: BytesMut,
    scanner: Scanner,
    raw: RawCommand,
    /// The word that is read, and how much of it is left.
    word: Vec<u8>,
    left: u64,
    /// Whether a command has begun.
    is_open: bool,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(super) fn new(io: R) -> Self {
        Self {
            io,
            buffer: BytesMut::new(),
            scanner: Scanner::new(LIMITS),
            raw: RawCommand::default(),
            word: vec![],
            left: 0,
            is_open: false,
        }
    }

    /// The next command; none when the client is gone. Cancel-safe.
    ///
    /// Of a large one the rest is to be had with [`Self::more`], and must be before the next.
    pub(super) async fn command(&mut self) -> Result<Option<RawCommand>, Unreadable> {
        loop {
            if let Some(raw) = self.advance()? {
                return Ok(Some(raw));
            }
            if !self.fill().await? {
                return Ok(None);
            }
        }
    }

    /// More of a large command into `into`; true if that is all of it.
    pub(super) async fn more(&mut self, into: &mut Vec<u8>) -> Result<bool, Unreadable> {
        loop {
            let mut rest = self.buffer.as_ref();
            let before = rest.len();
            let mut is_whole = false;
            loop {
                match self.scanner.step(&mut rest)? {
                    Step::Event(Event::Bytes(Kind::Bulk, Some(_)) | Event::Data(_)) => {}
                    Step::Event(_) => return Err(Unreadable::NoCommand),
                    Step::More => break,
                    Step::Done => {
                        is_whole = true;
                        break;
                    }
                }
            }
            let used = before.saturating_sub(rest.len());
            into.extend_from_slice(&self.buffer.split_to(used));
            self.is_open &= !is_whole;
            if is_whole || used > 0 {
                return Ok(is_whole);
            }
            if !self.fill().await? {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }

    async fn fill(&mut self) -> io::Result<bool> {
        self.buffer.reserve(PIECE);
        Ok(self.io.read_buf(&mut self.buffer).await? > 0)
    }

    /// What is read, up to the end of a command; none if that is not read yet.
    fn advance(&mut self) -> Result<Option<RawCommand>, Unreadable> {
        loop {
            let mut rest = self.buffer.as_ref();
            let before = rest.len();
            let step = self.scanner.step(&mut rest)?;
            let used = before.saturating_sub(rest.len());
            let (is_done, is_all) = (step == Step::Done, step == Step::More);
            match step {
                Step::Event(Event::Group(Kind::Array, Some(1..))) => self.is_open = true,
                Step::Event(_) if !self.is_open => return Err(Unreadable::NoCommand),
                Step::Event(Event::Bytes(Kind::Bulk, Some(0))) => self.raw.words.push(vec![]),
                Step::Event(Event::Bytes(Kind::Bulk, Some(length))) => self.left = length,
                Step::Event(Event::Data(data)) => {
                    self.word.extend_from_slice(data);
                    let length = u64::try_from(data.len()).unwrap_or(u64::MAX);
                    self.left = self.left.saturating_sub(length);
                    if self.left == 0 {
                        self.raw.words.push(std::mem::take(&mut self.word));
                    }
                }
                Step::Event(_) => return Err(Unreadable::NoCommand),
                Step::Done => self.is_open = false,
                Step::More => {}
            }
            let used = self.buffer.split_to(used);
            self.raw.bytes.extend_from_slice(&used);
            if is_done {
                self.raw.is_whole = true;
                return Ok(Some(std::mem::take(&mut self.raw)));
            }
            if self.raw.bytes.len() > KEPT {
                // The rest of its words is passed on as it comes.
                self.word = vec![];
                return Ok(Some(std::mem::take(&mut self.raw)));
            }
            if is_all {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use live::resp;

    use super::*;

    #[tokio::test]
    async fn small_commands_are_read_whole_and_large_ones_streamed() {
        let large = vec![b'x'; 3 * KEPT];
        let mut bytes = resp::command(&[b"get", b"a"]);
        bytes.extend(resp::command(&[b"set", b"a|b", &large, b"ex", b"60"]));
        bytes.extend(resp::command(&[b"ping"]));
        // A pipe that carries little at once.
        let (mut client, ours) = tokio::io::duplex(1000);
        let sent = bytes.clone();
        let writing = async move {
            tokio::io::AsyncWriteExt::write_all(&mut client, &sent)
                .await
                .unwrap();
        };
        let reading = async {
            let mut reader = Reader::new(ours);
            let first = reader.command().await.unwrap().unwrap();
            assert!(first.is_whole);
            assert_eq!(first.words, [b"get".to_vec(), b"a".to_vec()]);
            let second = reader.command().await.unwrap().unwrap();
            assert!(!second.is_whole && second.bytes.len() < 2 * KEPT);
            assert_eq!(second.words, [b"set".to_vec(), b"a|b".to_vec()]);
            let mut all = second.bytes;
            while !reader.more(&mut all).await.unwrap() {}
            let third = reader.command().await.unwrap().unwrap();
            assert_eq!(third.words, [b"ping".to_vec()]);
            assert!(reader.command().await.unwrap().is_none());
            [first.bytes, all, third.bytes].concat()
        };
        let ((), read) = tokio::join!(writing, reading);
        assert_eq!(read, bytes);
    }

    #[tokio::test]
    async fn invalid_commands_end_the_connection() {
        for bytes in [
            &b"GET a\r\n"[..],
            b"*0\r\n",
            b"*-1\r\n",
            b"*1\r\n*1\r\n",
            b"*1\r\n:1\r\n",
            b"*1\r\n$-1\r\n",
            b"+OK\r\n",
            b"*1025\r\n",
            b"$3\r\nget\r\n",
        ] {
            let result = Reader::new(bytes).command().await;
            let shown = bytes.escape_ascii().to_string();
            let why = result.unwrap_err();
            assert!(!matches!(why, Unreadable::Read(_)), "{shown}");
        }
    }
}
