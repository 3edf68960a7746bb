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
/// The most Events in one window that one cluster may cause, so that a noisy one leaves room for the others.
const SHARE: usize = 20;
/// The same when half of the budget is used, so that several noisy clusters leave room, too. An enrolment, or a change of the
/// key, has two or three Events.
const SMALL_SHARE: usize = 3;
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
    /// The Events of this window by the cluster that caused them; those of other clients share an entry. At most [`BUDGET`]
    /// entries, since each has an Event.
    by_cause: BTreeMap<Option<ClusterName>, usize>,
}

impl LastEmitted {
    /// Whether this Event is new and within the budget.
    fn take(
        &mut self,
        cause: Option<&ClusterName>,
        object: &str,
        reason: &str,
        now: Timestamp,
    ) -> bool {
        let emitted = self.by_object.get(object);
        let is_old = emitted.is_some_and(|reasons| reasons.contains(reason));
        if is_old || !self.take_budget(cause, now) {
            return false;
        }
        let emitted = self.by_object.entry(object.to_owned()).or_default();
        emitted.insert(reason.to_owned())
    }

    /// Whether the budget, and the share of this cluster, have room for one more, which is counted.
    fn take_budget(&mut self, cause: Option<&ClusterName>, now: Timestamp) -> bool {
        let is_over = |since| now.duration_since(since) >= WINDOW;
        if self.since.is_none_or(is_over) {
            (self.since, self.count) = (Some(now), 0);
            self.by_cause.clear();
        }
        let cause = cause.cloned();
        let used = self.by_cause.get(&cause).copied().unwrap_or_default();
        let share = if self.count < BUDGET / 2 {
            SHARE
        } else {
            SMALL_SHARE
        };
        if self.count >= BUDGET || used >= share {
            return false;
        }
        self.count = self.count.saturating_add(1);
        self.by_cause.insert(cause, used.saturating_add(1));
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
    /// only logged. `cause` is the cluster whose share of the budget it uses; without one, it uses that of all other clients.
    pub(crate) async fn warn(
        &self,
        cause: Option<&ClusterName>,
        regarding: ObjectReference,
        reason: &str,
        note: &str,
    ) -> bool {
        let now = Timestamp::now();
        let new = self.emitted().take(cause, &key(&regarding), reason, now);
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

    /// Writes an Event for each call, within the budget and the share of the cluster.
    pub(crate) async fn notify(
        &self,
        cluster: &ClusterName,
        regarding: ObjectReference,
        content: &NewEvent,
    ) {
        let now = Timestamp::now();
        if self.emitted().take_budget(Some(cluster), now) {
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

    fn cluster(number: usize) -> ClusterName {
        ClusterName::new(format!("c{number}")).unwrap()
    }

    #[test]
    fn an_event_is_written_once_per_object_and_reason() {
        let mut emitted = LastEmitted::default();
        assert!(emitted.take(None, "a", "Reason", at(0)));
        assert!(!emitted.take(None, "a", "Reason", at(100_000)));
        assert!(emitted.take(None, "a", "Other", at(0)));
        assert!(emitted.take(None, "b", "Reason", at(0)));
    }

    /// The number of Events of 1,000 requests of these clusters, in turn.
    fn flood(emitted: &mut LastEmitted, clusters: usize, second: i64) -> usize {
        let names = (0..1000).map(|number| {
            let cause = (clusters > 0).then(|| cluster(number % clusters.max(1)));
            (cause, format!("{second}-{number}"))
        });
        names
            .filter(|(cause, name)| emitted.take(cause.as_ref(), name, "Reason", at(second)))
            .count()
    }

    #[test]
    fn a_flood_of_requests_causes_a_bounded_number_of_events() {
        let mut emitted = LastEmitted::default();
        assert_eq!(flood(&mut emitted, 50, 0), BUDGET);
        assert_eq!(flood(&mut emitted, 50, 59), 0);
        assert_eq!(flood(&mut emitted, 50, 60), BUDGET);
        assert_eq!(flood(&mut emitted, 1000, 120), BUDGET);
        assert!(emitted.by_cause.len() <= BUDGET);
        assert_eq!(flood(&mut emitted, 3, 180), BUDGET / 2);
    }

    #[test]
    fn events_of_a_noisy_cluster_leave_room_for_others() {
        let mut emitted = LastEmitted::default();
        assert_eq!(flood(&mut emitted, 1, 0), SHARE);
        let (noisy, other) = (cluster(0), cluster(1));
        assert!(!emitted.take_budget(Some(&noisy), at(59)));
        assert!(emitted.take_budget(Some(&other), at(59)));
        // Clients that are no cluster have one share together.
        assert_eq!(flood(&mut emitted, 0, 59), SHARE);
        assert!(emitted.take_budget(Some(&other), at(59)));
        assert!(emitted.take_budget(Some(&noisy), at(60)));
    }

    #[test]
    fn enrolment_has_its_events_beside_noisy_clusters() {
        let mut emitted = LastEmitted::default();
        assert!(flood(&mut emitted, 10, 0) < BUDGET);
        for number in 10..20 {
            let enrolled = cluster(number);
            let mut events = 0..SMALL_SHARE;
            assert!(events.all(|_| emitted.take_budget(Some(&enrolled), at(1))));
        }
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
