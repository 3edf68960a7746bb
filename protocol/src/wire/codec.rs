//! Protobuf for the calls of the wire, with buffers for streams that are silent most of the time.

use std::{fmt, marker::PhantomData};

use prost::Message;
use tonic::codec::BufferSettings;
use tonic_prost::{ProstDecoder, ProstEncoder};

/// What a stream holds each way while nothing is said; it grows with what is. Tonic's own measure, 8 KiB, is for calls
/// that come and go, and a hub has two streams of each cluster open all the time.
const AT_REST: usize = 1 << 10;
/// How much of what is ready goes out in one piece, as tonic does it.
const PIECE: usize = 32 << 10;

/// Encodes `T` and decodes `U`.
pub struct Codec<T, U>(PhantomData<(T, U)>);

impl<T, U> fmt::Debug for Codec<T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codec").finish()
    }
}

impl<T, U> Default for Codec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> tonic::codec::Codec for Codec<T, U>
where
    T: Message + 'static,
    U: Message + Default + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::new(BufferSettings::new(AT_REST, PIECE))
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::new(BufferSettings::new(AT_REST, PIECE))
    }
}
