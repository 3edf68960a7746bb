//! Events, as `kubectl describe` shows them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, api::PostParams};
use serde_json::json;
use tracing::debug;

use super::{
    hash::digest,
    metrics::{Metrics, Written},
};
use crate::name::{AddonName, ClusterName};

/// The most Events in one [`WINDOW`], so that a client that floods the hub with requests does not make
/// the SDK flood it with Events.
const BUDGET: usize = 100;
/// The window of the budget.
const WINDOW: SignedDuration = SignedDuration::from_mins(1);
/// The longest note that the API accepts.
const NOTE_LIMIT: usize = 1024;

/// The content of an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewEvent {
    /// `Warning` or `Normal`.
    pub(crate) warning: bool,
    /// A word in camel case.
    pub(crate) reason: String,
    /// For people.
    pub(crate) note: String,
}

/// Writes each Event once per object and reason, however many reconciles run.
///
/// The name of an Event is a digest of its content, so that a restart does not repeat it either.
pub(crate) struct Events {
    client: Client,
    reporter: String,
    metrics: Metrics,
    emitted: Mutex<LastEmitted>,
}

#[derive(Debug, Default)]
struct LastEmitted {
    by_object: BTreeMap<String, BTreeSet<String>>,
    since: Option<Timestamp>,
    count: usize,
}

impl LastEmitted {
    /// Whether this Event is new and within the budget.
    fn take(&mut self, object: &str, reason: &str, now: Timestamp) -> bool {
        let emitted = self.by_object.get(object);
        if emitted.is_some_and(|reasons| reasons.contains(reason)) || !self.take_budget(now) {
            return false;
        }
        let emitted = self.by_object.entry(object.to_owned()).or_default();
        emitted.insert(reason.to_owned())
    }

    /// Whether the budget has room for one more, which is counted.
    fn take_budget(&mut self, now: Timestamp) -> bool {
        let is_over = |since| now.duration_since(since) >= WINDOW;
        if self.since.is_none_or(is_over) {
            (self.since, self.count) = (Some(now), 0);
        }
        if self.count >= BUDGET {
            return false;
        }
        self.count = self.count.saturating_add(1);
        true
    }
}

impl Events {
    pub(crate) fn new(client: Client, reporter: &AddonName, metrics: Metrics) -> Self {
        Self {
            client,
            reporter: reporter.to_string(),
            metrics,
            emitted: Mutex::default(),
        }
    }

    fn emitted(&self) -> MutexGuard<'_, LastEmitted> {
        self.emitted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allows the Events of an object again: the object is gone, or its problem is solved.
    pub(crate) fn forget(&self, regarding: &ObjectReference) {
        self.emitted().by_object.remove(&key(regarding));
    }

    /// Writes a warning, unless it was written before, and returns whether it was new. A failed write is
    /// only logged.
    pub(crate) async fn warn(&self, regarding: ObjectReference, reason: &str, note: &str) -> bool {
        let now = Timestamp::now();
        let new = self.emitted().take(&key(&regarding), reason, now);
        if new {
            let content = NewEvent {
                warning: true,
                reason: reason.to_owned(),
                note: note.to_owned(),
            };
            let event = event(&self.reporter, regarding, &content, None, now);
            self.write(event).await;
        }
        new
    }

    /// Writes an Event for each call, within the budget.
    pub(crate) async fn notify(&self, regarding: ObjectReference, content: &NewEvent) {
        let now = Timestamp::now();
        if self.emitted().take_budget(now) {
            let event = event(&self.reporter, regarding, content, Some(now), now);
            self.write(event).await;
        }
    }

    async fn write(&self, event: Event) {
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        let api = Api::<Event>::namespaced(self.client.clone(), &namespace);
        match api.create(&PostParams::default(), &event).await {
            Ok(_) => self.metrics.wrote(Written::Event),
            Err(error) => {
                let name = event.metadata.name;
                debug!(name, reason = event.reason, %error, "event not written");
            }
        }
    }
}

/// The object that an Event is about.
pub(crate) fn reference(
    (api_version, kind): (String, &str),
    namespace: Option<&ClusterName>,
    name: &str,
    uid: Option<String>,
) -> ObjectReference {
    ObjectReference {
        api_version: Some(api_version),
        kind: Some(kind.to_owned()),
        namespace: namespace.map(ToString::to_string),
        name: Some(name.to_owned()),
        uid,
        ..ObjectReference::default()
    }
}

fn key(object: &ObjectReference) -> String {
    let ObjectReference {
        kind,
        namespace,
        name,
        ..
    } = object;
    format!("{kind:?} {namespace:?}/{name:?}")
}

/// `at` distinguishes an Event from an earlier one with the same content.
fn event(
    reporter: &str,
    regarding: ObjectReference,
    content: &NewEvent,
    at: Option<Timestamp>,
    now: Timestamp,
) -> Event {
    let reason = &content.reason;
    let name = regarding.name.clone().unwrap_or_default();
    let namespace = regarding.namespace.clone();
    let at = at.map(|at| at.to_string());
    let identity = digest(&json!([regarding.uid, reason, content.note, at]));
    let suffix = identity.get(..12).unwrap_or_default();
    let note = content.note.chars().take(NOTE_LIMIT / 4);
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{name}.{suffix}")),
            // Events about cluster-scoped objects are in `default`.
            namespace: Some(namespace.unwrap_or_else(|| "default".to_owned())),
            ..ObjectMeta::default()
        },
        action: Some(reason.clone()),
        event_time: Some(MicroTime(now)),
        note: Some(note.collect()),
        reason: Some(reason.clone()),
        regarding: Some(regarding),
        reporting_controller: Some(format!("open-cluster-management.io/{reporter}")),
        reporting_instance: Some(reporter.to_owned()),
        type_: Some(if content.warning { "Warning" } else { "Normal" }.to_owned()),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn an_event_is_written_once_per_object_and_reason() {
        let mut emitted = LastEmitted::default();
        assert!(emitted.take("a", "Reason", at(0)));
        assert!(!emitted.take("a", "Reason", at(100_000)));
        assert!(emitted.take("a", "Other", at(0)));
        assert!(emitted.take("b", "Reason", at(0)));
    }

    #[test]
    fn a_flood_of_requests_causes_a_bounded_number_of_events() {
        let mut emitted = LastEmitted::default();
        let count = |emitted: &mut LastEmitted, second| {
            let names = (0..1000).map(|number| format!("{second}-{number}"));
            names
                .filter(|name| emitted.take(name, "Reason", at(second)))
                .count()
        };
        assert_eq!(count(&mut emitted, 0), BUDGET);
        assert_eq!(count(&mut emitted, 59), 0);
        assert_eq!(count(&mut emitted, 60), BUDGET);
    }

    #[test]
    fn an_event_has_the_same_name_after_a_restart() {
        let regarding = || ObjectReference {
            name: Some("csr".to_owned()),
            uid: Some("u".to_owned()),
            ..ObjectReference::default()
        };
        let content = NewEvent {
            warning: true,
            reason: "Reason".to_owned(),
            note: "note".to_owned(),
        };
        let (first, second) = (
            event("a", regarding(), &content, None, at(0)),
            event("a", regarding(), &content, None, at(9)),
        );
        assert_eq!(first.metadata.name, second.metadata.name);
        assert_eq!(first.metadata.namespace.as_deref(), Some("default"));
    }
}
