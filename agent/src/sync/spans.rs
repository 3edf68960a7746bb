//! Traces of the agent: spans for the hub's changes, and for the reports that follow from them.
//!
//! Argo CD does not support traces, so a report about an object shortly after a change of the hub joins the trace of that
//! change. Traces influence no decision, and without a collector there are none.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use protocol::trace::{AGENT_MODE, AGENT_NAME, Mark, object_attributes, span_name};
use protocol::{Event, Facet, Mode, ObjectKey, Target};
use runtime::trace::{self, Context, Notes, Span};
use tokio::time::Instant;

use crate::lock::lock;
use crate::transport::Welcome;

/// How long after a change reports about its object join the trace.
const LASTS: Duration = Duration::from_mins(5);
/// The most reports per change: an object that changes all the time would make an endless trace.
const MOST_REPORTS: u32 = 20;
/// The most objects whose last change is remembered.
const MOST_CHANGES: usize = 1000;

const COMPONENT: &str = "agent";

/// The traces of recent changes and pending reports. Empty without a collector.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    notes: Notes<Mark>,
    // Locked for a lookup, never over an await.
    changes: Mutex<HashMap<ObjectKey, Change>>,
}

/// A current or recent change of the hub.
#[derive(Debug)]
struct Change {
    context: Context,
    until: Instant,
    reports: u32,
}

impl Traces {
    /// Remembers that the current trace changes this object.
    pub(crate) fn changing(&self, key: &ObjectKey) {
        if let Some(context) = trace::current() {
            self.remember(key, context);
        }
    }

    fn remember(&self, key: &ObjectKey, context: Context) {
        let now = Instant::now();
        let mut changes = lock(&self.changes);
        if changes.len() >= MOST_CHANGES {
            changes.retain(|_, change| change.until > now);
        }
        if changes.len() < MOST_CHANGES || changes.contains_key(key) {
            let change = Change {
                context,
                until: now + LASTS,
                reports: 0,
            };
            changes.insert(key.clone(), change);
        }
    }

    /// Starts a span for a pending report: in the current trace, or else in that of the object's last change.
    pub(crate) fn changed(&self, key: &ObjectKey, facet: Facet) {
        if let Some(span) = self.begin("update", key) {
            self.notes.note((key.clone(), facet), span.context());
        }
    }

    /// Adds a span to the event of a deletion.
    pub(crate) fn deleted(&self, key: &ObjectKey, event: &mut Event) {
        if let Some(span) = self.begin("delete", key) {
            event.set_trace(span.headers());
        }
    }

    fn begin(&self, operation: &str, key: &ObjectKey) -> Option<Span> {
        if !trace::is_on() {
            return None;
        }
        begin(operation, key, trace::current().or_else(|| self.cause(key)))
    }

    fn cause(&self, key: &ObjectKey) -> Option<Context> {
        let mut changes = lock(&self.changes);
        let change = changes.get_mut(key)?;
        change.reports = change.reports.saturating_add(1);
        if change.reports > MOST_REPORTS || change.until <= Instant::now() {
            changes.remove(key);
            return None;
        }
        Some(change.context.clone())
    }

    /// Adds a span to a sent event, in the trace that marked it; without an event the mark is dropped.
    pub(crate) fn sent(
        &self,
        key: &ObjectKey,
        facet: Facet,
        mode: Mode,
        event: Option<Event>,
    ) -> Option<Event> {
        if !trace::is_on() {
            return event;
        }
        let mark = (key.clone(), facet);
        let Some(mut event) = event else {
            self.notes.forget(&mark);
            return None;
        };
        let mut attributes = event.span_attributes(COMPONENT);
        attributes.push((AGENT_MODE, mode.to_string()));
        if let Some(span) = self.notes.begin(&mark, span_name("send", key), attributes) {
            event.set_trace(span.headers());
        }
        Some(event)
    }
}

/// The span of the work for a message about an object, in the trace that the message names.
pub(crate) fn received(event: &Event, mode: Mode, welcome: &Welcome) -> Option<Span> {
    if !trace::is_on() || !matches!(event.target, Target::Object(_)) {
        return None;
    }
    let name = welcome.agent_name.clone().unwrap_or_default();
    let parent = event
        .trace()
        .and_then(|(parent, state)| Context::read(parent, state));
    let mut attributes = event.span_attributes(COMPONENT);
    attributes.extend([(AGENT_NAME, name), (AGENT_MODE, mode.to_string())]);
    Span::begin(event.span_name(), parent, attributes)
}

/// The span of one write to the spoke's API, in the current trace.
pub(crate) fn writing(operation: &str, key: &ObjectKey) -> Option<Span> {
    begin(operation, key, Some(trace::current()?))
}

fn begin(operation: &str, key: &ObjectKey, parent: Option<Context>) -> Option<Span> {
    let attributes = object_attributes(COMPONENT, operation, key);
    Span::begin(span_name(operation, key), parent, attributes)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use protocol::{Kind, Verb};

    use super::*;

    fn app(name: &str) -> ObjectKey {
        ObjectKey::new(Kind::Application, "argocd", name)
    }

    fn context() -> Context {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        Context::read(parent, None).unwrap()
    }

    #[test]
    fn without_a_collector_there_are_no_traces() {
        let traces = Traces::default();
        let key = app("a");
        traces.changing(&key);
        traces.changed(&key, Facet::Status);
        let mut event = Event::about(&key, Verb::Delete, "uid", "7", Bytes::new());
        traces.deleted(&key, &mut event);
        let stated = traces.sent(&key, Facet::Status, Mode::Managed, Some(event));
        assert_eq!(stated.unwrap().trace(), None);
        assert!(traces.notes.is_empty() && lock(&traces.changes).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn reports_join_the_trace_of_a_recent_change_only() {
        let traces = Traces::default();
        traces.remember(&app("a"), context());
        assert_eq!(traces.cause(&app("a")), Some(context()));
        assert_eq!(traces.cause(&app("b")), None);
        tokio::time::advance(LASTS).await;
        assert_eq!(traces.cause(&app("a")), None);
        // An object that changes all the time stops joining.
        traces.remember(&app("a"), context());
        let joined = (0..100).filter(|_| traces.cause(&app("a")).is_some());
        assert_eq!(joined.count(), 20);
    }

    #[tokio::test(start_paused = true)]
    async fn remembered_changes_are_bounded_and_expire() {
        let traces = Traces::default();
        for number in 0..5000 {
            traces.remember(&app(&number.to_string()), context());
        }
        assert_eq!(lock(&traces.changes).len(), MOST_CHANGES);
        assert_eq!(traces.cause(&app("4999")), None);
        tokio::time::advance(LASTS).await;
        traces.remember(&app("new"), context());
        assert_eq!(lock(&traces.changes).len(), 1);
    }
}
