//! Collects the spoke's changes for the hub.
//!
//! It keeps only the keys of changed objects; the session reads the values from the [`Store`] when it
//! sends them. So the number of objects bounds the memory, for any outage and any rate of changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use argocd::{Meta, keys};
use protocol::payload::{Contest, ErrorReport};
use protocol::{Event, Facet, Kind, ObjectKey, Verb};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::lock::lock;
use crate::sync::cache::Store;
use crate::sync::source;
use crate::sync::spans::Traces;

/// Changes that wait for a session.
#[derive(Debug)]
pub struct Reports {
    store: Arc<Store>,
    // Locked for a lookup or an insert, never over an await.
    pending: Mutex<Pending>,
    /// Messages about contested objects, which every session sends. Bounded by the number of objects.
    contested: Mutex<BTreeMap<ObjectKey, String>>,
    wake: Notify,
    /// The traces of the changes, if tracing is on.
    traces: Traces,
}

/// See [`Reports::take`].
#[derive(Debug, Default)]
pub struct Pending {
    /// Applications whose status changed.
    pub statuses: BTreeSet<ObjectKey>,
    /// Changed objects that the spoke owns.
    pub states: BTreeSet<ObjectKey>,
    /// The last event per object: a deletion or an error.
    pub events: BTreeMap<ObjectKey, Event>,
    /// Starts and ends of contests.
    pub contests: BTreeMap<ObjectKey, Event>,
}

impl Reports {
    /// Nothing to report yet.
    pub fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            pending: Mutex::default(),
            contested: Mutex::default(),
            wake: Notify::new(),
            traces: Traces::default(),
        }
    }

    /// Queues the status of an Application.
    pub fn status(&self, key: ObjectKey) {
        if key.kind == Kind::Application {
            self.traces.changed(&key, Facet::Status);
            self.queue(|pending| pending.statuses.extend([key]));
        }
    }

    /// Queues the state of an object that the spoke owns.
    pub fn owned(&self, key: ObjectKey) {
        self.traces.changed(&key, Facet::State);
        self.queue(|pending| pending.states.extend([key]));
    }

    /// Queues the absence of an object that the spoke owned; `last` is its last version. `is_seen`: a watch saw the deletion.
    pub fn left(&self, key: &ObjectKey, last: &Value, is_seen: bool) {
        self.ended(key, source::left(key, last, is_seen));
    }

    /// Queues the event of an object that is gone, instead of its pending changes.
    fn ended(&self, key: &ObjectKey, mut event: Event) {
        self.traces.deleted(key, &mut event);
        self.queue(|pending| {
            pending.statuses.remove(key);
            pending.states.remove(key);
            pending.events.insert(key.clone(), event);
        });
    }

    fn queue(&self, change: impl FnOnce(&mut Pending)) {
        change(&mut lock(&self.pending));
        self.wake.notify_one();
    }

    /// Notes that the current trace changes this object.
    pub fn changing(&self, key: &ObjectKey) {
        self.traces.changing(key);
    }

    /// The cache of the spoke.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Queues the deletion of a replica of `source_uid` on the hub. The hub waits only for Applications.
    pub fn gone(&self, key: &ObjectKey, source_uid: &str, last: Option<&Value>) {
        if key.kind == Kind::Application {
            self.ended(key, gone_event(key, source_uid, last));
        }
    }

    /// Queues an error about this object for users of the hub.
    pub fn error(&self, key: &ObjectKey, hub: &ObjectKey, message: String) {
        // A queued deletion has priority.
        let event = error_event(key.kind, hub, message, None);
        self.queue(|pending| {
            let before = pending.events.get(key);
            if before.is_none_or(|before| before.verb != Verb::Delete) {
                pending.events.insert(key.clone(), event);
            }
        });
    }

    /// Queues the start of a contest: another writer keeps changing fields that the hub owns.
    pub fn contested(&self, key: &ObjectKey, message: String) {
        let event = contest_event(key, Contest::On, message.clone());
        lock(&self.contested).insert(key.clone(), message);
        self.queue(|pending| pending.contests.extend([(key.clone(), event)]));
    }

    /// Queues the end of a contest.
    pub fn uncontested(&self, key: &ObjectKey) {
        if lock(&self.contested).remove(key).is_some() {
            let event = contest_event(key, Contest::Over, String::new());
            self.queue(|pending| pending.contests.extend([(key.clone(), event)]));
        }
    }

    /// All current contests, for the start of a session.
    pub fn all_contests(&self) -> Vec<Event> {
        lock(&self.pending).contests.clear();
        let contests = lock(&self.contested);
        let all = contests.iter();
        all.map(|(key, message)| contest_event(key, Contest::On, message.clone()))
            .collect()
    }

    /// Takes all pending changes.
    pub fn take(&self) -> Pending {
        std::mem::take(&mut *lock(&self.pending))
    }

    /// Waits until changes may be pending.
    ///
    /// *Cancel safety*: a cancelled call keeps its wake-up for the next call.
    pub async fn changed(&self) {
        self.wake.notified().await;
    }

    /// All Applications that came from the hub.
    pub fn statuses(&self) -> BTreeSet<ObjectKey> {
        let all = self.store.all().into_iter();
        all.filter(|(key, entry)| {
            let live = entry.live.as_deref().map(Meta::of);
            let source = live.and_then(Meta::source_uid);
            key.kind == Kind::Application && source.is_some()
        })
        .map(|(key, _)| key)
        .collect()
    }
}

fn contest_event(key: &ObjectKey, contest: Contest, message: String) -> Event {
    // The hub also finds its object by the spoke's name.
    error_event(key.kind, key, message, Some(contest))
}

fn error_event(kind: Kind, about: &ObjectKey, message: String, contest: Option<Contest>) -> Event {
    let body = ErrorReport {
        resource_name: about.name.clone(),
        resource_namespace: about.namespace.clone(),
        message,
        contest,
    };
    Event::error(kind, &body)
}

/// The event of a deleted replica; the hub finds its object by the source UID.
fn gone_event(key: &ObjectKey, source_uid: &str, last: Option<&Value>) -> Event {
    let meta = last.map(Meta::of);
    let uid = meta.map(Meta::uid).filter(|uid| !uid.is_empty());
    let uid = uid.unwrap_or(source_uid);
    let mut annotations = json!({ keys::SOURCE_UID: source_uid });
    if let Some(known) = last.and_then(|last| last.pointer("/metadata/annotations")) {
        argocd::patch::merge(&mut annotations, known);
    }
    let spec = last.and_then(|last| last.get("spec")).cloned();
    let body = json!({
        "apiVersion": keys::API_VERSION,
        "kind": key.kind.as_str(),
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "uid": uid,
            "annotations": annotations,
        },
        "spec": spec.unwrap_or_else(|| json!({})),
    });
    let version = meta.map(Meta::resource_version).unwrap_or_default();
    Event::about(key, Verb::Delete, uid, version, body.to_string().into())
}

#[cfg(test)]
mod tests {
    use protocol::{Mode, Source as _};

    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(Kind::Application, "argocd", name)
    }

    fn app(name: &str, source: Option<&str>) -> Arc<Value> {
        let annotations = source.map(|uid| json!({ keys::SOURCE_UID: uid }));
        Arc::new(json!({
            "metadata": {
                "name": name, "namespace": "argocd", "uid": "local", "resourceVersion": "7",
                "annotations": annotations,
            },
            "status": { "sync": { "status": "Synced" } },
        }))
    }

    #[test]
    fn however_often_an_object_changes_it_is_one_entry() {
        let reports = Reports::new(Arc::default());
        for _ in 0..1000 {
            reports.status(key("a"));
        }
        assert_eq!(reports.take().statuses.len(), 1);
        assert!(reports.take().statuses.is_empty());
    }

    #[test]
    fn only_objects_from_the_hub_are_reported() {
        let store = Arc::new(Store::default());
        store.seen(key("ours"), app("ours", Some("hub-uid")));
        store.seen(key("theirs"), app("theirs", None));
        let reports = Reports::new(store);
        let reports = reports.encoder(true, Mode::Managed);
        let stated = reports.encode(&key("ours"), Facet::Status, false).unwrap();
        assert_eq!(
            (stated.verb, stated.event_id.as_str()),
            (Verb::StatusUpdate, "ours_local_7")
        );
        assert!(
            reports
                .encode(&key("theirs"), Facet::Status, false)
                .is_none()
        );
        assert!(
            reports
                .encode(&key("nowhere"), Facet::Status, false)
                .is_none()
        );
        assert!(reports.encode(&key("ours"), Facet::State, false).is_none());
    }

    #[test]
    fn a_go_principal_gets_no_operations_which_it_would_repeat() {
        let store = Arc::new(Store::default());
        let mut live = Value::clone(&app("a", Some("hub-uid")));
        live["operation"] = json!({ "sync": {} });
        store.seen(key("a"), Arc::new(live));
        let reports = Reports::new(store);
        for operations in [true, false] {
            let stated =
                reports
                    .encoder(operations, Mode::Managed)
                    .encode(&key("a"), Facet::Status, false);
            let body: Value = serde_json::from_slice(&stated.unwrap().payload).unwrap();
            assert_eq!(body.get("operation").is_some(), operations);
            assert_eq!(body["status"]["sync"]["status"], "Synced");
        }
    }

    #[test]
    fn every_session_reports_a_contest_until_it_is_over() {
        let reports = Reports::new(Arc::default());
        let contest = |event: &Event| {
            let body: ErrorReport =
                protocol::payload::decode("error", &event.payload).unwrap_or_default();
            (body.contest, body.message)
        };
        reports.uncontested(&key("a"));
        assert!(reports.take().contests.is_empty(), "there was none");
        reports.contested(&key("a"), "by helm".to_owned());
        let on = (Some(Contest::On), "by helm".to_owned());
        let pending: Vec<_> = reports.take().contests.values().map(contest).collect();
        assert_eq!(pending, std::slice::from_ref(&on));
        let again: Vec<_> = reports.all_contests().iter().map(contest).collect();
        assert_eq!(again, [on]);
        reports.uncontested(&key("a"));
        let pending: Vec<_> = reports.take().contests.values().map(contest).collect();
        assert_eq!(pending, [(Some(Contest::Over), String::new())]);
        assert!(reports.all_contests().is_empty());
    }

    #[test]
    fn a_deletion_replaces_pending_reports_of_the_object() {
        let reports = Reports::new(Arc::default());
        reports.status(key("a"));
        reports.gone(&key("a"), "hub-uid", Some(&app("a", Some("hub-uid"))));
        let pending = reports.take();
        assert!(pending.statuses.is_empty());
        let stated = pending.events.get(&key("a")).unwrap();
        let body: Value = serde_json::from_slice(&stated.payload).unwrap();
        assert_eq!(Meta::of(&body).source_uid(), Some("hub-uid"));
        assert_eq!(stated.verb, Verb::Delete);
    }
}
mod encoder;
