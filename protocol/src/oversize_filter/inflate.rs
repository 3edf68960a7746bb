//! Inflates one gzip message while it arrives, up to a limit.

use std::io::{self, Write};

use bytes::BytesMut;
use flate2::write::GzDecoder;

/// The inflated part of a message.
#[derive(Debug)]
pub(super) struct Inflating(GzDecoder<Bounded>);

/// A buffer that rejects bytes above its limit.
#[derive(Debug)]
struct Bounded {
    retained: BytesMut,
    most: usize,
}

/// The state of a message after a push.
#[derive(Debug)]
pub(super) enum Pushed {
    /// Incomplete.
    More,
    /// Complete.
    Whole(BytesMut),
    /// Larger than the limit; has the bytes up to the limit.
    Full(BytesMut),
    /// Invalid gzip.
    Broken,
}

impl Inflating {
    /// Inflates a message of at most `most` bytes.
    pub(super) fn new(most: usize) -> Self {
        let retained = BytesMut::new();
        Self(GzDecoder::new(Bounded { retained, most }))
    }

    /// Adds the next bytes. Do not call it again after another result than [`Pushed::More`].
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Pushed {
        while !bytes.is_empty() {
            match self.0.write(bytes) {
                // Readers ignore bytes behind the end of gzip.
                Ok(0) => break,
                Ok(read) => bytes = bytes.get(read..).unwrap_or_default(),
                Err(error) => return self.failed(&error),
            }
        }
        Pushed::More
    }

    /// The input is complete.
    pub(super) fn finish(&mut self) -> Pushed {
        match self.0.try_finish() {
            Ok(()) => Pushed::Whole(self.take()),
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&mut self, error: &io::Error) -> Pushed {
        if error.kind() == io::ErrorKind::WriteZero {
            Pushed::Full(self.take())
        } else {
            Pushed::Broken
        }
    }

    /// Takes the buffered bytes and buffers no more.
    fn take(&mut self) -> BytesMut {
        let bounded = self.0.get_mut();
        bounded.most = 0;
        std::mem::take(&mut bounded.retained)
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.most.saturating_sub(self.retained.len());
        let some = bytes.get(..room).unwrap_or(bytes);
        if some.is_empty() && !bytes.is_empty() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.retained.extend_from_slice(some);
        Ok(some.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use flate2::{Compression, write::GzEncoder};

    use super::*;

    #[test]
    fn inflated_data_above_the_limit_is_dropped() {
        let mut encoder = GzEncoder::new(vec![], Compression::best());
        encoder.write_all(&vec![0; 10 << 20]).unwrap();
        let bomb = encoder.finish().unwrap();
        let mut inflating = Inflating::new(1000);
        let mut pushed = bomb.chunks(7).map(|piece| inflating.push(piece));
        let full = pushed.find(|it| !matches!(it, Pushed::More));
        let Some(Pushed::Full(retained)) = full else {
            panic!("{full:?}")
        };
        assert_eq!(retained.len(), 1000);
    }
}
