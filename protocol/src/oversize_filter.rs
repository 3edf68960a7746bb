//! Removes the data of responses that exceed the message limit, while they arrive.
//!
//! A Go agent may send a response of 200 MiB in one message, and resends it on every connection until it is acknowledged.
//! The filter passes the attributes of such a message without its data, so that the session can acknowledge it. Pure;
//! bytes go in and out.
//!
//! The size of a compressed message is known only after inflation. So the filter inflates it while it arrives, up to the
//! limit, and passes it on uncompressed.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::HeaderMap;
use prost::encoding::{
    WireType, decode_key, decode_varint, encode_key, encode_varint, encoded_len_varint,
};

use crate::event::Verb;

mod inflate;
#[cfg(test)]
pub(crate) mod tests;

use inflate::{Inflating, Pushed};

/// Bytes of the prefix of a gRPC message: the compression flag and the length.
const PREFIX: usize = 5;
/// The flag of a compressed message.
const PACKED: u8 = 1;
/// Bytes before the data of an event at most: its id, its type and its attributes.
pub(crate) const HEAD: usize = 16 << 10;
/// Protobuf field numbers: of the event in its message, of its type, and of the last field before the data.
const EVENT: u32 = 1;
const TYPE: u32 = 4;
const ATTRIBUTES: u32 = 5;

/// Output bytes after which [`OversizeFilter::push`] returns.
const ENOUGH: usize = 64 << 10;

/// The name of gzip in `grpc-encoding`.
const GZIP: &[u8] = b"gzip";

/// Removes the data of responses that are too large. Its input are gRPC messages in pieces of any size.
#[derive(Debug)]
pub struct OversizeFilter {
    largest: usize,
    /// Whether the call compresses messages with gzip.
    gzip: bool,
    state: State,
    /// Messages whose data was removed since the last [`Self::take_cut`].
    cut: u64,
}

#[derive(Debug)]
enum State {
    /// The received part of a prefix.
    Prefix(BytesMut),
    /// Remaining bytes of a message that passes.
    Passing(usize),
    /// The received part of the head of a message that is too large, and the length of the message.
    Head(BytesMut, usize),
    /// A compressed message.
    Packed(Box<Packed>),
    /// Remaining bytes of a message that are dropped.
    Skipping(usize),
}

/// A compressed message that is still arriving.
#[derive(Debug)]
struct Packed {
    inflating: Inflating,
    /// Bytes that have not arrived yet.
    left: usize,
    /// Whether it exceeds the limit even before inflation.
    is_long: bool,
}

impl OversizeFilter {
    /// A filter for a reader of messages up to `largest` bytes, of a call with these headers.
    pub fn new(largest: usize, headers: &HeaderMap) -> Self {
        let encoding = headers.get("grpc-encoding");
        let gzip = encoding.is_some_and(|it| it.as_bytes() == GZIP);
        Self::with(largest, gzip)
    }

    fn with(largest: usize, gzip: bool) -> Self {
        Self {
            largest,
            gzip,
            state: State::Prefix(BytesMut::new()),
            cut: 0,
        }
    }

    /// A filter for the same call in its initial state.
    pub(crate) fn fresh(&self) -> Self {
        Self::with(self.largest, self.gzip)
    }

    /// Filters bytes and returns the output, if any. Returns early, with input left in `bytes`, when there is much
    /// output: gzip can inflate its input a thousand times.
    pub fn push(&mut self, bytes: &mut Bytes) -> Option<Bytes> {
        // The usual case: a piece from the middle of a message of a usual size.
        if let State::Passing(left) = &mut self.state
            && *left > bytes.len()
        {
            *left = left.saturating_sub(bytes.len());
            return Some(std::mem::take(bytes));
        }
        let mut out = BytesMut::new();
        while !bytes.is_empty() && out.len() < ENOUGH {
            self.step(bytes, &mut out);
        }
        (!out.is_empty()).then(|| out.freeze())
    }

    /// The number of messages whose data was removed since the last call.
    pub const fn take_cut(&mut self) -> u64 {
        std::mem::replace(&mut self.cut, 0)
    }

    /// Whether the input so far ends with a whole message.
    pub fn is_between(&self) -> bool {
        matches!(&self.state, State::Prefix(prefix) if prefix.is_empty())
    }

    fn step(&mut self, bytes: &mut Bytes, out: &mut BytesMut) {
        match &mut self.state {
            State::Prefix(prefix) => {
                take(bytes, prefix, PREFIX);
                if prefix.len() == PREFIX {
                    let prefix = prefix.split();
                    self.begin(&prefix, out);
                }
            }
            State::Passing(left) | State::Skipping(left) => {
                let some = bytes.split_to(bytes.len().min(*left));
                *left = left.saturating_sub(some.len());
                let is_over = *left == 0;
                if matches!(self.state, State::Passing(_)) {
                    out.extend_from_slice(&some);
                }
                if is_over {
                    self.enter(State::Passing(0));
                }
            }
            State::Head(head, length) => {
                take(bytes, head, HEAD.min(*length));
                if head.len() == HEAD.min(*length) {
                    let (head, length) = (head.split(), *length);
                    self.end_head(&head, length, out);
                }
            }
            State::Packed(packed) => {
                let some = bytes.split_to(bytes.len().min(packed.left));
                packed.left = packed.left.saturating_sub(some.len());
                self.inflate(&some, out);
            }
        }
    }

    fn begin(&mut self, prefix: &[u8], out: &mut BytesMut) {
        let mut read = prefix;
        let (flag, length) = (read.get_u8(), read.get_u32());
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if flag == PACKED && self.gzip {
            let is_long = length > self.largest;
            // The reader also applies its limit to the compressed length.
            let most = if is_long { HEAD } else { self.largest };
            self.state = State::Packed(Box::new(Packed {
                inflating: Inflating::new(most),
                left: length,
                is_long,
            }));
            return self.inflate(&[], out);
        }
        if flag == 0 && length > self.largest {
            self.state = State::Head(BytesMut::with_capacity(HEAD), length);
            return;
        }
        out.extend_from_slice(prefix);
        self.enter(State::Passing(length));
    }

    fn end_head(&mut self, head: &[u8], length: usize, out: &mut BytesMut) {
        let rest = length.saturating_sub(head.len());
        if let Some(message) = without_data(head) {
            put(out, message.len(), &message);
            self.cut = self.cut.saturating_add(1);
            self.enter(State::Skipping(rest));
        } else {
            // The reader rejects it as too large.
            put(out, length, head);
            self.enter(State::Passing(rest));
        }
    }

    /// Continues a compressed message with its next bytes.
    fn inflate(&mut self, some: &[u8], out: &mut BytesMut) {
        let State::Packed(packed) = &mut self.state else {
            return;
        };
        let (rest, is_long) = (packed.left, packed.is_long);
        let pushed = match packed.inflating.push(some) {
            Pushed::More if rest > 0 => return,
            Pushed::More => packed.inflating.finish(),
            over @ (Pushed::Whole(_) | Pushed::Full(_) | Pushed::Broken) => over,
        };
        match pushed {
            Pushed::More | Pushed::Broken if !is_long => {
                // The reader rejects it as broken, with its own error.
                out.extend_from_slice(&[PACKED, 0, 0, 0, 0]);
            }
            Pushed::Whole(message) if !is_long => put(out, message.len(), &message),
            Pushed::Full(head) => self.pass_bare(&head, out),
            Pushed::Whole(_) | Pushed::More | Pushed::Broken => self.pass_bare(&[], out),
        }
        self.enter(State::Skipping(rest));
    }

    /// Passes an oversized compressed message, which begins with `head`, without its data.
    fn pass_bare(&mut self, head: &[u8], out: &mut BytesMut) {
        let head = head.get(..HEAD).unwrap_or(head);
        if let Some(message) = without_data(head) {
            put(out, message.len(), &message);
            self.cut = self.cut.saturating_add(1);
        } else {
            // The reader rejects it as too large because of this length.
            put(out, self.largest.saturating_add(1), &[]);
        }
    }

    /// Enters a state; without remaining bytes that of the next message.
    fn enter(&mut self, state: State) {
        self.state = if matches!(state, State::Passing(0) | State::Skipping(0)) {
            State::Prefix(BytesMut::new())
        } else {
            state
        };
    }
}

/// Appends an uncompressed message, or its first part.
fn put(out: &mut BytesMut, length: usize, message: &[u8]) {
    out.put_u8(0);
    out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    out.extend_from_slice(message);
}

/// Moves bytes until `to` has `wanted`.
fn take(from: &mut Bytes, to: &mut BytesMut, wanted: usize) {
    let some = from.len().min(wanted.saturating_sub(to.len()));
    to.extend_from_slice(&from.split_to(some));
}

/// A copy of a response without its data, from its head; none if it is not a response, or its head is incomplete.
fn without_data(head: &[u8]) -> Option<BytesMut> {
    let mut read = head;
    let (EVENT, WireType::LengthDelimited) = decode_key(&mut read).ok()? else {
        return None;
    };
    decode_varint(&mut read).ok()?;
    let event = read;
    let mut is_response = false;
    loop {
        let before = read.len();
        let (field, kind) = decode_key(&mut read).ok()?;
        if field > ATTRIBUTES {
            if !is_response {
                return None;
            }
            let kept = event.get(..event.len().checked_sub(before)?)?;
            let length = u64::try_from(kept.len()).ok()?;
            let prefix = encoded_len_varint(length).saturating_add(1);
            let mut message = BytesMut::with_capacity(kept.len().saturating_add(prefix));
            encode_key(EVENT, WireType::LengthDelimited, &mut message);
            encode_varint(length, &mut message);
            message.extend_from_slice(kept);
            return Some(message);
        }
        if kind != WireType::LengthDelimited {
            return None;
        }
        let length = usize::try_from(decode_varint(&mut read).ok()?).ok()?;
        let (value, rest) = read.split_at_checked(length)?;
        if field == TYPE {
            let verb = Verb::parse(str::from_utf8(value).ok()?);
            is_response = matches!(verb, Some(Verb::Response | Verb::RedisResponse));
        }
        read = rest;
    }
}
