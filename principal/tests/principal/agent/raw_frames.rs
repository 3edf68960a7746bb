//! Frames of any bytes, which no codec would write.

use super::*;

/// A frame whose bytes are those.
#[derive(Clone, Debug, Default)]
struct Bytes(Vec<u8>);

impl prost::Message for Bytes {
    fn encode_raw(&self, buffer: &mut impl bytes::BufMut) {
        prost::encoding::bytes::encode(1, &self.0, buffer);
    }

    fn merge_field(
        &mut self,
        _tag: u32,
        _wire_type: prost::encoding::WireType,
        _buffer: &mut impl bytes::Buf,
        _context: prost::encoding::DecodeContext,
    ) -> Result<(), prost::DecodeError> {
        Ok(())
    }

    fn encoded_len(&self) -> usize {
        prost::encoding::bytes::encoded_len(1, &self.0)
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

impl Caller {
    /// Opens a stream, sends these bytes as an event, and waits for the end of the stream.
    pub(crate) async fn send_bytes(&self, token: &str, event: Vec<u8>) -> Status {
        let frames = tokio_stream::once(Bytes(event)).chain(tokio_stream::pending());
        let mut request = self.asking(frames);
        request
            .metadata_mut()
            .insert("authorization", token.parse().unwrap());
        let mut client = tonic::client::Grpc::new(self.channel.clone());
        let path = http::uri::PathAndQuery::from_static("/eventstreamapi.EventStream/Subscribe");
        let codec = tonic_prost::ProstCodec::<Bytes, Frame>::default();
        bounded("the end", async {
            client.ready().await.unwrap();
            let mut events = match client.streaming(request, path, codec).await {
                Ok(answer) => answer.into_inner(),
                Err(status) => return status,
            };
            loop {
                match events.message().await {
                    Ok(Some(_)) => {}
                    Ok(None) => return Status::ok("the stream has ended"),
                    Err(status) => return status,
                }
            }
        })
        .await
    }
}
