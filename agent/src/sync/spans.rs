//! The traces of the spoke's side: what the hub says goes on here, and what comes of it is told as a part of it.
//!
//! Argo CD knows of no traces, so what it reports of an object shortly after the hub changed it is taken for what came of
//! that change. Nothing of this decides anything, and nothing of it is made while nobody wants traces.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol::trace::{self as words, AGENT_MODE, AGENT_NAME, Attribute, COMPONENT, Matter};
use protocol::{Event, Facet, Mode, ObjectKey, Target};
use runtime::trace::{self, Context, Note, Notes, Span, Spot};
use tokio::time::Instant;

use crate::transport::Welcome;

/// How long after a change what is seen of its object is taken for what came of it.
const LASTS: Duration = Duration::from_mins(5);
/// And how often: an object that changes all the time would make a trace without an end.
const MOST_REPORTS: u32 = 20;
/// Objects whose last change is remembered at one time.
const MOST_CHANGES: usize = 1000;

fn component() -> Attribute {
    (COMPONENT, "agent".to_owned())
}

/// What changes were for, and for which of them something is to be said. Empty while nobody wants traces.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    notes: Notes<Matter>,
    // Held for a lookup, never over an await.
    changes: Mutex<HashMap<ObjectKey, Change>>,
}

/// A change of the hub that is being carried out, or was not long ago.
#[derive(Debug)]
struct Change {
    context: Context,
    until: Instant,
    reports: u32,
}

impl Traces {
    /// Remembers that what is done at this moment changes this object.
    pub(crate) fn changing(&self, key: &ObjectKey) {
        if let Some(context) = trace::current() {
            self.remember(key, context);
        }
    }

    fn remember(&self, key: &ObjectKey, context: Context) {
        let now = Instant::now();
        let mut changes = self.lock();
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

    /// Something of this object has to be said: as a part of what is done at this moment, or else of the change that it
    /// most likely came of.
    pub(crate) fn changed(&self, key: &ObjectKey, facet: Facet) {
        if let Some(span) = self.seen("update", key) {
            self.notes.note((key.clone(), facet), span.context());
        }
    }

    /// That it went is said by this event.
    pub(crate) fn went(&self, key: &ObjectKey, event: &mut Event) {
        if let Some(span) = self.seen("delete", key) {
            event.carry(span.words());
        }
    }

    fn seen(&self, operation: &str, key: &ObjectKey) -> Option<Span> {
        if !trace::is_on() {
            return None;
        }
        Spot::new(words::doing(operation, key))
            .under(trace::current().or_else(|| self.cause(key)))
            .with(words::of_object(operation, key))
            .with([component()])
            .begin()
    }

    fn cause(&self, key: &ObjectKey) -> Option<Context> {
        let mut changes = self.lock();
        let change = changes.get_mut(key)?;
        change.reports = change.reports.saturating_add(1);
        if change.reports > MOST_REPORTS || change.until <= Instant::now() {
            changes.remove(key);
            return None;
        }
        Some(change.context.clone())
    }

    /// What is said, as a part of the change that it was marked for; where it is nothing, that is over too.
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
        let note = self.notes.take(&(key.clone(), facet));
        let mut event = event?;
        let begin = |note: Note| {
            let about = event.of_event();
            let of_us = [component(), (AGENT_MODE, mode.to_string())];
            note.begin(words::doing("send", key), about.into_iter().chain(of_us))
        };
        if let Some(span) = note.and_then(begin) {
            event.carry(span.words());
        }
        Some(event)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Change>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The span of carrying out what the hub says of an object, going on from what it says it belongs to.
pub(crate) fn received(event: &Event, mode: Mode, welcome: &Welcome) -> Option<Span> {
    if !trace::is_on() || !matches!(event.target, Target::Object(_)) {
        return None;
    }
    let name = welcome.agent_name.clone().unwrap_or_default();
    Spot::new(event.span())
        .under_claim(event.trace())
        .with(event.of_event())
        .with([
            component(),
            (AGENT_NAME, name),
            (AGENT_MODE, mode.to_string()),
        ])
        .begin()
}

/// The span of one write to the spoke's API, as a part of what it is for.
pub(crate) fn writing(operation: &str, key: &ObjectKey) -> Option<Span> {
    let context = trace::current()?;
    Spot::new(words::doing(operation, key))
        .under(Some(context))
        .with(words::of_object(operation, key))
        .with([component()])
        .begin()
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
    fn without_a_collector_nothing_is_kept_and_nothing_is_carried() {
        let traces = Traces::default();
        let key = app("a");
        traces.changing(&key);
        traces.changed(&key, Facet::Status);
        let mut event = Event::about(&key, Verb::Delete, "uid", "7", Bytes::new());
        traces.went(&key, &mut event);
        let stated = traces.sent(&key, Facet::Status, Mode::Managed, Some(event));
        assert_eq!(stated.unwrap().trace(), None);
        assert!(traces.notes.is_empty() && traces.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_seen_soon_after_a_change_came_of_it_and_later_it_did_not() {
        let traces = Traces::default();
        traces.remember(&app("a"), context());
        assert_eq!(traces.cause(&app("a")), Some(context()));
        assert_eq!(traces.cause(&app("b")), None);
        tokio::time::advance(LASTS).await;
        assert_eq!(traces.cause(&app("a")), None);
        // What never rests has an end, too.
        traces.remember(&app("a"), context());
        let joined = (0..100).filter(|_| traces.cause(&app("a")).is_some());
        assert_eq!(joined.count(), 20);
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_changes_are_remembered_and_old_ones_make_room() {
        let traces = Traces::default();
        for number in 0..5000 {
            traces.remember(&app(&number.to_string()), context());
        }
        assert_eq!(traces.lock().len(), MOST_CHANGES);
        assert_eq!(traces.cause(&app("4999")), None);
        tokio::time::advance(LASTS).await;
        traces.remember(&app("new"), context());
        assert_eq!(traces.lock().len(), 1);
    }
}
