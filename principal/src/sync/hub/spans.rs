//! The traces of the hub: a change's context is noted beside its mark, and continues with the reports of a cluster.
//!
//! Traces decide nothing, and none is created while tracing is off.

use argocd::Meta;
use protocol::{
    Event, Facet, ObjectKey, Target,
    trace::{self as words, AGENT_MODE, AGENT_NAME, Attribute, COMPONENT, Matter, UID},
};
use runtime::trace::{self, Context, Note, Notes, Span, Spot};

use super::index::Index;
use crate::{
    domain::{Key, Sender},
    store::Report,
};

/// The component of each span.
fn component() -> Attribute {
    (COMPONENT, "principal".to_owned())
}

/// The cause of a mark: a change that a watch reported. Its span begins with the first mark.
#[derive(Debug)]
pub(super) struct Cause {
    spot: Option<Spot>,
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
                let meta = Meta::of(object);
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
            Report::Synced(_) | Report::Rewound(_) => return None,
        };
        let spot = Spot::new(words::doing(operation, &key))
            .with(words::of_object(operation, &key))
            .with([component(), (UID, uid)]);
        Some(Self {
            spot: Some(spot),
            span: None,
        })
    }

    /// The context for one mark.
    pub(super) fn context(&mut self) -> Option<Context> {
        if let Some(spot) = self.spot.take() {
            self.span = spot.begin();
        }
        self.span.as_ref().map(Span::context)
    }
}

/// Drops the note of a mark for which no event is sent.
pub(super) fn unsent(notes: &Notes<Matter>, (key, facet): (&ObjectKey, Facet)) {
    if trace::is_on() {
        drop(notes.take(&(key.clone(), facet)));
    }
}

/// The sent event, as a part of the change that it was marked for.
pub(super) fn sent(
    notes: &Notes<Matter>,
    (key, facet): (&ObjectKey, Facet),
    cluster: &str,
    mut event: Event,
) -> Event {
    if !trace::is_on() {
        return event;
    }
    let note = notes.take(&(key.clone(), facet));
    let begin = |note: Note| {
        let about = event.of_event();
        let of_us = [component(), (AGENT_NAME, cluster.to_owned())];
        note.begin(words::doing("send", key), about.into_iter().chain(of_us))
    };
    if let Some(span) = note.and_then(begin) {
        event.carry(span.words());
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
    Spot::new(event.span())
        .under_claim(event.trace())
        .with(event.of_event())
        .with([
            component(),
            (AGENT_NAME, from.cluster.to_string()),
            (AGENT_MODE, mode.to_owned()),
        ])
        .begin()
}

/// The span of one write to the hub's API, below the current span.
pub(super) fn writing(operation: &str, key: &ObjectKey) -> Option<Span> {
    let context = trace::current()?;
    Spot::new(words::doing(operation, key))
        .under(Some(context))
        .with(words::of_object(operation, key))
        .with([component()])
        .begin()
}
