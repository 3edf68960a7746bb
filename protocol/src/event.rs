//! One message of the event stream, checked.
//!
//! Only this module parses CloudEvents. A message of a peer becomes an [`Event`], or a [`Malformed`] that can still
//! be acknowledged if it has the identifiers for that. Nothing panics, and everything that is kept has a bound.

use bytes::Bytes;
use serde::Serialize;
use std::collections::BTreeMap;
use uuid::Uuid;

use crate::object::{Facet, Kind, ObjectKey};
use crate::payload;
use crate::wire::cloudevents::CloudEvent;

mod codec;
mod words;

pub(crate) use codec::decode as read;

#[cfg(test)]
mod tests;

/// The subject of an event (`dataschema`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
#[display("{}", self.as_str())]
pub enum Target {
    /// A replicated object.
    Object(Kind),
    /// An ApplicationSet; only between Go replicas.
    ApplicationSet,
    /// An acknowledgement.
    Ack,
    /// A request to the spoke's API, or its response.
    Resource,
    /// A request to the spoke's redis, or its response.
    Redis,
    /// Control messages of the resync.
    Resync,
    /// Counters for the hub's page of clusters.
    ClusterInfo,
    /// A request for container logs.
    ContainerLog,
    /// A request for a terminal.
    Terminal,
    /// A heartbeat.
    Heartbeat,
}

/// The operation of an event (`type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
#[display("{}", self.as_str())]
pub enum Verb {
    /// A heartbeat.
    Ping,
    /// The response to a heartbeat; no implementation sends it.
    Pong,
    /// The object, perhaps for the first time.
    Create,
    /// The object is gone at its owner.
    Delete,
    /// The object as its owner wants it.
    SpecUpdate,
    /// The object as the spoke sees it.
    StatusUpdate,
    /// Start an operation.
    SetOperation,
    /// Stop the running operation.
    TerminateOperation,
    /// An acknowledgement.
    Processed,
    /// Part of the protocol, but no implementation sends it.
    Get,
    /// Response of the resource proxy.
    Response,
    /// Request to redis.
    RedisRequest,
    /// Response of redis.
    RedisResponse,
    /// Resync: asks for the list of the peer's objects, unless it has this checksum. Between our own ends: the end of a
    /// list.
    RequestSyncedResourceList,
    /// Resync: one object of such a list.
    ResponseSyncedResource,
    /// Resync: the sender has this object and asks for a newer version.
    RequestUpdate,
    /// Resync: asks for a list of all objects of the peer.
    RequestResourceResync,
    /// Counters.
    ClusterInfoUpdate,
    /// Open a terminal.
    TerminalRequest,
    /// Something failed on the spoke.
    Error,
    /// An HTTP verb of a resource or log request.
    Http(Method),
}

/// The HTTP verbs that requests use as their type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// GET
    Get,
    /// POST
    Post,
    /// PATCH
    Patch,
    /// DELETE
    Delete,
}

/// One message.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
pub struct Event {
    /// Its subject.
    pub target: Target,
    /// Its operation.
    pub verb: Verb,
    /// Orders events, and with `event_id` names one for its acknowledgement: `<name>_<uid>`.
    pub resource_id: String,
    /// Names this event: `<name>_<uid>_<resourceVersion>`; a response has the id of its request.
    pub event_id: String,
    /// `<namespace>/<name>` for objects.
    pub subject: Option<String>,
    /// Identity of the principal, on objects that it owns.
    #[debug(skip)]
    pub principal_uid: Option<String>,
    /// Time of the first send, RFC 3339. Optional; peers only log it.
    #[debug(skip)]
    pub sent_at: Option<String>,
    /// Other extensions: the trace context and extensions of later versions. An acknowledgement echoes them.
    #[debug(skip)]
    pub extensions: BTreeMap<String, String>,
    /// The JSON body. It may contain a Secret, so only its length is printed.
    #[debug("{} bytes", payload.len())]
    pub payload: Bytes,
}

/// Why a CloudEvent is not an event of this protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// `dataschema` is missing, of another attribute type than URI or string, or unknown.
    #[error("unknown target {0:?}")]
    UnknownTarget(String),
    /// `type` is unknown.
    #[error("unknown event type {0:?}")]
    UnknownVerb(String),
    /// It has no `resourceid`, so we can neither order nor acknowledge it.
    #[error("no resource id")]
    NoResourceId,
    /// An identifier or an extension is too long, or there are too many of them.
    #[error("attribute {0} is too long")]
    TooLong(&'static str),
    /// An event about an object does not name the object.
    #[error("subject {0:?} is not namespace/name")]
    BadSubject(String),
}

/// A frame that is not a valid event, and the part of it that can still be acknowledged.
#[derive(Debug)]
pub(crate) struct Unread {
    pub(crate) why: Malformed,
    pub(crate) answer: Option<Box<Event>>,
}

impl Event {
    /// An event about an object.
    ///
    /// `uid` and `resource_version` are those of the sender's object. Commands and deletes have event ids of their
    /// own: otherwise a late acknowledgement of the state of the same version would also acknowledge the command or
    /// the delete. A delete without a version answers a request-update.
    pub fn about(
        key: &ObjectKey,
        verb: Verb,
        uid: &str,
        resource_version: &str,
        payload: Bytes,
    ) -> Self {
        let suffix = if verb == Verb::SetOperation {
            "_operation"
        } else if verb == Verb::TerminateOperation {
            "_terminate"
        } else if verb == Verb::Delete && !resource_version.is_empty() {
            "_delete"
        } else {
            ""
        };
        Self {
            subject: Some(key.subject()),
            ..Self::named(
                (Target::Object(key.kind), verb),
                format!("{}_{uid}", key.name),
                format!("{}_{uid}_{resource_version}{suffix}", key.name),
                payload,
            )
        }
    }

    /// An event with this identity and nothing optional.
    const fn named(
        (target, verb): (Target, Verb),
        resource_id: String,
        event_id: String,
        payload: Bytes,
    ) -> Self {
        Self {
            target,
            verb,
            resource_id,
            event_id,
            subject: None,
            principal_uid: None,
            sent_at: None,
            extensions: BTreeMap::new(),
            payload,
        }
    }

    /// Adds the principal's identity to the event.
    #[must_use]
    pub fn from_principal(mut self, uid: &str) -> Self {
        self.principal_uid = Some(uid.to_owned());
        self
    }

    /// A message that is not about an object; it gets a new identity.
    pub fn control(target: Target, verb: Verb, payload: Bytes) -> Self {
        let id = Uuid::new_v4().to_string();
        Self::named((target, verb), id.clone(), id, payload)
    }

    /// A message with this body that is not about an object.
    fn with_body(target: Target, verb: Verb, body: &impl Serialize) -> Self {
        Self::control(target, verb, payload::encode(body))
    }

    /// Resync: the sender has this object.
    pub fn request_update(body: &payload::RequestUpdate) -> Self {
        Self::with_body(Target::Resync, Verb::RequestUpdate, body)
    }

    /// Resync: the end of the sender's list (between our own ends), or a request for the peer's list (Go).
    pub fn request_synced_resource_list(body: &payload::SyncedResourceList) -> Self {
        Self::with_body(Target::Resync, Verb::RequestSyncedResourceList, body)
    }

    /// Resync: one object that the peer should have.
    pub fn response_synced_resource(body: &payload::SyncedResource) -> Self {
        Self::with_body(Target::Resync, Verb::ResponseSyncedResource, body)
    }

    /// Resync: asks for a list of all objects of the peer.
    pub fn request_resource_resync() -> Self {
        Self::resync_request(&payload::ResyncRequest::default())
    }

    /// Resync, between our own ends: asks for some of the peer's objects, or for checksums over them.
    pub fn resync_request(body: &payload::ResyncRequest) -> Self {
        Self::with_body(Target::Resync, Verb::RequestResourceResync, body)
    }

    /// Something failed on the spoke.
    pub fn error(kind: Kind, body: &payload::ErrorReport) -> Self {
        Self::with_body(Target::Object(kind), Verb::Error, body)
    }

    /// Counters for the hub's page of clusters.
    pub fn cluster_info(body: &payload::ClusterInfo) -> Self {
        Self::with_body(Target::ClusterInfo, Verb::ClusterInfoUpdate, body)
    }

    /// Facts about the spoke, for our own principal.
    pub fn spoke_info(body: &payload::SpokeInfo) -> Self {
        Self::with_body(Target::ClusterInfo, Verb::ClusterInfoUpdate, body)
    }

    /// A live request to a Go agent: to the spoke's API, to its redis, or for a log.
    ///
    /// `uuid` correlates the response; the body has it too.
    pub fn live_request(target: Target, verb: Verb, uuid: &str, payload: Bytes) -> Self {
        Self {
            resource_id: uuid.to_owned(),
            event_id: uuid.to_owned(),
            ..Self::control(target, verb, payload)
        }
    }

    /// Whether it is a live request. The session sends one once: the client times out, and some requests write.
    pub(crate) const fn is_live_request(&self) -> bool {
        matches!(
            (self.target, self.verb),
            (Target::Resource | Target::ContainerLog, Verb::Http(_))
                | (Target::Redis, Verb::RedisRequest)
                | (Target::Terminal, Verb::TerminalRequest)
        )
    }

    /// The response to a request to the spoke's API; it has the event id of the request.
    pub fn resource_response(body: &payload::ResourceResponse) -> Self {
        Self {
            event_id: body.uuid.clone(),
            ..Self::with_body(Target::Resource, Verb::Response, body)
        }
    }

    /// The response to a request to the spoke's redis; it has the event id of the request.
    pub fn redis_response(body: &payload::RedisResponse) -> Self {
        Self {
            event_id: body.uuid.clone(),
            ..Self::with_body(Target::Redis, Verb::RedisResponse, body)
        }
    }

    /// A heartbeat.
    pub fn ping() -> Self {
        Self::control(Target::Heartbeat, Verb::Ping, Bytes::new())
    }

    /// The object that this event is about, if it is about one.
    pub fn object(&self) -> Option<ObjectKey> {
        let Target::Object(kind) = self.target else {
            return None;
        };
        let (namespace, name) = self.subject.as_deref()?.split_once('/')?;
        Some(ObjectKey::new(kind, namespace, name))
    }

    /// The facet of its object that it carries; none for control messages and error reports.
    pub fn facet(&self) -> Option<Facet> {
        let Target::Object(_) = self.target else {
            return None;
        };
        if matches!(self.verb, Verb::Create | Verb::SpecUpdate | Verb::Delete) {
            Some(Facet::State)
        } else if self.verb == Verb::StatusUpdate {
            Some(Facet::Status)
        } else if matches!(self.verb, Verb::SetOperation | Verb::TerminateOperation) {
            Some(Facet::Command)
        } else {
            None
        }
    }

    /// Bytes that the event keeps in memory: its body, identifiers and extensions.
    pub(crate) fn bytes(&self) -> usize {
        let optional = [&self.subject, &self.principal_uid, &self.sent_at];
        optional
            .into_iter()
            .flatten()
            .chain([&self.resource_id, &self.event_id])
            .map(String::len)
            .chain([self.payload.len(), codec::extension_bytes(&self.extensions)])
            .fold(0, usize::saturating_add)
    }

    /// Resource id and event id, with which an acknowledgement names it.
    pub(crate) fn identity(&self) -> (String, String) {
        (self.resource_id.clone(), self.event_id.clone())
    }

    /// The version in the event id of an event [about](Self::about) an object, or of its acknowledgement.
    pub(crate) fn version(&self) -> Option<&str> {
        let version = self.event_id.strip_prefix(&self.resource_id)?;
        let version = version.strip_prefix('_')?;
        Some(
            version
                .split_once('_')
                .map_or(version, |(version, _)| version),
        )
    }

    /// The acknowledgement: it echoes every extension and nothing else.
    #[must_use]
    pub fn ack(&self) -> Self {
        Self {
            target: Target::Ack,
            verb: Verb::Processed,
            subject: None,
            payload: Bytes::new(),
            ..self.clone()
        }
    }

    /// The event as Go reads it, from `source`.
    pub fn into_cloud_event(self, source: &str) -> CloudEvent {
        codec::encode(self, source)
    }
}

impl TryFrom<CloudEvent> for Event {
    type Error = Malformed;

    fn try_from(raw: CloudEvent) -> Result<Self, Malformed> {
        codec::decode(raw).map_err(|unread| unread.why)
    }
}
