//! The filter of oversized responses, with gzip, and the decoder behind it.

use std::io::Write as _;

use bytes::{Buf as _, Bytes};
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue};
use prost::Message as _;
use protocol::oversize_filter::OversizeFilter;
use protocol::wire::eventstreamapi::Event as Frame;
use protocol::{Event, Target, Verb};

/// The limit of the reader behind the filter.
const LARGEST: usize = 1 << 10;
/// The flag and the length of a gRPC message.
const PREFIX: usize = 5;
/// Output bytes of one call, above those of its input: the filter returns early, after at most one more message.
const AT_ONCE: usize = (64 << 10) + (16 << 10) + LARGEST + PREFIX;

const GZIP: u8 = 1;
const TO_COMPRESS: u8 = 2;
const REPEATED: u8 = 4;

pub(crate) fn check(input: &[u8]) {
    let [kind, piece, rest @ ..] = input else {
        return;
    };
    let stream = match kind & (TO_COMPRESS | REPEATED) {
        0 => rest.to_vec(),
        TO_COMPRESS => framed(1, &gzip(rest)),
        REPEATED => framed(0, &rest.repeat(20)),
        _ => framed(1, &gzip(&rest.repeat(200))),
    };
    let is_gzip = kind & GZIP != 0;
    let (out, cut) = filtered(is_gzip, &stream, stream.len().max(1));
    let piece = usize::from(*piece).max(1);
    assert_eq!(
        filtered(is_gzip, &stream, piece),
        (out.clone(), cut),
        "in pieces of {piece}"
    );
    let messages = stream.len() / PREFIX + 1;
    assert!(cut <= messages as u64);
    assert!(out.len() <= stream.len() + messages * (LARGEST + PREFIX));
    passes(&stream, &out);
    decoded(&out);
}

fn filtered(is_gzip: bool, stream: &[u8], piece: usize) -> (Vec<u8>, u64) {
    let headers = is_gzip.then(|| ("grpc-encoding", HeaderValue::from_static("gzip")));
    let headers = headers
        .into_iter()
        .map(|(name, value)| (http::HeaderName::from_static(name), value));
    let mut filter = OversizeFilter::new(LARGEST, &headers.collect::<HeaderMap>());
    let mut out = Vec::new();
    for piece in stream.chunks(piece) {
        let mut bytes = Bytes::copy_from_slice(piece);
        while !bytes.is_empty() {
            let some = filter.push(&mut bytes).unwrap_or_default();
            assert!(
                some.len() <= piece.len() + AT_ONCE,
                "{} bytes at once",
                some.len()
            );
            out.extend(some);
        }
    }
    (out, filter.take_cut())
}

/// Uncompressed messages within the limit pass unchanged, up to the first other one.
fn passes(stream: &[u8], out: &[u8]) {
    let mut rest = stream;
    while let Some((mut prefix, behind)) = rest.split_at_checked(PREFIX) {
        let (flag, length) = (prefix.get_u8(), prefix.get_u32() as usize);
        match behind.split_at_checked(length) {
            Some((_, behind)) if flag == 0 && length <= LARGEST => rest = behind,
            _ => break,
        }
    }
    assert!(out.starts_with(&stream[..stream.len() - rest.len()]));
}

/// The decoder never panics, and a decoded message round-trips.
fn decoded(mut out: &[u8]) {
    while let Some((mut prefix, rest)) = out.split_at_checked(PREFIX) {
        let (_, length) = (prefix.get_u8(), prefix.get_u32() as usize);
        let (message, rest) = rest.split_at(rest.len().min(length));
        if let Ok(frame) = Frame::decode(message) {
            assert_eq!(
                Frame::decode(frame.encode_to_vec().as_slice()).as_ref(),
                Ok(&frame)
            );
        }
        out = rest;
    }
}

fn gzip(message: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(vec![], Compression::fast());
    encoder.write_all(message).expect("memory takes all bytes");
    encoder.finish().expect("memory takes all bytes")
}

fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("a short message");
    [&[flag][..], &length.to_be_bytes(), message].concat()
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let response = |bytes: usize| {
        let event = Event::control(Target::Resource, Verb::Response, vec![b'x'; bytes].into());
        Frame {
            event: Some(event.into_cloud_event("test")),
        }
        .encode_to_vec()
    };
    let (small, large) = (response(10), response(2 * LARGEST));
    let mixed = [
        framed(0, &small),
        framed(0, &large),
        framed(1, &gzip(&small)),
        framed(1, &gzip(&large)),
    ];
    let mixed = mixed.concat();
    vec![
        [&[0, 7][..], &mixed].concat(),
        [&[GZIP, 50][..], &mixed].concat(),
        [&[GZIP | TO_COMPRESS, 1][..], &small].concat(),
        [&[GZIP | TO_COMPRESS, 9][..], &large].concat(),
        [&[REPEATED, 30][..], &small].concat(),
        [&[GZIP | TO_COMPRESS | REPEATED, 20][..], &small].concat(),
        vec![
            GZIP | TO_COMPRESS | REPEATED,
            255,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
        ],
    ]
}
