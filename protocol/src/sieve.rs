//! Answers that are larger than whoever reads them holds: their data is left out before it is there as a whole.
//!
//! A Go agent may answer 200 MiB in one message, and says it again on every connection until it is acknowledged. So what
//! the message answers goes on, without its data, and the session can acknowledge it. Pure; bytes go in and out.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use prost::encoding::{
    WireType, decode_key, decode_varint, encode_key, encode_varint, encoded_len_varint,
};

use crate::event::Verb;

/// A flag for compression, and the length.
const PREFIX: usize = 5;
/// What a message has before its data: its name, its type and what it is about.
const HEAD: usize = 16 << 10;
/// The number of the event in its message, of its type, and of the last of its fields before the data.
const EVENT: u32 = 1;
const TYPE: u32 = 4;
const ATTRIBUTES: u32 = 5;

/// Takes the data out of answers that are too large. Its bytes are gRPC's messages, cut anywhere.
#[derive(Debug)]
pub struct Sieve {
    largest: usize,
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
    /// Bytes that do not go on.
    Skipping(usize),
}

impl Sieve {
    /// For whoever reads messages of up to so many bytes.
    pub fn new(largest: usize) -> Self {
        Self {
            largest,
            state: State::Prefix(BytesMut::new()),
            cut: 0,
        }
    }

    /// What goes on of these bytes, if anything does.
    pub fn push(&mut self, mut bytes: Bytes) -> Option<Bytes> {
        // Most of what comes is whole pieces of messages of a usual size.
        if let State::Passing(left) = &mut self.state
            && *left > bytes.len()
        {
            *left = left.saturating_sub(bytes.len());
            return Some(bytes);
        }
        let mut out = BytesMut::new();
        while !bytes.is_empty() {
            self.step(&mut bytes, &mut out);
        }
        (!out.is_empty()).then(|| out.freeze())
    }

    /// How many messages lost their data since the last call.
    pub const fn take_cut(&mut self) -> u64 {
        std::mem::replace(&mut self.cut, 0)
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
        }
    }

    fn begin(&mut self, prefix: &[u8], out: &mut BytesMut) {
        let mut read = prefix;
        let (flag, length) = (read.get_u8(), read.get_u32());
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        // Of what is compressed the head cannot be seen.
        if flag == 0 && length > self.largest {
            self.state = State::Head(BytesMut::with_capacity(HEAD), length);
            return;
        }
        out.extend_from_slice(prefix);
        self.pass(length);
    }

    fn headed(&mut self, head: &[u8], length: usize, out: &mut BytesMut) {
        let rest = length.saturating_sub(head.len());
        let put = |out: &mut BytesMut, length: usize, message: &[u8]| {
            out.put_u8(0);
            out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
            out.extend_from_slice(message);
        };
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

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::wire::cloudevents::{CloudEvent, cloud_event::Data};
    use crate::wire::eventstreamapi::Event as Frame;
    use crate::{Event, Target};

    const LARGEST: usize = 64 << 10;

    fn event(data: usize) -> CloudEvent {
        let body = Bytes::from(vec![b'x'; data]);
        Event::control(Target::Resource, Verb::Response, body).into_cloud_event("")
    }

    fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        [&[flag][..], &length, message].concat()
    }

    fn message(event: CloudEvent) -> Vec<u8> {
        Frame { event: Some(event) }.encode_to_vec()
    }

    /// The events in these bytes, whatever the order of their attributes.
    fn messages(mut bytes: &[u8]) -> Vec<Frame> {
        let mut all = vec![];
        while let Some((prefix, rest)) = bytes.split_at_checked(PREFIX) {
            let length = (&prefix[1..]).get_u32();
            let (message, rest) = rest.split_at(usize::try_from(length).unwrap());
            all.push(Frame::decode(message).unwrap());
            bytes = rest;
        }
        all
    }

    /// What comes out when it goes in in pieces of this.
    fn sifted(bytes: &[u8], piece: usize) -> (Vec<u8>, u64) {
        let mut sieve = Sieve::new(LARGEST);
        let mut out = vec![];
        for piece in bytes.chunks(piece) {
            out.extend(
                sieve
                    .push(Bytes::copy_from_slice(piece))
                    .unwrap_or_default(),
            );
        }
        (out, sieve.take_cut())
    }

    #[test]
    fn what_is_too_large_loses_its_data_and_nothing_else() {
        let (small, large) = (event(100), event(LARGEST));
        let said = [
            framed(0, &message(small.clone())),
            framed(0, &message(large.clone())),
            framed(0, &[]),
            framed(0, &message(small.clone())),
        ]
        .concat();
        let bare = CloudEvent {
            data: None,
            ..large
        };
        let wanted = [
            framed(0, &message(small.clone())),
            framed(0, &message(bare.clone())),
            framed(0, &[]),
            framed(0, &message(small)),
        ]
        .concat();
        for piece in [1, 2, 3, 7, 1000, HEAD, LARGEST, said.len()] {
            let (out, cut) = sifted(&said, piece);
            assert_eq!((messages(&out), cut), (messages(&wanted), 1), "{piece}");
        }
    }

    #[test]
    fn what_has_no_head_is_left_to_whoever_reads() {
        let data = Some(Data::TextData("x".repeat(LARGEST)));
        let named = CloudEvent {
            id: "x".repeat(HEAD),
            data,
            ..event(0)
        };
        let no_answer = CloudEvent {
            r#type: Verb::StatusUpdate.to_type(),
            ..event(LARGEST)
        };
        for (flag, message) in [
            (1, message(event(LARGEST))),
            (0, vec![0xff; LARGEST + 1]),
            (0, message(named)),
            (0, message(no_answer)),
        ] {
            let said = [framed(flag, &message), framed(0, b"after")].concat();
            for piece in [1, 999, said.len()] {
                assert_eq!(sifted(&said, piece), (said.clone(), 0), "{flag} {piece}");
            }
        }
    }
}
