//! gRPC over `WebSocket`s, as in the library of the Go implementation. Pure.
//!
//! Each call has a socket of its own, and each binary message is one frame: a flag byte, the length in four bytes,
//! and the content. A client sends data frames and [`END`]; a server sends one metadata frame with the headers,
//! then data frames, then one metadata frame with the trailers. Headers with a `grpc-status` are trailers too.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};

mod long;

pub use long::LongFrames;

/// The subprotocol in `Sec-WebSocket-Protocol`.
pub const SUBPROTOCOL: &str = "grpc-ws";
/// The last frame of a client.
pub const END: [u8; HEADER] = [METADATA, 0, 0, 0, 0];

/// Flag and length.
const HEADER: usize = 5;
const METADATA: u8 = 0x80;
const COMPRESSED: u8 = 1;
/// The most lines of metadata; no gRPC server sends as many.
const MOST_LINES: usize = 128;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A gRPC message, flag and length included.
    Data(Bytes),
    /// Headers or trailers; the end, if empty and from a client.
    Metadata(Bytes),
}

/// Why bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Too short for flag and length.
    #[error("a frame of fewer than {HEADER} bytes")]
    Short,
    /// The length in the header is wrong.
    #[error("a frame with a wrong length")]
    Length,
    /// A message is longer than allowed.
    #[error("a gRPC message that is too long")]
    TooLong,
    /// Compressed metadata, which the protocol does not have.
    #[error("compressed metadata")]
    Compressed,
    /// Lines that are not `key: value`.
    #[error("metadata that cannot be read")]
    Metadata,
}

impl Frame {
    /// Reads one binary message.
    pub fn read(message: Bytes) -> Result<Self, Malformed> {
        let (flag, length) = header(&message).ok_or(Malformed::Short)?;
        if message.len() - HEADER != length {
            return Err(Malformed::Length);
        }
        if flag & METADATA == 0 {
            return Ok(Self::Data(message));
        }
        if flag & COMPRESSED != 0 {
            return Err(Malformed::Compressed);
        }
        Ok(Self::Metadata(message.slice(HEADER..)))
    }
}

fn header(bytes: &[u8]) -> Option<(u8, usize)> {
    let (flag, rest) = bytes.split_first()?;
    let length = rest.first_chunk::<4>()?;
    Some((*flag, usize::try_from(u32::from_be_bytes(*length)).ok()?))
}

/// Encodes headers or trailers as a metadata frame.
pub fn metadata(headers: &HeaderMap) -> Bytes {
    let lines: Vec<u8> = headers
        .iter()
        .flat_map(|(name, value)| {
            [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat()
        })
        .collect();
    let mut message = BytesMut::with_capacity(HEADER + lines.len());
    message.put_u8(METADATA);
    message.put_u32(u32::try_from(lines.len()).unwrap_or(u32::MAX));
    message.put_slice(&lines);
    message.freeze()
}

/// Reads the lines of a metadata frame.
pub fn read_metadata(lines: &[u8]) -> Result<HeaderMap, Malformed> {
    let mut headers = HeaderMap::new();
    let lines = lines
        .split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    for (number, line) in lines.filter(|line| !line.is_empty()).enumerate() {
        if number >= MOST_LINES {
            return Err(Malformed::Metadata);
        }
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let (Some(name), Some(value)) = (parts.next(), parts.next()) else {
            return Err(Malformed::Metadata);
        };
        let name = HeaderName::from_bytes(name).map_err(|_invalid| Malformed::Metadata)?;
        let value = HeaderValue::from_bytes(value.trim_ascii());
        let value = value.map_err(|_invalid| Malformed::Metadata)?;
        headers.append(name, value);
    }
    Ok(headers)
}

/// Splits the body of a gRPC request or response, which arrives in pieces of any size, into its messages.
#[derive(Debug)]
pub struct Cutter {
    waiting: BytesMut,
    longest: usize,
}

impl Cutter {
    /// Rejects messages that are longer than `longest`.
    pub fn new(longest: usize) -> Self {
        Self {
            waiting: BytesMut::new(),
            longest,
        }
    }

    /// Adds the next piece.
    pub fn push(&mut self, piece: &[u8]) {
        self.waiting.extend_from_slice(piece);
    }

    /// The next whole message, flag and length included.
    pub fn cut(&mut self) -> Result<Option<Bytes>, Malformed> {
        let Some((_, length)) = header(&self.waiting) else {
            return Ok(None);
        };
        if length > self.longest {
            return Err(Malformed::TooLong);
        }
        if self.waiting.remaining() < HEADER + length {
            return Ok(None);
        }
        Ok(Some(self.waiting.split_to(HEADER + length).freeze()))
    }

    /// Whether the input so far ends with a whole message.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// The size on the socket of a message of `longest` bytes.
pub const fn framed(longest: usize) -> usize {
    longest.saturating_add(HEADER)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        pairs.collect()
    }

    /// Headers and trailers of a response, as Go's server writes them.
    const GO_TRAILERS: &[u8] =
        b"\x80\x00\x00\x00\x2aGrpc-Message: version%0A\r\nGrpc-Status: 9\r\n";

    #[test]
    fn gos_trailers_are_read() {
        let Ok(Frame::Metadata(lines)) = Frame::read(Bytes::from_static(GO_TRAILERS)) else {
            panic!("metadata")
        };
        let read = read_metadata(&lines).unwrap();
        assert_eq!(
            read,
            headers(&[("grpc-status", "9"), ("grpc-message", "version%0A")])
        );
    }

    #[test]
    fn metadata_are_lines_behind_a_flag_and_a_length() {
        let written = metadata(&headers(&[("grpc-status", "0")]));
        assert_eq!(&written[..], b"\x80\x00\x00\x00\x10grpc-status: 0\r\n");
        assert_eq!(&metadata(&HeaderMap::new())[..], END);
    }

    #[test]
    fn a_data_frame_is_a_grpc_message() {
        let message = Bytes::from_static(b"\x00\x00\x00\x00\x02hi");
        assert_eq!(Frame::read(message.clone()), Ok(Frame::Data(message)));
        assert_eq!(
            Frame::read(Bytes::copy_from_slice(&END)),
            Ok(Frame::Metadata(Bytes::new()))
        );
    }

    #[test]
    fn invalid_frames_are_rejected_with_a_reason() {
        for (bytes, why) in [
            (&b""[..], Malformed::Short),
            (b"\x00\x00\x00\x00", Malformed::Short),
            (b"\x00\x00\x00\x00\x02h", Malformed::Length),
            (b"\x00\x00\x00\x00\x02hij", Malformed::Length),
            (b"\x81\x00\x00\x00\x00", Malformed::Compressed),
        ] {
            assert_eq!(
                Frame::read(Bytes::from_static(bytes)),
                Err(why),
                "{bytes:?}"
            );
        }
        let many = "a: b\r\n".repeat(MOST_LINES + 1);
        for lines in ["no colon", ": no name", "a b: space", &many] {
            assert_eq!(
                read_metadata(lines.as_bytes()),
                Err(Malformed::Metadata),
                "{lines:?}"
            );
        }
    }

    #[test]
    fn oversized_message_is_rejected_by_its_header() {
        let mut cutter = Cutter::new(10);
        cutter.push(b"\x00\x00\x00\x00\x0b");
        assert_eq!(cutter.cut(), Err(Malformed::TooLong));
    }

    proptest! {
        #[test]
        fn messages_come_out_as_they_were_however_they_were_cut(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8),
            size in 1_usize..60,
        ) {
            let framed: Vec<Vec<u8>> = messages.iter().map(|body| {
                let mut message = vec![0];
                message.extend_from_slice(&u32::try_from(body.len()).unwrap().to_be_bytes());
                message.extend_from_slice(body);
                message
            }).collect();
            let mut cutter = Cutter::new(64);
            let mut out: Vec<Vec<u8>> = vec![];
            for piece in framed.concat().chunks(size) {
                cutter.push(piece);
                while let Some(message) = cutter.cut().unwrap() {
                    out.push(message.to_vec());
                }
            }
            prop_assert!(cutter.is_empty());
            prop_assert_eq!(out, framed);
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(Frame::Metadata(lines)) = Frame::read(Bytes::from(bytes.clone())) {
                drop(read_metadata(&lines));
            }
            drop(read_metadata(&bytes));
        }
    }
}
