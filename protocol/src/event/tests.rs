use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::wire::cloudevents::cloud_event::cloud_event_attribute_value::Attr;
use crate::wire::cloudevents::cloud_event::{CloudEventAttributeValue, Data};

fn app() -> ObjectKey {
    ObjectKey::new(Kind::Application, "agent-a", "guestbook")
}

fn with(mut raw: CloudEvent, name: &str, attr: Attr) -> CloudEvent {
    raw.attributes.insert(
        name.to_owned(),
        CloudEventAttributeValue { attr: Some(attr) },
    );
    raw
}

fn text(value: &str) -> Attr {
    Attr::CeString(value.to_owned())
}

fn sample() -> CloudEvent {
    Event::about(
        &app(),
        Verb::SpecUpdate,
        "u",
        "1",
        Bytes::from_static(b"{}"),
    )
    .into_cloud_event("")
}

#[test]
fn identifiers_are_those_of_the_sender_and_commands_have_their_own() {
    let state = Event::about(&app(), Verb::SpecUpdate, "u", "7", Bytes::new());
    assert_eq!(
        (state.resource_id.as_str(), state.event_id.as_str()),
        ("guestbook_u", "guestbook_u_7")
    );
    let command = Event::about(&app(), Verb::SetOperation, "u", "7", Bytes::new());
    assert_eq!(command.resource_id, state.resource_id);
    assert_ne!(command.event_id, state.event_id);
    let stub = Event::about(&app(), Verb::Delete, "u", "", Bytes::new());
    assert_eq!(stub.event_id, "guestbook_u_");
}

#[test]
fn a_target_as_string_is_read_although_it_is_never_written() {
    let raw = with(sample(), "dataschema", text("application"));
    assert_eq!(
        Event::try_from(raw).unwrap().target,
        Target::Object(Kind::Application)
    );
}

#[test]
fn attributes_of_any_type_are_echoed_as_text() {
    let raw = with(sample(), "flag", Attr::CeBoolean(true));
    let raw = with(raw, "count", Attr::CeInteger(-3));
    let event = Event::try_from(raw).unwrap();
    assert_eq!(
        event.ack().extensions.get("flag").map(String::as_str),
        Some("true")
    );
    assert_eq!(
        event.ack().extensions.get("count").map(String::as_str),
        Some("-3")
    );
}

#[test]
fn an_event_without_resource_id_is_refused() {
    let mut raw = sample();
    raw.attributes.remove("resourceid");
    assert_eq!(Event::try_from(raw).unwrap_err(), Malformed::NoResourceId);
    assert_eq!(
        Event::try_from(CloudEvent::default()).unwrap_err(),
        Malformed::NoResourceId
    );
}

#[test]
fn unknown_targets_and_verbs_can_still_be_acknowledged() {
    let raw = with(sample(), "dataschema", Attr::CeUri("brand-new".to_owned()));
    let unread = read(raw).unwrap_err();
    assert_eq!(unread.why, Malformed::UnknownTarget("brand-new".to_owned()));
    assert_eq!(unread.answer.unwrap().ack().event_id, "guestbook_u_1");

    let mut raw = sample();
    raw.r#type = "io.argoproj.argocd-agent.event".to_owned();
    assert!(matches!(
        read(raw).unwrap_err().why,
        Malformed::UnknownVerb(_)
    ));
}

#[test]
fn an_event_about_an_object_must_name_it() {
    for subject in ["", "guestbook", "a/", "a/b/c"] {
        let raw = with(sample(), "subject", text(subject));
        assert!(
            matches!(Event::try_from(raw).unwrap_err(), Malformed::BadSubject(_)),
            "{subject}"
        );
    }
    let raw = with(sample(), "subject", text("/cluster-wide"));
    assert_eq!(
        Event::try_from(raw).unwrap().object().unwrap().namespace,
        ""
    );
}

/// argocd-agent before 0.9 sends no subject, and the whole object with each event.
#[test]
fn an_event_without_subject_is_named_by_its_object() {
    let named = |body: &str| {
        let mut raw = with(sample(), "subject", text("a/b"));
        raw.attributes.remove("subject");
        raw.data = Some(Data::TextData(body.to_owned()));
        Event::try_from(raw).map(|event| event.subject)
    };
    let body = r#"{"kind": "Application", "metadata": {"labels": {"a": "b"}, "namespace": "argocd", "name": "g\u0075est"}}"#;
    assert_eq!(named(body), Ok(Some("argocd/guest".to_owned())));
    let cluster_wide = r#"{"metadata": {"name": "guest"}}"#;
    assert_eq!(named(cluster_wide), Ok(Some("/guest".to_owned())));
    let long = format!(r#"{{"metadata": {{"name": "{}"}}}}"#, "x".repeat(10_000));
    for body in [
        "",
        "{}",
        "[",
        r#"{"metadata": {"name": ""}}"#,
        r#"{"metadata": {"name": "a/b"}}"#,
        r#"{"metadata": {"namespace": "a/b", "name": "c"}}"#,
        r#"{"metadata": {"name": 1}}"#,
        &long,
    ] {
        assert!(
            matches!(named(body), Err(Malformed::BadSubject(_))),
            "{body}"
        );
    }
}

#[test]
fn huge_identifiers_and_extensions_are_refused() {
    let long = "x".repeat(10_000);
    assert!(Event::try_from(with(sample(), "resourceid", text(&long))).is_err());
    assert!(Event::try_from(with(sample(), "subject", text(&format!("a/{long}")))).is_err());
    assert!(Event::try_from(with(sample(), "traceparent", text(&long))).is_err());
    let many = (0..100).fold(sample(), |raw, n| with(raw, &format!("x{n}"), text("y")));
    assert_eq!(
        Event::try_from(many).unwrap_err(),
        Malformed::TooLong("extensions")
    );
    let half = "x".repeat(5_000);
    let heavy = with(with(sample(), "a", text(&half)), "b", text(&half));
    let unread = read(heavy).unwrap_err();
    assert_eq!(unread.why, Malformed::TooLong("extensions"));
    let answer = unread.answer.expect("the sender gets a rejection");
    assert!(answer.ack().extensions.is_empty(), "nothing is echoed");
    // a quoted text is truncated
    let Malformed::UnknownTarget(quoted) =
        Event::try_from(with(sample(), "dataschema", text(&long))).unwrap_err()
    else {
        panic!("expected an unknown target")
    };
    assert_eq!(quoted.len(), 64);
}

#[test]
fn a_body_is_never_printed() {
    let event = Event::about(
        &app(),
        Verb::Create,
        "u",
        "1",
        Bytes::from_static(b"hunter2"),
    );
    assert!(!format!("{event:?}").contains("hunter2"));
}

#[test]
fn bodies_are_decoded_as_go_would() {
    let empty: payload::RequestUpdate = payload::decode("x", &Bytes::new()).unwrap();
    assert_eq!(empty, payload::RequestUpdate::default());
    let nulls = Bytes::from_static(br#"{"name":null,"checksum":"","new":1}"#);
    let body: payload::RequestUpdate = payload::decode("x", &nulls).unwrap();
    assert_eq!(body.checksum, Some(Vec::new()));
    let list = payload::encode(&payload::SyncedResourceList::default());
    assert_eq!(list.as_ref(), br#"{"checksum":null}"#);
    for hostile in ["{\"name\":1}", "[5]", "{\"checksum\":\"%%\"}", "nul"] {
        let body = Bytes::copy_from_slice(hostile.as_bytes());
        assert!(
            payload::decode::<payload::RequestUpdate>("x", &body).is_err(),
            "{hostile}"
        );
    }
    let deep = Bytes::from("[".repeat(100_000));
    assert!(payload::decode::<payload::RequestUpdate>("x", &deep).is_err());
}

fn attr() -> impl Strategy<Value = Attr> {
    prop_oneof![
        any::<bool>().prop_map(Attr::CeBoolean),
        any::<i32>().prop_map(Attr::CeInteger),
        ".{0,20}".prop_map(Attr::CeString),
        "application|heartbeat|resource|.{0,9}".prop_map(Attr::CeUri),
        proptest::collection::vec(any::<u8>(), 0..9).prop_map(|bytes| Attr::CeBytes(bytes.into())),
        (any::<i64>(), any::<i32>()).prop_map(|(seconds, nanos)| Attr::CeTimestamp(
            prost_types::Timestamp { seconds, nanos }
        )),
    ]
}

fn attribute_name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("dataschema".to_owned()),
        Just("resourceid".to_owned()),
        Just("eventid".to_owned()),
        Just("subject".to_owned()),
        Just("sentat".to_owned()),
        "[a-z]{1,9}",
    ]
}

proptest! {
    #[test]
    fn any_cloud_event_is_decoded_or_rejected(
        attributes in proptest::collection::hash_map(attribute_name(), attr(), 0..12),
        kind in prop_oneof![Just("io.argoproj.argocd-agent.event.create".to_owned()), ".{0,40}"],
        body in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40)),
    ) {
        let raw = CloudEvent {
            r#type: kind,
            attributes: attributes
                .into_iter()
                .map(|(name, attr)| (name, CloudEventAttributeValue { attr: Some(attr) }))
                .collect(),
            data: body.map(|bytes| Data::BinaryData(bytes.into())),
            ..CloudEvent::default()
        };
        if let Ok(event) = Event::try_from(raw) {
            // an encoded event decodes to the same event
            let again = Event::try_from(event.clone().into_cloud_event("x")).unwrap();
            prop_assert_eq!(again, event);
        }
    }

    #[test]
    fn bytes_from_a_peer_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        use prost::Message as _;
        if let Ok(raw) = CloudEvent::decode(Bytes::from(bytes)) {
            drop(Event::try_from(raw));
        }
    }
}

#[test]
fn spoke_info_fields_are_optional_and_unknown_values_are_read() {
    let read = |text: &'static str| {
        let body = Bytes::from_static(text.as_bytes());
        payload::decode::<payload::SpokeInfo>("x", &body).map(|body| body.argo_cd)
    };
    // Counters only, as a Go agent sends them.
    assert_eq!(read(r#"{"applicationsCount":3}"#).unwrap(), None);
    assert_eq!(
        read(r#"{"argoCd":"elsewhere"}"#).unwrap(),
        Some(payload::ArgoCd::Other)
    );
    let stated = payload::SpokeInfo {
        argo_cd: Some(payload::ArgoCd::Missing),
        ..payload::SpokeInfo::default()
    };
    let event = Event::spoke_info(&stated);
    assert_eq!(event.payload.as_ref(), br#"{"argoCd":"missing"}"#);
    assert_eq!(event.verb, Verb::ClusterInfoUpdate);
    // Either end reads the counts that the other one sends.
    let counted = payload::ClusterInfo {
        applications_count: 3,
        apis_count: 4,
        resources_count: 5,
    };
    let read: payload::SpokeInfo =
        payload::decode("x", &Event::cluster_info(&counted).payload).unwrap();
    assert_eq!(
        (
            read.applications_count,
            read.apis_count,
            read.resources_count
        ),
        (Some(3), Some(4), Some(5))
    );
}

#[test]
fn each_verb_has_its_own_event_id_for_one_version() {
    let key = ObjectKey::new(Kind::Application, "argocd", "app");
    let id = |verb, version| Event::about(&key, verb, "u", version, Bytes::new()).event_id;
    let stated = [
        Verb::SpecUpdate,
        Verb::SetOperation,
        Verb::TerminateOperation,
        Verb::Delete,
    ];
    let names: BTreeSet<_> = stated.into_iter().map(|verb| id(verb, "7")).collect();
    assert_eq!(names.len(), stated.len(), "{names:?}");
    assert_eq!(id(Verb::SpecUpdate, "7"), "app_u_7", "as in Go");
    assert_eq!(id(Verb::Delete, ""), "app_u_", "answers a request-update");
}
