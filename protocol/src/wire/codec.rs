//! The protobuf codec, with small buffers for streams that are idle most of the time.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::BufferSettings;
use tonic_prost::{ProstDecoder, ProstEncoder};

/// Initial buffer of a stream in each direction; it grows with its messages. Tonic's default of 8 KiB is for short calls,
/// but a hub has two open streams per cluster.
const AT_REST: usize = 1 << 10;
/// Ready bytes after which a stream yields, as in tonic.
const PIECE: usize = 32 << 10;

/// Encodes `T` and decodes `U`.
#[derive(derive_more::Debug)]
#[debug("Codec")]
pub struct Codec<T, U>(PhantomData<(T, U)>);

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
