//! Answers that are larger than whoever reads them holds: their data is left out before it is there as a whole.
//!
//! A Go agent may answer 200 MiB in one message, and says it again on every connection until it is acknowledged. So what
//! the message answers goes on, without its data, and the session can acknowledge it. Pure; bytes go in and out.
//!
//! How large a compressed message is shows only when it is inflated. So that is done here, as it comes and no further than
//! whoever reads takes; it goes on as one that was never compressed.

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

/// A flag for compression, and the length.
const PREFIX: usize = 5;
/// The flag of what is compressed.
const PACKED: u8 = 1;
/// What a message has before its data: its name, its type and what it is about.
pub(crate) const HEAD: usize = 16 << 10;
/// The number of the event in its message, of its type, and of the last of its fields before the data.
const EVENT: u32 = 1;
const TYPE: u32 = 4;
const ATTRIBUTES: u32 = 5;

/// When so much goes on, no more is made of what has come.
const ENOUGH: usize = 64 << 10;

/// The name of gzip in `grpc-encoding`.
const GZIP: &[u8] = b"gzip";

/// Takes the data out of answers that are too large. Its bytes are gRPC's messages, cut anywhere.
#[derive(Debug)]
pub struct OversizeFilter {
    largest: usize,
    /// Whether what is compressed is so with gzip.
    gzip: bool,
    state: State,
    /// Messages whose data was left out, since this was asked last.
    cut: u64,
}

#[derive(Debug)]
enum State {
    /// What there is of a prefix.
    Prefix(BytesMut),
    /// Bytes of a message that go on.
    Passing(usize),
    /// What there is of the head of a message that is too large, and how long the message is.
    Head(BytesMut, usize),
    /// A message that is compressed.
    Packed(Box<Packed>),
    /// Bytes that do not go on.
    Skipping(usize),
}

/// A compressed message on its way in.
#[derive(Debug)]
struct Packed {
    inflating: Inflating,
    /// Bytes of it that have not come yet.
    left: usize,
    /// Its bytes alone are more than whoever reads takes.
    is_long: bool,
}

impl OversizeFilter {
    /// For whoever reads messages of up to so many bytes, of a call with these headers.
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

    /// One for the same call that has seen nothing yet.
    pub(crate) fn anew(&self) -> Self {
        Self::with(self.largest, self.gzip)
    }

    /// What goes on of these bytes, if anything does. When that is much it is given out before all bytes are taken: a
    /// few of them can be a thousand times as many when they are inflated.
    pub fn push(&mut self, bytes: &mut Bytes) -> Option<Bytes> {
        // Most of what comes is whole pieces of messages of a usual size.
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

    /// How many messages lost their data since the last call.
    pub const fn take_cut(&mut self) -> u64 {
        std::mem::replace(&mut self.cut, 0)
    }

    /// Whether all that came in were whole messages.
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
                    self.next();
                }
            }
            State::Head(head, length) => {
                take(bytes, head, HEAD.min(*length));
                if head.len() == HEAD.min(*length) {
                    let (head, length) = (head.split(), *length);
                    self.headed(&head, length, out);
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
            // Whoever reads takes none that is longer than that before it is inflated, either.
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
        self.pass(length);
    }

    fn headed(&mut self, head: &[u8], length: usize, out: &mut BytesMut) {
        let rest = length.saturating_sub(head.len());
        if let Some(message) = without_data(head) {
            put(out, message.len(), &message);
            self.cut = self.cut.saturating_add(1);
            self.state = State::Skipping(rest);
        } else {
            // Whoever reads it finds it too large.
            put(out, length, head);
            self.state = State::Passing(rest);
        }
        if rest == 0 {
            self.next();
        }
    }

    /// Goes on with a compressed message, of which this has come.
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
                // Whoever reads it finds it broken, and has words for that.
                out.extend_from_slice(&[PACKED, 0, 0, 0, 0]);
            }
            Pushed::Whole(message) if !is_long => put(out, message.len(), &message),
            Pushed::Full(head) => self.too_large(&head, out),
            Pushed::Whole(_) | Pushed::More | Pushed::Broken => self.too_large(&[], out),
        }
        self.state = State::Skipping(rest);
        if rest == 0 {
            self.next();
        }
    }

    /// What is left of a compressed message that begins like this.
    fn too_large(&mut self, head: &[u8], out: &mut BytesMut) {
        let head = head.get(..HEAD).unwrap_or(head);
        if let Some(message) = without_data(head) {
            put(out, message.len(), &message);
            self.cut = self.cut.saturating_add(1);
        } else {
            // Whoever reads it finds it too large before there is more of it.
            put(out, self.largest.saturating_add(1), &[]);
        }
    }

    fn pass(&mut self, length: usize) {
        self.state = State::Passing(length);
        if length == 0 {
            self.next();
        }
    }

    fn next(&mut self) {
        self.state = State::Prefix(BytesMut::new());
    }
}

/// Says a message that is not compressed, or as much as there is of it.
fn put(out: &mut BytesMut, length: usize, message: &[u8]) {
    out.put_u8(0);
    out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    out.extend_from_slice(message);
}

/// Moves bytes until there are so many.
fn take(from: &mut Bytes, to: &mut BytesMut, wanted: usize) {
    let some = from.len().min(wanted.saturating_sub(to.len()));
    to.extend_from_slice(&from.split_to(some));
}

/// A message of the same answer without its data, from the head of one; none if it is no answer, or its head has no end.
fn without_data(head: &[u8]) -> Option<BytesMut> {
    let mut read = head;
    let (EVENT, WireType::LengthDelimited) = decode_key(&mut read).ok()? else {
        return None;
    };
    decode_varint(&mut read).ok()?;
    let event = read;
    let mut is_answer = false;
    loop {
        let before = read.len();
        let (field, kind) = decode_key(&mut read).ok()?;
        if field > ATTRIBUTES {
            if !is_answer {
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
            is_answer = matches!(verb, Some(Verb::Response | Verb::RedisResponse));
        }
        read = rest;
    }
}
