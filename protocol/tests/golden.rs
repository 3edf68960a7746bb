//! Wire compatibility: the fixtures were written by hand from the wire format, not by this crate, so they pin field
//! numbers, attribute types and names.

#![expect(clippy::unwrap_used, reason = "a test ends here")]

use bytes::Bytes;
use prost::Message as _;
use protocol::wire::authapi::{AuthRequest, AuthResponse};
use protocol::wire::cloudevents::CloudEvent;
use protocol::wire::cloudevents::cloud_event::cloud_event_attribute_value::Attr;
use protocol::wire::eventstreamapi;
use protocol::{Event, Kind, ObjectKey, Target, Verb, payload};

fn fixture(hex: &str) -> Bytes {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn cloud_event(hex: &str) -> CloudEvent {
    eventstreamapi::Event::decode(fixture(hex))
        .unwrap()
        .event
        .unwrap()
}

/// Encodes an event: the result must have the attributes, types and body that were read.
fn written_back(event: Event, source: &str) -> CloudEvent {
    let frame = eventstreamapi::Event {
        event: Some(event.into_cloud_event(source)),
    };
    eventstreamapi::Event::decode(Bytes::from(frame.encode_to_vec()))
        .unwrap()
        .event
        .unwrap()
}

#[test]
fn a_create_is_read_and_written_as_go_does_it() {
    let raw = cloud_event(include_str!("fixtures/create.hex"));
    let event = Event::try_from(raw.clone()).unwrap();
    assert_eq!(event.target, Target::Object(Kind::Application));
    assert_eq!(event.verb, Verb::Create);
    assert_eq!(
        event.object(),
        Some(ObjectKey::new(Kind::Application, "agent-a", "guestbook"))
    );
    assert_eq!(event.resource_id, "guestbook_1111");
    assert_eq!(event.event_id, "guestbook_1111_42");
    assert_eq!(event.principal_uid.as_deref(), Some("p-1"));
    assert_eq!(
        event.payload.as_ref(),
        br#"{"metadata":{"name":"guestbook"}}"#
    );
    assert_eq!(written_back(event, ""), raw);
}

#[test]
fn an_acknowledgement_echoes_every_extension_and_nothing_else() {
    let create = Event::try_from(cloud_event(include_str!("fixtures/create.hex"))).unwrap();
    let expected = cloud_event(include_str!("fixtures/ack.hex"));
    assert_eq!(
        written_back(create.ack(), "agent://agent-managed"),
        expected
    );
}

#[test]
fn the_target_is_a_uri_or_a_go_agent_does_not_see_it() {
    let written = written_back(Event::ping(), "agent://agent-managed");
    let schema = written
        .attributes
        .get("dataschema")
        .unwrap()
        .attr
        .clone()
        .unwrap();
    assert_eq!(schema, Attr::CeUri("heartbeat".to_owned()));
    assert!(!written.attributes.contains_key("datacontenttype"));
}

#[test]
fn control_messages_are_read_and_written_as_go_does_it() {
    for hex in [
        include_str!("fixtures/request-update.hex"),
        include_str!("fixtures/list.hex"),
        include_str!("fixtures/heartbeat.hex"),
    ] {
        let raw = cloud_event(hex);
        let event = Event::try_from(raw.clone()).unwrap();
        assert_eq!(written_back(event, "agent://agent-managed"), raw);
    }
    let raw = cloud_event(include_str!("fixtures/request-update.hex"));
    let event = Event::try_from(raw).unwrap();
    let body: payload::RequestUpdate = payload::decode("request-update", &event.payload).unwrap();
    assert_eq!(body.kind, "Application");
    assert_eq!(body.checksum.map(|sum| sum.len()), Some(32));
    assert_eq!(body.digest, None);
}

#[test]
fn a_request_has_its_http_verb_as_type() {
    let raw = cloud_event(include_str!("fixtures/resource-get.hex"));
    let event = Event::try_from(raw.clone()).unwrap();
    assert_eq!(event.target, Target::Resource);
    assert_eq!(event.verb.to_string(), "GET");
    assert_eq!(written_back(event, ""), raw);
}

#[test]
fn our_extra_fields_have_numbers_of_their_own() {
    let bytes = fixture(include_str!("fixtures/auth-request.hex"));
    let request = AuthRequest::decode(bytes.clone()).unwrap();
    assert_eq!(request.agent_namespace, "argocd");
    assert_eq!(request.capabilities, ["digest-resync", "heartbeat"]);
    assert_eq!(request.encode_to_vec(), bytes);

    let bytes = fixture(include_str!("fixtures/auth-response.hex"));
    let response = AuthResponse::decode(bytes.clone()).unwrap();
    assert_eq!(response.principal_namespace, "argocd");
    assert_eq!(
        (
            response.principal_uid.as_str(),
            response.agent_name.as_str()
        ),
        ("p-1", "agent-a")
    );
    assert_eq!(response.encode_to_vec(), bytes);
}
