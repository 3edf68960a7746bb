//! Frames of a client that exceed the message limit: passes them through an [`OversizeFilter`].
//!
//! A `WebSocket` has each message in one frame, and a reader buffers each frame as a whole. So this removes the data of
//! an oversized response of a Go agent before the reader buffers it. All other frames pass unchanged; of an oversized
//! frame that is not a response the head passes, and the reader rejects it as too long.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::HeaderMap;

use super::framed;
use crate::oversize_filter::{HEAD, OversizeFilter};

/// The first byte of a binary message in one frame.
const WHOLE_BINARY: u8 = 0x82;
/// The flag of a masked frame, as every frame of a client is.
const MASKED: u8 = 0x80;
/// Length values which mean that the length follows in two bytes, or in eight.
const TWO_BYTES: u8 = 126;
const EIGHT_BYTES: u8 = 127;
/// A frame that needs no answer; it keeps the reader from timing out while a long frame arrives.
const PONG: [u8; 6] = [0x8a, MASKED, 0, 0, 0, 0];
/// Bytes of a long frame per [`PONG`].
const KEEPALIVE: usize = 256 << 10;
/// More bytes than the filter leaves of a response that it cuts.
const MOST_LEFT: usize = HEAD * 2;

/// Removes the data of responses in frames that are too long. Its input are the bytes of a client's socket, in pieces of
/// any size.
#[derive(Debug)]
pub struct LongFrames {
    largest: usize,
    /// The initial state of the filter of each long frame.
    oversize: OversizeFilter,
    state: State,
    /// Responses whose data was removed since the last [`Self::take_cut`].
    cut: u64,
}

#[derive(Debug)]
enum State {
    /// The received part of the head of a frame.
    Head(BytesMut),
    /// Remaining bytes of a frame that passes.
    Passing(u64),
    Long(Box<Long>),
}

/// A frame that is longer than the limit.
#[derive(Debug)]
struct Long {
    head: Bytes,
    mask: [u8; 4],
    /// Bytes that have arrived.
    read: usize,
    /// Bytes that have not arrived.
    left: u64,
    oversize: OversizeFilter,
    /// The filter's output.
    kept: BytesMut,
}

impl LongFrames {
    /// For a reader of gRPC messages up to `largest` bytes, of a call with these headers.
    pub fn new(largest: usize, headers: &HeaderMap) -> Self {
        Self {
            largest,
            oversize: OversizeFilter::new(largest, headers),
            state: State::Head(BytesMut::new()),
            cut: 0,
        }
    }

    /// Whether the next `bytes` bytes pass unchanged, in the middle of a frame. If not, the caller pushes them.
    pub fn pass(&mut self, bytes: usize) -> bool {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        match &mut self.state {
            State::Passing(left) if *left > bytes => {
                *left = left.saturating_sub(bytes);
                true
            }
            State::Passing(_) | State::Head(_) | State::Long(_) => false,
        }
    }

    /// Filters bytes and returns the output.
    pub fn push(&mut self, mut bytes: Bytes) -> Bytes {
        let mut out = BytesMut::new();
        while !bytes.is_empty() {
            self.step(&mut bytes, &mut out);
        }
        out.freeze()
    }

    /// The number of responses whose data was removed since the last call.
    pub const fn take_cut(&mut self) -> u64 {
        std::mem::replace(&mut self.cut, 0)
    }

    fn step(&mut self, bytes: &mut Bytes, out: &mut BytesMut) {
        match &mut self.state {
            State::Head(head) => {
                let missing = size(head).saturating_sub(head.len());
                head.extend_from_slice(&bytes.split_to(bytes.len().min(missing)));
                if head.len() == size(head) {
                    let head = head.split().freeze();
                    self.begin(head, out);
                }
            }
            State::Passing(left) => {
                out.extend_from_slice(&split(bytes, left));
                if *left == 0 {
                    self.state = State::Head(BytesMut::new());
                }
            }
            State::Long(long) => {
                long.read(bytes, out);
                self.end_long(out);
            }
        }
    }

    fn begin(&mut self, head: Bytes, out: &mut BytesMut) {
        let (is_binary, length, mask) = parts(&head);
        let longest = u64::try_from(framed(self.largest)).unwrap_or(u64::MAX);
        // No gRPC message is longer than this.
        let bound = u64::from(u32::MAX);
        match mask {
            Some(mask) if is_binary && length > longest && length < bound => {
                self.state = State::Long(Box::new(Long {
                    head,
                    mask,
                    read: 0,
                    left: length,
                    oversize: self.oversize.fresh(),
                    kept: BytesMut::new(),
                }));
            }
            Some(_) | None => {
                out.extend_from_slice(&head);
                self.pass_on(length);
            }
        }
    }

    /// Passes a long frame as soon as it is known whether it is a response whose data was removed.
    fn end_long(&mut self, out: &mut BytesMut) {
        let State::Long(long) = &mut self.state else {
            return;
        };
        let is_over = long.left == 0;
        if is_over && long.oversize.is_between() && long.oversize.take_cut() == 1 {
            self.cut = self.cut.saturating_add(1);
            append_frame(&long.kept, out);
            self.pass_on(0);
        } else if is_over || long.kept.len() > MOST_LEFT {
            // The reader rejects this frame by its length and reads no further.
            out.extend_from_slice(&long.head);
            let left = long.left;
            self.pass_on(left);
        }
    }

    fn pass_on(&mut self, left: u64) {
        self.state = match left {
            0 => State::Head(BytesMut::new()),
            left => State::Passing(left),
        };
    }
}

impl Long {
    /// Reads the next bytes of the frame.
    fn read(&mut self, bytes: &mut Bytes, out: &mut BytesMut) {
        let some = split(bytes, &mut self.left);
        let mask = self.mask.iter().cycle().skip(self.read % self.mask.len());
        let mut plain: Bytes = some
            .iter()
            .zip(mask)
            .map(|(byte, mask)| byte ^ mask)
            .collect();
        let sent = self.read / KEEPALIVE;
        self.read = self.read.saturating_add(plain.len());
        if self.read / KEEPALIVE > sent {
            out.extend_from_slice(&PONG);
        }
        while !plain.is_empty() && self.kept.len() <= MOST_LEFT {
            let kept = self.oversize.push(&mut plain).unwrap_or_default();
            self.kept.extend_from_slice(&kept);
        }
    }
}

/// Splits off the bytes that belong to a frame with `left` remaining bytes.
fn split(bytes: &mut Bytes, left: &mut u64) -> Bytes {
    let most = usize::try_from(*left).unwrap_or(usize::MAX);
    let some = bytes.split_to(bytes.len().min(most));
    *left = left.saturating_sub(u64::try_from(some.len()).unwrap_or(u64::MAX));
    some
}

/// The length of a frame's head, from its first bytes.
const fn size(head: &[u8]) -> usize {
    let [_, second, ..] = head else {
        return 2;
    };
    let length = match *second & !MASKED {
        TWO_BYTES => 4,
        EIGHT_BYTES => 10,
        _ => 2,
    };
    if *second & MASKED == 0 {
        length
    } else {
        length + 4
    }
}

/// Parses a head: whether the frame is a whole binary message, its length, and its mask.
fn parts(mut head: &[u8]) -> (bool, u64, Option<[u8; 4]>) {
    let (first, second) = (head.get_u8(), head.get_u8());
    let length = match second & !MASKED {
        TWO_BYTES => head.get_u16().into(),
        EIGHT_BYTES => head.get_u64(),
        length => length.into(),
    };
    (first == WHOLE_BINARY, length, head.first_chunk().copied())
}

/// Appends a message as a masked frame.
fn append_frame(message: &[u8], out: &mut BytesMut) {
    out.put_u8(WHOLE_BINARY);
    match (u8::try_from(message.len()), u16::try_from(message.len())) {
        (Ok(length), _) if length < TWO_BYTES => out.put_u8(MASKED | length),
        (_, Ok(length)) => {
            out.put_u8(MASKED | TWO_BYTES);
            out.put_u16(length);
        }
        (_, Err(_)) => {
            out.put_u8(MASKED | EIGHT_BYTES);
            out.put_u64(u64::try_from(message.len()).unwrap_or(u64::MAX));
        }
    }
    // A mask that changes nothing.
    out.put_u32(0);
    out.extend_from_slice(message);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::oversize_filter::tests::{
        answer, compressing, framed as grpc, gzip, message, noise,
    };

    const LARGEST: usize = 64 << 10;

    fn frame(message: &[u8]) -> Vec<u8> {
        let mask = [7, 0, 255, 3];
        let mut frame = vec![WHOLE_BINARY, MASKED | EIGHT_BYTES];
        frame.extend_from_slice(&u64::try_from(message.len()).unwrap().to_be_bytes());
        frame.extend_from_slice(&mask);
        let masked = message.iter().zip(mask.iter().cycle());
        frame.extend(masked.map(|(byte, mask)| byte ^ mask));
        frame
    }

    /// The output for input in pieces of `piece` bytes, and the number of cut responses.
    fn filtered(bytes: &[u8], piece: usize) -> (Vec<u8>, u64) {
        let mut long = LongFrames::new(LARGEST, &compressing());
        let mut out = vec![];
        for piece in bytes.chunks(piece) {
            if long.pass(piece.len()) {
                out.extend_from_slice(piece);
            } else {
                out.extend(long.push(Bytes::copy_from_slice(piece)));
            }
        }
        (out, long.take_cut())
    }

    fn frame_of(message: &[u8]) -> Vec<u8> {
        let mut out = BytesMut::new();
        append_frame(message, &mut out);
        out.to_vec()
    }

    /// The filter's output for one message.
    fn without_data(message: &[u8]) -> Bytes {
        let mut oversize = OversizeFilter::new(LARGEST, &compressing());
        oversize.push(&mut Bytes::copy_from_slice(message)).unwrap()
    }

    #[test]
    fn oversized_response_becomes_a_frame_without_data() {
        let usual = frame(&grpc(0, &message(answer(noise(LARGEST - 1000)))));
        let ping = [0x89, MASKED | 1, 1, 2, 3, 4, 5];
        let large = message(answer(noise(2 * LARGEST)));
        for large in [grpc(0, &large), grpc(1, &gzip(&large))] {
            let all = [&usual[..], &ping, &frame(&large), &ping, &usual].concat();
            let bare = frame_of(&without_data(&large));
            let wanted = [&usual[..], &ping, &bare, &ping, &usual].concat();
            for piece in [1, 13, 8000, all.len()] {
                assert_eq!(filtered(&all, piece), (wanted.clone(), 1), "{piece}");
            }
        }
    }

    #[test]
    fn long_frame_sends_pongs_while_it_arrives() {
        let large = grpc(0, &message(answer(vec![b'x'; 4 * KEEPALIVE].into())));
        let wanted = [&PONG.repeat(4)[..], &frame_of(&without_data(&large))].concat();
        assert_eq!(filtered(&frame(&large), 1000), (wanted, 1));
    }

    #[test]
    fn long_frame_that_is_no_response_is_left_to_the_reader() {
        let large = grpc(0, &message(answer(vec![b'x'; LARGEST].into())));
        let short_of = [&large[..], b"more"].concat();
        let (cut_off, _) = large.split_at(large.len() - 1);
        let mut text = frame(&large);
        text[0] = 0x81;
        let mut part = frame(&large);
        part[0] = 0x02;
        for all in [
            frame(&vec![0xff; 2 * LARGEST]),
            frame(&short_of),
            frame(cut_off),
            frame(&grpc(1, &vec![0; 2 * LARGEST])),
            text,
            part,
        ] {
            let (out, cut) = filtered(&all, 1000);
            let head = size(&all);
            assert_eq!((out.get(..head), cut), (all.get(..head), 0));
        }
        let mut unmasked = vec![WHOLE_BINARY, EIGHT_BYTES];
        unmasked.extend_from_slice(&u64::MAX.to_be_bytes());
        assert_eq!(filtered(&unmasked, 3), (unmasked, 0));
    }

    #[test]
    fn a_message_is_framed_by_its_length() {
        for length in [0, 1, 125, 126, 0xffff, 0x1_0000] {
            let framed = frame_of(&vec![b'x'; length]);
            let (head, rest) = framed.split_at(size(&framed));
            let length = u64::try_from(length).unwrap();
            assert_eq!(parts(head), (true, length, Some([0; 4])));
            assert_eq!(rest.len(), usize::try_from(length).unwrap());
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), piece in 1_usize..9) {
            filtered(&bytes, piece);
        }
    }
}
