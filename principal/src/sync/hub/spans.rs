//! The traces of the hub: a change's context is noted beside its mark, and continues with the reports of a cluster.
//!
//! Traces decide nothing, and none is created while tracing is off.

use protocol::{
    Event, Facet, ObjectKey, Target,
    trace::{AGENT_MODE, AGENT_NAME, Mark, UID, object_attributes, span_name},
};
use runtime::trace::{self, Context, Notes, Span};

use super::index::Index;
use crate::{
    domain::{Key, Sender},
    store::Report,
};

/// The component of each span.
const COMPONENT: &str = "principal";

/// The cause of a mark: a change that a watch reported. Its span begins with the first mark.
#[derive(Debug)]
pub(super) struct Cause {
    operation: &'static str,
    key: ObjectKey,
    uid: String,
    span: Option<Span>,
}

impl Cause {
    /// The cause of a watch report; none while tracing is off.
    pub(super) fn of(report: &Report, index: &Index) -> Option<Self> {
        if !trace::is_on() {
            return None;
        }
        let (operation, key, uid) = match report {
            Report::Applied(watched, object) => {
                let meta = object.meta();
                let key = ObjectKey::new(*watched, meta.namespace(), meta.name());
                let known = Key::from_object(&key);
                let is_new = known.is_some_and(|key| index.application(&key).is_none());
                let operation = if is_new { "create" } else { "update" };
                (operation, key, meta.uid().to_owned())
            }
            Report::Deleted {
                kind: watched,
                key,
                uid,
                is_seen: _,
            } => {
                let key = ObjectKey::new(*watched, &key.namespace, &key.name);
                ("delete", key, uid.clone())
            }
            Report::Synced(_) | Report::Rewound(_) | Report::GlobalProjects(_) => return None,
        };
        Some(Self {
            operation,
            key,
            uid,
            span: None,
        })
    }

    /// The context for one mark.
    pub(super) fn context(&mut self) -> Option<Context> {
        if self.span.is_none() {
            let attributes = object_attributes(COMPONENT, self.operation, &self.key).into_iter();
            let attributes = attributes.chain([(UID, self.uid.clone())]);
            self.span = Span::begin(span_name(self.operation, &self.key), None, attributes);
        }
        self.span.as_ref().map(Span::context)
    }
}

/// Drops the note of a mark for which no event is sent.
pub(super) fn unsent(notes: &Notes<Mark>, (key, facet): (&ObjectKey, Facet)) {
    if trace::is_on() {
        notes.forget(&(key.clone(), facet));
    }
}

/// The sent event, as a part of the change that it was marked for.
pub(super) fn sent(
    notes: &Notes<Mark>,
    (key, facet): (&ObjectKey, Facet),
    cluster: &str,
    mut event: Event,
) -> Event {
    if !trace::is_on() {
        return event;
    }
    let mut attributes = event.span_attributes(COMPONENT);
    attributes.push((AGENT_NAME, cluster.to_owned()));
    let mark = (key.clone(), facet);
    if let Some(span) = notes.begin(&mark, span_name("send", key), attributes) {
        event.set_trace(span.headers());
    }
    event
}

/// The span of applying an event of a cluster, below the span that the event claims as its parent.
pub(super) fn received(from: &Sender, event: &Event) -> Option<Span> {
    if !trace::is_on() || !matches!(event.target, Target::Object(_)) {
        return None;
    }
    let mode = if from.is_autonomous {
        "autonomous"
    } else {
        "managed"
    };
    let parent = event
        .trace()
        .and_then(|(parent, state)| Context::read(parent, state));
    let mut attributes = event.span_attributes(COMPONENT);
    attributes.extend([
        (AGENT_NAME, from.cluster.to_string()),
        (AGENT_MODE, mode.to_owned()),
    ]);
    Span::begin(event.span_name(), parent, attributes)
}

/// The span of one write to the hub's API, below the current span.
pub(super) fn writing(operation: &str, key: &ObjectKey) -> Option<Span> {
    let parent = Some(trace::current()?);
    let attributes = object_attributes(COMPONENT, operation, key);
    Span::begin(span_name(operation, key), parent, attributes)
}
