//! Messages as the Go implementation writes them, byte for byte.
//!
//! `fixtures/from-go.txt` was written by a throw-away program that called the constructors of argocd-agent's own event
//! package and of its generated messages (main of August 2026, commit acb60cd1) and printed what protobuf made of them:
//! a name and the bytes in hexadecimal, one a line.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test ends here")]

use bytes::Bytes;
use prost::Message;
use protocol::wire::authapi::{AuthRequest, AuthResponse, RefreshTokenRequest};
use protocol::wire::cloudevents::CloudEvent;
use protocol::wire::cloudevents::cloud_event::Data;
use protocol::wire::eventstreamapi::{self, PushSummary};
use protocol::wire::logstreamapi::{LogStreamData, LogStreamResponse};
use protocol::wire::terminalstreamapi::TerminalStreamData;
use protocol::wire::versionapi::VersionResponse;
use protocol::{Event, Kind, ObjectKey, Target, Verb, payload};
use serde_json::Value;

/// Lines that are no events.
const OTHERS: [&str; 9] = [
    "auth-request",
    "auth-response",
    "refresh-request",
    "version-response",
    "push-summary",
    "log-data",
    "log-response",
    "terminal-data",
    "list-checksum",
];

fn all() -> impl Iterator<Item = (&'static str, Bytes)> {
    include_str!("fixtures/from-go.txt").lines().map(|line| {
        let (name, hex) = line.split_once(' ').unwrap();
        let digits: Vec<u8> = hex.bytes().collect();
        let bytes = digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap());
        (name, bytes.collect())
    })
}

fn bytes(name: &str) -> Bytes {
    let found = all().find(|(it, _)| *it == name);
    found.unwrap_or_else(|| panic!("no fixture {name}")).1
}

/// As Go wrote it, but for a body without any bytes, which is none for us; both ends read the two alike.
fn raw(name: &str) -> CloudEvent {
    let frame = eventstreamapi::Event::decode(bytes(name)).unwrap();
    let mut event = frame.event.unwrap();
    event.data = event
        .data
        .filter(|data| *data != Data::BinaryData(Bytes::new()));
    event
}

fn event(name: &str) -> Event {
    Event::try_from(raw(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// As it goes over the wire once more.
fn written(event: Event, source: &str) -> CloudEvent {
    let frame = eventstreamapi::Event {
        event: Some(event.into_cloud_event(source)),
    };
    let bytes = Bytes::from(frame.encode_to_vec());
    eventstreamapi::Event::decode(bytes).unwrap().event.unwrap()
}

#[test]
fn every_event_is_read_and_written_back_as_it_was() {
    let events: Vec<&str> = all()
        .map(|(name, _)| name)
        .filter(|name| !OTHERS.contains(name))
        .collect();
    assert!(events.len() >= 34, "{events:?}");
    for name in events {
        let raw = raw(name);
        assert_eq!(written(event(name), &raw.source), raw, "{name}");
    }
}

#[test]
fn objects_are_named_as_go_names_them() {
    let app = ObjectKey::new(Kind::Application, "agent-a", "guestbook");
    for (name, verb) in [
        ("application.create", Verb::Create),
        ("application.spec-update", Verb::SpecUpdate),
        ("application.status-update", Verb::StatusUpdate),
        ("application.delete", Verb::Delete),
        ("application.set-operation", Verb::SetOperation),
        ("application.terminate-operation", Verb::TerminateOperation),
    ] {
        let event = event(name);
        assert_eq!(
            (event.verb, event.object()),
            (verb, Some(app.clone())),
            "{name}"
        );
        assert_eq!(event.resource_id, "guestbook_1111");
        assert_eq!(event.event_id, "guestbook_1111_42");
        assert_eq!(event.principal_uid.as_deref(), Some("p-1"));
    }
    for (name, kind) in [
        ("appproject.create", Kind::AppProject),
        ("repository.create", Kind::Repository),
        ("gpgkey.create", Kind::GpgKey),
    ] {
        assert_eq!(
            event(name).object().map(|key| key.kind),
            Some(kind),
            "{name}"
        );
    }
}

#[test]
fn our_own_event_about_an_object_has_the_attributes_of_go() {
    let go = event("application.create");
    let key = go.object().unwrap();
    let ours = Event::about(&key, Verb::Create, "1111", "42", go.payload.clone());
    let ours = ours.from_principal("p-1");
    assert_eq!(written(ours, ""), raw("application.create"));
}

#[test]
fn our_acknowledgement_is_that_of_go() {
    let ack = event("application.create").ack();
    assert_eq!(written(ack, "agent://agent-managed"), raw("ack"));
}

#[test]
fn bodies_are_written_as_go_writes_them() {
    fn same<T: serde::de::DeserializeOwned + serde::Serialize + Default>(name: &'static str) -> T {
        let body = event(name).payload;
        let read: T = payload::decode(name, &body).unwrap();
        let json = |bytes: &Bytes| serde_json::from_slice::<Value>(bytes).unwrap();
        assert_eq!(json(&payload::encode(&read)), json(&body), "{name}");
        read
    }
    let none: payload::SyncedResourceList = same("list.null");
    assert_eq!(none.checksum, None);
    let empty: payload::SyncedResourceList = same("list.empty");
    assert_eq!(empty.checksum, Some(vec![]));
    let some: payload::SyncedResourceList = same("list.some");
    assert_eq!(some.checksum, Some(vec![1, 2, 255]));
    let update: payload::RequestUpdate = same("request-update");
    assert_eq!(update.checksum, Some(vec![9, 8, 7]));
    let unknown: payload::RequestUpdate = same("request-update.unknown");
    assert!(unknown.uid.is_empty() && unknown.checksum.is_none());
    let _resource: payload::SyncedResource = same("synced-resource");
    let _error: payload::ErrorReport = same("error");
    let info: payload::ClusterInfo = same("cluster-info");
    assert_eq!(info.resources_count, 3);
    let everything: payload::ResyncRequest = same("resource-resync");
    assert_eq!(everything, payload::ResyncRequest::default());
}

#[test]
fn live_request_events_have_verb_and_request_id() {
    for (name, target, verb) in [
        ("resource.get", Target::Resource, "GET"),
        ("resource.patch", Target::Resource, "PATCH"),
        ("log-request", Target::ContainerLog, "GET"),
    ] {
        let event = event(name);
        assert_eq!(
            (event.target, event.verb.to_string().as_str()),
            (target, verb),
            "{name}"
        );
        assert_eq!(event.resource_id, event.event_id, "{name}");
    }
    let answer = event("resource.response");
    assert_eq!(
        (answer.verb, answer.event_id.as_str()),
        (Verb::Response, "5555")
    );
    assert_ne!(answer.resource_id, answer.event_id);
    assert_eq!(event("redis.got").event_id, "7777");
    assert_eq!(event("terminal-request").event_id, "8888");
}

#[test]
fn messages_around_the_stream_have_the_fields_of_go() {
    fn same<T: Message + Default>(name: &str) -> T {
        let bytes = bytes(name);
        let read = T::decode(bytes.clone()).unwrap();
        assert_eq!(Bytes::from(read.encode_to_vec()), bytes, "{name}");
        read
    }
    let request: AuthRequest = same("auth-request");
    assert_eq!(
        (request.mode.as_str(), request.agent_namespace.as_str()),
        ("managed", "argocd")
    );
    let response: AuthResponse = same("auth-response");
    assert_eq!(response.principal_namespace, "argocd");
    assert!(response.capabilities.is_empty());
    let _refresh: RefreshTokenRequest = same("refresh-request");
    let version: VersionResponse = same("version-response");
    assert_eq!(version.version, "argocd-agent-0.5.0");
    let _summary: PushSummary = same("push-summary");
    let log: LogStreamData = same("log-data");
    assert_eq!(log.data, b"line\n".as_slice());
    let _answer: LogStreamResponse = same("log-response");
    let terminal: TerminalStreamData = same("terminal-data");
    assert_eq!((terminal.rows, terminal.cols), (24, 80));
}
