//! One message of the engine's lane, checked.
//!
//! This is the only place that takes CloudEvents apart. Whatever a peer sends comes out as an [`Event`]
//! or as a [`Malformed`] that can still be acknowledged when it said enough for that; nothing panics and
//! nothing is kept that has no bound.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use uuid::Uuid;

use crate::object::{Facet, Kind, ObjectKey};
use crate::payload;
use crate::wire::cloudevents::CloudEvent;

mod codec;
mod words;

#[cfg(test)]
mod tests;

/// What an event is about (`dataschema`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// A replicated object.
    Object(Kind),
    /// An ApplicationSet; only between Go replicas.
    ApplicationSet,
    /// An acknowledgement.
    Ack,
    /// A request to the spoke's API, or its answer.
    Resource,
    /// A request to the spoke's redis, or its answer.
    Redis,
    /// Control messages of the resync.
    Resync,
    /// Counters for the hub's page of clusters.
    ClusterInfo,
    /// A request for container logs.
    ContainerLog,
    /// A request for a terminal.
    Terminal,
    /// A sign of life.
    Heartbeat,
}

/// What is said about it (`type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// A sign of life.
    Ping,
    /// Its answer; never sent by anybody.
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
    /// Known, used by nobody.
    Get,
    /// Answer of the resource proxy.
    Response,
    /// Question to redis.
    RedisRequest,
    /// Answer of redis.
    RedisResponse,
    /// Resync: say what you have, unless it is what this checksum says. Ours: the end of a list.
    RequestSyncedResourceList,
    /// Resync: one object of such a list.
    ResponseSyncedResource,
    /// Resync: I hold this; send what is newer.
    RequestUpdate,
    /// Resync: name everything that you hold.
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
#[derive(Clone, PartialEq, Eq)]
pub struct Event {
    /// What it is about.
    pub target: Target,
    /// What is said.
    pub verb: Verb,
    /// Orders events, and with `event_id` names one for its acknowledgement: `<name>_<uid>`.
    pub resource_id: String,
    /// Names this one: `<name>_<uid>_<resourceVersion>`, or what it answers.
    pub event_id: String,
    /// `<namespace>/<name>` for objects.
    pub subject: Option<String>,
    /// Identity of the principal, on what it owns.
    pub principal_uid: Option<String>,
    /// When it was first sent, RFC 3339. Set by the driver if it likes; peers only log it.
    pub sent_at: Option<String>,
    /// Other extensions: trace context, and whatever the future brings. An acknowledgement echoes them.
    pub extensions: BTreeMap<String, String>,
    /// The JSON body.
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
    /// It has no `resourceid`, so it can be neither ordered nor acknowledged.
    #[error("no resource id")]
    NoResourceId,
    /// An identifier or an extension is longer, or there are more of them, than anything real.
    #[error("attribute {0} is too long")]
    TooLong(&'static str),
    /// An object's event does not say which object.
    #[error("subject {0:?} is not namespace/name")]
    BadSubject(String),
}

/// A frame that is no event, and what can be acknowledged of it all the same.
#[derive(Debug)]
pub(crate) struct Unread {
    pub(crate) why: Malformed,
    pub(crate) answer: Option<Box<Event>>,
}

/// Reads a frame.
pub(crate) fn read(raw: CloudEvent) -> Result<Event, Unread> {
    codec::decode(raw)
}

impl Event {
    /// An event about an object.
    ///
    /// `uid` and `resource_version` are those of the sender's object. Commands and deletions get event ids of
    /// their own: were they equal to those of the state of the same version, a late acknowledgement of the
    /// state would take the command or the deletion for done. A deletion without a version answers a question.
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
            target: Target::Object(key.kind),
            verb,
            resource_id: format!("{}_{uid}", key.name),
            event_id: format!("{}_{uid}_{resource_version}{suffix}", key.name),
            subject: Some(key.subject()),
            principal_uid: None,
            sent_at: None,
            extensions: BTreeMap::new(),
            payload,
        }
    }

    /// The same event, stamped with the principal's identity.
    #[must_use]
    pub fn from_principal(mut self, uid: &str) -> Self {
        self.principal_uid = Some(uid.to_owned());
        self
    }

    /// A message that is about no object of its own; it gets a fresh identity.
    pub fn control(target: Target, verb: Verb, payload: Bytes) -> Self {
        let id = Uuid::new_v4().to_string();
        Self {
            target,
            verb,
            resource_id: id.clone(),
            event_id: id,
            subject: None,
            principal_uid: None,
            sent_at: None,
            extensions: BTreeMap::new(),
            payload,
        }
    }

    /// Resync: I hold this.
    pub fn request_update(body: &payload::RequestUpdate) -> Self {
        Self::control(Target::Resync, Verb::RequestUpdate, payload::encode(body))
    }

    /// Resync: that was all I hold (between our own ends), or: tell me what I should hold (Go).
    pub fn request_synced_resource_list(body: &payload::SyncedResourceList) -> Self {
        Self::control(
            Target::Resync,
            Verb::RequestSyncedResourceList,
            payload::encode(body),
        )
    }

    /// Resync: one object that you should hold.
    pub fn response_synced_resource(body: &payload::SyncedResource) -> Self {
        Self::control(
            Target::Resync,
            Verb::ResponseSyncedResource,
            payload::encode(body),
        )
    }

    /// Resync: name everything that you hold.
    pub fn request_resource_resync() -> Self {
        Self::control(
            Target::Resync,
            Verb::RequestResourceResync,
            Bytes::from_static(b"{}"),
        )
    }

    /// Resync, between our own ends: name some of what you hold, or the sums over it.
    pub fn resync_request(body: &payload::ResyncRequest) -> Self {
        let body = payload::encode(body);
        Self::control(Target::Resync, Verb::RequestResourceResync, body)
    }

    /// Something failed on the spoke.
    pub fn error(kind: Kind, body: &payload::ErrorReport) -> Self {
        Self::control(Target::Object(kind), Verb::Error, payload::encode(body))
    }

    /// Counters for the hub's page of clusters.
    pub fn cluster_info(body: &payload::ClusterInfo) -> Self {
        Self::control(
            Target::ClusterInfo,
            Verb::ClusterInfoUpdate,
            payload::encode(body),
        )
    }

    /// What there is on the spoke, for our own principal.
    pub fn spoke_info(body: &payload::SpokeInfo) -> Self {
        Self::control(
            Target::ClusterInfo,
            Verb::ClusterInfoUpdate,
            payload::encode(body),
        )
    }

    /// What people at the hub ask of a Go agent: a request to the spoke's API, a question to its redis, a log.
    ///
    /// Its answer is found by `uuid`, which is said in the body once more.
    pub fn question(target: Target, verb: Verb, uuid: &str, payload: Bytes) -> Self {
        Self {
            resource_id: uuid.to_owned(),
            event_id: uuid.to_owned(),
            ..Self::control(target, verb, payload)
        }
    }

    /// Whether it is one. It is asked once: whoever asks gives up in time, and some change something.
    pub(crate) const fn is_question(&self) -> bool {
        matches!(
            (self.target, self.verb),
            (Target::Resource | Target::ContainerLog, Verb::Http(_))
                | (Target::Redis, Verb::RedisRequest)
                | (Target::Terminal, Verb::TerminalRequest)
        )
    }

    /// The answer to a request to the spoke's API; it is found by the event id of the request.
    pub fn resource_response(body: &payload::ResourceResponse) -> Self {
        Self {
            event_id: body.uuid.clone(),
            ..Self::control(Target::Resource, Verb::Response, payload::encode(body))
        }
    }

    /// The answer to a question to the spoke's redis.
    pub fn redis_response(body: &payload::RedisResponse) -> Self {
        Self {
            event_id: body.uuid.clone(),
            ..Self::control(Target::Redis, Verb::RedisResponse, payload::encode(body))
        }
    }

    /// A sign of life.
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

    /// Which facet of its object it carries; none for control messages and error reports.
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

    /// Resource id and event id, by which an acknowledgement names it.
    pub(crate) fn identity(&self) -> (String, String) {
        (self.resource_id.clone(), self.event_id.clone())
    }

    /// The acknowledgement: every extension comes back, nothing else does.
    #[must_use]
    pub fn ack(&self) -> Self {
        Self {
            target: Target::Ack,
            verb: Verb::Processed,
            resource_id: self.resource_id.clone(),
            event_id: self.event_id.clone(),
            subject: None,
            principal_uid: self.principal_uid.clone(),
            sent_at: self.sent_at.clone(),
            extensions: self.extensions.clone(),
            payload: Bytes::new(),
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

impl fmt::Debug for Event {
    /// Without the payload: it may hold a Secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("target", &self.target)
            .field("verb", &self.verb)
            .field("resource_id", &self.resource_id)
            .field("event_id", &self.event_id)
            .field("subject", &self.subject)
            .field("payload_len", &self.payload.len())
            .finish_non_exhaustive()
    }
}
