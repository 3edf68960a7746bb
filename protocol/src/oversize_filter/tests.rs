use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use prost::Message as _;

use super::*;
use crate::wire::cloudevents::{CloudEvent, cloud_event::Data};
use crate::wire::eventstreamapi::Event as Frame;
use crate::{Event, Target};

const LARGEST: usize = 64 << 10;

fn event(data: usize) -> CloudEvent {
    answer(vec![b'x'; data].into())
}

pub(crate) fn answer(body: Bytes) -> CloudEvent {
    Event::control(Target::Resource, Verb::Response, body).into_cloud_event("")
}

/// Bytes that do not compress.
pub(crate) fn noise(bytes: usize) -> Bytes {
    let next = |state: &u64| Some(state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1));
    let states = std::iter::successors(Some(1_u64), next);
    states
        .map(|state| state.to_be_bytes()[0])
        .take(bytes)
        .collect()
}

pub(crate) fn gzip(message: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(vec![], Compression::fast());
    encoder.write_all(message).unwrap();
    encoder.finish().unwrap()
}

/// The headers of a client that compresses with gzip.
pub(crate) fn compressing() -> HeaderMap {
    let name = http::HeaderName::from_static("grpc-encoding");
    let value = http::HeaderValue::from_static("gzip");
    [(name, value)].into_iter().collect()
}

pub(crate) fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[flag][..], &length, message].concat()
}

pub(crate) fn message(event: CloudEvent) -> Vec<u8> {
    Frame { event: Some(event) }.encode_to_vec()
}

/// The decoded messages; equality does not depend on the order of attributes.
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

/// The output for input in pieces of `piece` bytes, and the number of cut responses.
fn filtered(headers: &HeaderMap, bytes: &[u8], piece: usize) -> (Vec<u8>, u64) {
    let mut oversize = OversizeFilter::new(LARGEST, headers);
    let mut out = vec![];
    for piece in bytes.chunks(piece) {
        let mut piece = Bytes::copy_from_slice(piece);
        while !piece.is_empty() {
            out.extend(oversize.push(&mut piece).unwrap_or_default());
        }
    }
    (out, oversize.take_cut())
}

#[test]
fn data_of_oversized_responses_is_dropped() {
    let (small, large) = (event(100), event(LARGEST));
    let sent = [
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
    for piece in [1, 2, 3, 7, 1000, HEAD, LARGEST, sent.len()] {
        let (out, cut) = filtered(&HeaderMap::new(), &sent, piece);
        assert_eq!((messages(&out), cut), (messages(&wanted), 1), "{piece}");
    }
}

#[test]
fn oversized_message_without_response_head_passes_unchanged() {
    let data = Some(Data::TextData("x".repeat(LARGEST)));
    let named = CloudEvent {
        id: "x".repeat(HEAD),
        data,
        ..event(0)
    };
    let no_response = CloudEvent {
        r#type: Verb::StatusUpdate.to_type(),
        ..event(LARGEST)
    };
    for (flag, message) in [
        (1, message(event(LARGEST))),
        (0, vec![0xff; LARGEST + 1]),
        (0, message(named)),
        (0, message(no_response)),
    ] {
        let sent = [framed(flag, &message), framed(0, b"after")].concat();
        for piece in [1, 999, sent.len()] {
            assert_eq!(
                filtered(&HeaderMap::new(), &sent, piece),
                (sent.clone(), 0),
                "{flag} {piece}"
            );
        }
    }
}

#[test]
fn compressed_response_is_measured_after_inflation() {
    let (small, large) = (event(100), event(LARGEST));
    let noisy = answer(noise(2 * LARGEST));
    let sent = [
        framed(1, &gzip(&message(small.clone()))),
        framed(1, &gzip(&message(large.clone()))),
        framed(1, &gzip(&[])),
        framed(1, &gzip(&message(noisy.clone()))),
        framed(0, &message(large.clone())),
        framed(
            1,
            &[&gzip(&message(small.clone()))[..], b"behind the end"].concat(),
        ),
    ]
    .concat();
    let bare = |event: &CloudEvent| CloudEvent {
        data: None,
        ..event.clone()
    };
    let wanted = [
        framed(0, &message(small.clone())),
        framed(0, &message(bare(&large))),
        framed(0, &[]),
        framed(0, &message(bare(&noisy))),
        framed(0, &message(bare(&large))),
        framed(0, &message(small)),
    ]
    .concat();
    for piece in [1, 2, 3, 7, 1000, HEAD, LARGEST, sent.len()] {
        let (out, cut) = filtered(&compressing(), &sent, piece);
        assert_eq!((messages(&out), cut), (messages(&wanted), 3), "{piece}");
    }
}

#[test]
fn compressed_response_of_exactly_the_limit_passes_whole() {
    for (size, cut) in [(LARGEST, 0), (LARGEST + 1, 1)] {
        let rest = size - message(event(LARGEST / 2)).len() + LARGEST / 2;
        let exact = message(event(rest));
        assert_eq!(exact.len(), size);
        let (out, was_cut) = filtered(&compressing(), &framed(1, &gzip(&exact)), 1000);
        assert_eq!(was_cut, cut);
        assert_eq!(out == framed(0, &exact), cut == 0);
    }
}

#[test]
fn compressed_message_that_is_no_response_is_left_to_the_reader() {
    let no_response = CloudEvent {
        r#type: Verb::StatusUpdate.to_type(),
        ..event(LARGEST)
    };
    let too_large = [&[0][..], &u32::try_from(LARGEST + 1).unwrap().to_be_bytes()].concat();
    let broken = vec![1, 0, 0, 0, 0];
    let whole = gzip(&message(event(100)));
    let (half, _) = whole.split_at(whole.len() - 1);
    for (sent, wanted) in [
        (gzip(&message(no_response)), &too_large),
        (gzip(&vec![0; 10 << 20]), &too_large),
        (vec![0; LARGEST + 1], &too_large),
        (b"no gzip".to_vec(), &broken),
        (half.to_vec(), &broken),
        (vec![], &broken),
    ] {
        let sent = [framed(1, &sent), framed(0, b"after")].concat();
        let wanted = [&wanted[..], &framed(0, b"after")].concat();
        for piece in [1, 999, sent.len()] {
            let filtered = filtered(&compressing(), &sent, piece);
            assert_eq!(filtered, (wanted.clone(), 0), "{piece}");
        }
    }
}

#[test]
fn compressed_messages_are_inflated_one_by_one() {
    let message = gzip(&message(event(LARGEST / 2)));
    let mut bytes = Bytes::from(framed(1, &message).repeat(100));
    let mut oversize = OversizeFilter::new(LARGEST, &compressing());
    let mut all = 0;
    while !bytes.is_empty() {
        let out = oversize.push(&mut bytes).unwrap_or_default();
        assert!(out.len() < ENOUGH + LARGEST, "{}", out.len());
        all += out.len();
    }
    assert!(all > 100 * LARGEST / 2);
}
