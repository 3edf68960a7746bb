//! Promises of the environment that the simulation breaks, to check that the oracle notices.

use bytes::{BufMut as _, Bytes, BytesMut};
use prost::Message as _;
use protocol::wire::cloudevents::cloud_event::CloudEventAttributeValue;
use protocol::wire::cloudevents::cloud_event::cloud_event_attribute_value::Attr;
use protocol::wire::eventstreamapi::Event;

/// A promise that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// An API server sends every event to a watch. Here the hub's omits some for good.
    LossyWatch,
    /// A command has one ID. Here the network repeats some under another ID.
    ForgedCommand,
}

/// A command under another ID; none if the message is not a command.
pub(crate) fn forged(message: &Bytes, head: usize) -> Option<Bytes> {
    let mut event = Event::decode(message.get(head..)?).ok()?;
    let inner = event.event.as_mut()?;
    if !inner.r#type.ends_with(".set-operation") {
        return None;
    }
    let name = CloudEventAttributeValue {
        attr: Some(Attr::CeString("forged_1_1".to_owned())),
    };
    inner.attributes.insert("eventid".to_owned(), name);
    let body = event.encode_to_vec();
    let mut forged = BytesMut::new();
    forged.put_u8(0);
    forged.put_u32(u32::try_from(body.len()).ok()?);
    forged.put_slice(&body);
    Some(forged.freeze())
}
