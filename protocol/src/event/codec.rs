//! Converts CloudEvents to [`Event`]s and back, exactly as the Go implementation does.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use serde_json::Value;

use super::{Event, Malformed, Target, Unread, Verb};
use crate::payload;
use crate::wire::cloudevents::CloudEvent;
use crate::wire::cloudevents::cloud_event::cloud_event_attribute_value::Attr;
use crate::wire::cloudevents::cloud_event::{CloudEventAttributeValue, Data};

const SPEC_VERSION: &str = "1.0";
const JSON: &str = "application/json";

/// Names are at most 253 bytes, UIDs 36; four times the longest real identifier.
const LONGEST_ID: usize = 2048;
/// Bytes of all extensions of one event, names included. An acknowledgement echoes them, so they wait in memory with
/// it. A trace context, the largest extension, has 600 bytes; the reason of a rejection has 4 KiB at most.
const MOST_EXTENSION_BYTES: usize = 8192;
const MOST_EXTENSIONS: usize = 32;

/// Characters of a received attribute that an error message quotes.
const QUOTED: usize = 64;

/// Decodes an event; an error has the part that can still be acknowledged.
pub(crate) fn decode(mut raw: CloudEvent) -> Result<Event, Unread> {
    let mut take = |name| raw.attributes.remove(name).and_then(text);
    let resource_id = take("resourceid").unwrap_or_default();
    let event_id = take("eventid").unwrap_or_default();
    let unread = |why, answer| Err(Unread { why, answer });
    if resource_id.is_empty() {
        return unread(Malformed::NoResourceId, None);
    }
    if resource_id.len() > LONGEST_ID || event_id.len() > LONGEST_ID {
        // not echoed either
        return unread(Malformed::TooLong("resourceid"), None);
    }
    let kind = (Target::Ack, Verb::Processed);
    let mut event = Event::named(kind, resource_id, event_id, Bytes::new());
    match fill(&mut event, raw) {
        Ok(()) => Ok(event),
        Err(why) => unread(why, Some(Box::new(event))),
    }
}

/// Everything but the identity.
fn fill(event: &mut Event, raw: CloudEvent) -> Result<(), Malformed> {
    let CloudEvent {
        id: _,
        source: _,
        spec_version: _,
        r#type,
        mut attributes,
        data,
    } = raw;
    if attributes.len() > MOST_EXTENSIONS {
        return Err(Malformed::TooLong("extensions"));
    }
    let mut take = |name: &str| attributes.remove(name).and_then(text);
    let schema = take("dataschema").unwrap_or_default();
    take("datacontenttype");
    take("time");
    let mut short = |name| match take(name) {
        Some(value) if value.len() > LONGEST_ID => Err(Malformed::TooLong(name)),
        value => Ok(value),
    };
    event.subject = short("subject")?;
    event.principal_uid = short("principaluid")?;
    event.sent_at = short("sentat")?;
    event.extensions = extensions(attributes)?;
    event.target =
        Target::parse(&schema).ok_or_else(|| Malformed::UnknownTarget(quote(&schema)))?;
    event.verb = Verb::parse(&r#type).ok_or_else(|| Malformed::UnknownVerb(quote(&r#type)))?;
    event.payload = body(data);
    if event.subject.is_none() && event.facet().is_some() {
        event.subject = named_in(&event.payload);
    }
    check_subject(event)
}

/// The subject of an event of argocd-agent before 0.9, which sends none: the name of the object in the body.
fn named_in(body: &[u8]) -> Option<String> {
    let object = payload::decode_metadata("an event", body).ok()?;
    let metadata = object.get("metadata")?;
    let namespace = metadata.get("namespace").map_or(Some(""), Value::as_str)?;
    let subject = format!("{namespace}/{}", metadata.get("name")?.as_str()?);
    (subject.len() <= LONGEST_ID).then_some(subject)
}

pub(super) fn encode(event: Event, source: &str) -> CloudEvent {
    let Event {
        target,
        verb,
        resource_id,
        event_id,
        subject,
        principal_uid,
        sent_at,
        extensions,
        payload,
    } = event;
    let named = [
        ("resourceid", Some(resource_id)),
        ("eventid", Some(event_id)),
        ("subject", subject),
        ("principaluid", principal_uid),
        ("sentat", sent_at),
        (
            "datacontenttype",
            (!payload.is_empty()).then(|| JSON.to_owned()),
        ),
    ];
    let named = named
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let mut attributes: HashMap<_, _> = extensions
        .into_iter()
        .chain(named)
        .map(|(name, value)| (name, attribute(Attr::CeString(value))))
        .collect();
    // a Go peer reads an empty DataSchema() if this attribute is a string
    let schema = attribute(Attr::CeUri(target.to_string()));
    attributes.insert("dataschema".to_owned(), schema);
    let data = (!payload.is_empty()).then_some(Data::BinaryData(payload));
    CloudEvent {
        id: String::new(),
        source: source.to_owned(),
        spec_version: SPEC_VERSION.to_owned(),
        r#type: verb.to_type(),
        attributes,
        data,
    }
}

/// An event about an object must name it; without a name the session cannot coalesce it.
fn check_subject(event: &Event) -> Result<(), Malformed> {
    if event.facet().is_none() {
        return Ok(());
    }
    let subject = event.subject.as_deref().unwrap_or_default();
    match subject.split_once('/') {
        Some((_, name)) if !name.is_empty() && !name.contains('/') => Ok(()),
        Some(_) | None => Err(Malformed::BadSubject(quote(subject))),
    }
}

fn extensions(
    attributes: HashMap<String, CloudEventAttributeValue>,
) -> Result<BTreeMap<String, String>, Malformed> {
    let extensions: BTreeMap<String, String> = attributes
        .into_iter()
        .filter_map(|(name, value)| text(value).map(|value| (name, value)))
        .collect();
    if extension_bytes(&extensions) > MOST_EXTENSION_BYTES {
        return Err(Malformed::TooLong("extensions"));
    }
    Ok(extensions)
}

/// Bytes of the names and values of extensions.
pub(super) fn extension_bytes(extensions: &BTreeMap<String, String>) -> usize {
    extensions
        .iter()
        .map(|(name, value)| name.len().saturating_add(value.len()))
        .fold(0, usize::saturating_add)
}

fn body(data: Option<Data>) -> Bytes {
    match data {
        Some(Data::BinaryData(bytes)) => bytes,
        Some(Data::TextData(text)) => Bytes::from(text),
        Some(Data::ProtoData(any)) => any.value.into(),
        None => Bytes::new(),
    }
}

/// The canonical text of an attribute of any type.
fn text(value: CloudEventAttributeValue) -> Option<String> {
    match value.attr? {
        Attr::CeString(text) | Attr::CeUri(text) | Attr::CeUriRef(text) => Some(text),
        Attr::CeBoolean(flag) => Some(flag.to_string()),
        Attr::CeInteger(number) => Some(number.to_string()),
        Attr::CeTimestamp(stamp) => Some(format!("{}.{:09}", stamp.seconds, stamp.nanos)),
        // no attribute of this protocol is bytes
        Attr::CeBytes(_) => None,
    }
}

const fn attribute(attr: Attr) -> CloudEventAttributeValue {
    CloudEventAttributeValue { attr: Some(attr) }
}

fn quote(raw: &str) -> String {
    raw.chars().take(QUOTED).collect()
}
