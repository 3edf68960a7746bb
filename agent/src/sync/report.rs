//! What changed here, for the hub.
//!
//! Only *that* something changed is kept, once per object; what is said about it is read from the
//! [`Store`] at the moment it is sent. So memory is bounded by the number of objects, however
//! long the link is down and however fast things change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use argocd::Meta;
use bytes::Bytes;
use protocol::payload::{Contest, ErrorReport};
use protocol::{Event, Facet, Kind, ObjectKey, Verb};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::sync::cache::Store;
use crate::sync::source;
use crate::sync::spans::Traces;

pub use encoder::ReportEncoder;

/// What still has to be handed to a session.
#[derive(Debug)]
pub struct Reports {
    store: Arc<Store>,
    // Held for a lookup or an insert, never over an await.
    pending: Mutex<Pending>,
    /// Who keeps changing what the hub owns, as every session has to be told. Bounded by the objects.
    contested: Mutex<BTreeMap<ObjectKey, String>>,
    wake: Notify,
    /// Which changes it is for, where they are traced.
    traces: Traces,
}

/// See [`Reports::take`].
#[derive(Debug, Default)]
pub struct Pending {
    /// Applications whose status has to be said.
    pub statuses: BTreeSet<ObjectKey>,
    /// What the spoke owns and has to be said.
    pub states: BTreeSet<ObjectKey>,
    /// What has to be said as it is, the last word per object: that it is gone here, or why not.
    pub events: BTreeMap<ObjectKey, Event>,
    /// That somebody here keeps changing what the hub owns, or does so no more.
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

    /// The status of this Application has to be said.
    pub fn status(&self, key: ObjectKey) {
        if key.kind == Kind::Application {
            self.traces.changed(&key, Facet::Status);
            self.lock().statuses.insert(key);
            self.wake.notify_one();
        }
    }

    /// This object, which the spoke owns, has to be said.
    pub fn owned(&self, key: ObjectKey) {
        self.traces.changed(&key, Facet::State);
        self.lock().states.insert(key);
        self.wake.notify_one();
    }

    /// This object, which the spoke owned, was deleted; it was `last` so.
    pub fn left(&self, key: &ObjectKey, last: &Value) {
        self.ended(key, source::left(key, last));
    }

    /// This object, which the spoke owned, is not there any more, and nobody saw it go; it was `last` so.
    pub fn missing(&self, key: &ObjectKey, last: &Value) {
        self.ended(key, source::missing(key, last));
    }

    fn ended(&self, key: &ObjectKey, mut event: Event) {
        self.traces.went(key, &mut event);
        let mut pending = self.lock();
        pending.states.remove(key);
        pending.events.insert(key.clone(), event);
        drop(pending);
        self.wake.notify_one();
    }

    /// This object is about to be changed for what is done at this moment.
    pub fn changing(&self, key: &ObjectKey) {
        self.traces.changing(key);
    }

    /// What is on the spoke.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// This object, which came from `source_uid` on the hub, is gone here. Only Applications are waited for.
    pub fn gone(&self, key: &ObjectKey, source_uid: &str, last: Option<&Value>) {
        if key.kind != Kind::Application {
            return;
        }
        let mut event = gone_event(key, source_uid, last);
        self.traces.went(key, &mut event);
        let mut pending = self.lock();
        pending.statuses.remove(key);
        pending.events.insert(key.clone(), event);
        drop(pending);
        self.wake.notify_one();
    }

    /// Something about this object that a person on the hub has to know.
    pub fn error(&self, key: &ObjectKey, hub: &ObjectKey, message: String) {
        let body = ErrorReport {
            resource_name: hub.name.clone(),
            resource_namespace: hub.namespace.clone(),
            message,
            contest: None,
        };
        // That it is gone counts more.
        let event = Event::error(key.kind, &body);
        self.lock().events.entry(key.clone()).or_insert(event);
        self.wake.notify_one();
    }

    /// Somebody here keeps changing what the hub owns.
    pub fn contested(&self, key: &ObjectKey, message: String) {
        let event = contest_event(key, Contest::On, message.clone());
        self.contests().insert(key.clone(), message);
        self.lock().contests.insert(key.clone(), event);
        self.wake.notify_one();
    }

    /// Nobody changes it any more.
    pub fn at_peace(&self, key: &ObjectKey) {
        if self.contests().remove(key).is_some() {
            let event = contest_event(key, Contest::Over, String::new());
            self.lock().contests.insert(key.clone(), event);
            self.wake.notify_one();
        }
    }

    /// What is contested now, for a session that begins.
    pub fn all_contests(&self) -> Vec<Event> {
        self.lock().contests.clear();
        let contests = self.contests();
        let all = contests.iter();
        all.map(|(key, message)| contest_event(key, Contest::On, message.clone()))
            .collect()
    }

    /// Takes everything that has come together.
    pub fn take(&self) -> Pending {
        std::mem::take(&mut *self.lock())
    }

    /// Waits until there may be something to take.
    ///
    /// *Cancel safety*: a wake-up that nobody saw is kept for the next call.
    pub async fn changed(&self) {
        self.wake.notified().await;
    }

    /// The keys of all Applications here that came from the hub.
    pub fn replicas(&self) -> Vec<(ObjectKey, Arc<Value>)> {
        self.store
            .all()
            .into_iter()
            .filter_map(|(key, entry)| Some((key, entry.live?)))
            .filter(|(_, live)| Meta::of(live).source_uid().is_some())
            .collect()
    }

    fn contests(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, String>> {
        let contested = self.contested.lock();
        contested.unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn contest_event(key: &ObjectKey, contest: Contest, message: String) -> Event {
    // The hub knows its object by the name here, too.
    let body = ErrorReport {
        resource_name: key.name.clone(),
        resource_namespace: key.namespace.clone(),
        message,
        contest: Some(contest),
    };
    Event::error(key.kind, &body)
}

/// Says that an object is gone; the hub finds its own by the source UID.
fn gone_event(key: &ObjectKey, source_uid: &str, last: Option<&Value>) -> Event {
    let meta = last.map(Meta::of);
    let uid = meta
        .map(Meta::uid)
        .filter(|uid| !uid.is_empty())
        .unwrap_or(source_uid);
    let mut annotations = json!({ argocd::keys::SOURCE_UID: source_uid });
    if let (Some(Value::Object(known)), Some(annotations)) = (
        last.and_then(|last| last.pointer("/metadata/annotations")),
        annotations.as_object_mut(),
    ) {
        annotations.extend(known.clone());
    }
    let body = json!({
        "apiVersion": argocd::keys::API_VERSION,
        "kind": key.kind.as_str(),
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "uid": uid,
            "annotations": annotations,
        },
        "spec": last.and_then(|last| last.get("spec")).cloned().unwrap_or_else(|| json!({})),
    });
    let version = meta.map(Meta::resource_version).unwrap_or_default();
    Event::about(
        key,
        Verb::Delete,
        uid,
        version,
        Bytes::from(body.to_string()),
    )
}

#[cfg(test)]
mod tests {
    use protocol::{Mode, Source as _};

    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(Kind::Application, "argocd", name)
    }

    fn app(name: &str, source: Option<&str>) -> Arc<Value> {
        let annotations = source.map(|uid| json!({ argocd::keys::SOURCE_UID: uid }));
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
    fn only_what_came_from_the_hub_is_reported() {
        let store = Arc::new(Store::default());
        store.seen(key("ours"), app("ours", Some("hub-uid")));
        store.seen(key("theirs"), app("theirs", None));
        let reports = Reports::new(store);
        let reports = reports.reply(true, Mode::Managed);
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
    fn a_go_principal_is_not_told_of_operations_that_it_would_ask_for_again() {
        let store = Arc::new(Store::default());
        let mut live = Value::clone(&app("a", Some("hub-uid")));
        live["operation"] = json!({ "sync": {} });
        store.seen(key("a"), Arc::new(live));
        let reports = Reports::new(store);
        for reply in [true, false] {
            let stated =
                reports
                    .reply(reply, Mode::Managed)
                    .encode(&key("a"), Facet::Status, false);
            let body: Value = serde_json::from_slice(&stated.unwrap().payload).unwrap();
            assert_eq!(body.get("operation").is_some(), reply);
            assert_eq!(body["status"]["sync"]["status"], "Synced");
        }
    }

    #[test]
    fn a_contest_is_told_to_every_session_until_it_is_over() {
        let reports = Reports::new(Arc::default());
        let contest = |event: &Event| {
            let body: ErrorReport =
                protocol::payload::decode("error", &event.payload).unwrap_or_default();
            (body.contest, body.message)
        };
        reports.at_peace(&key("a"));
        assert!(reports.take().contests.is_empty(), "there was none");
        reports.contested(&key("a"), "by helm".to_owned());
        let on = (Some(Contest::On), "by helm".to_owned());
        let reply: Vec<_> = reports.take().contests.values().map(contest).collect();
        assert_eq!(reply, std::slice::from_ref(&on));
        let again: Vec<_> = reports.all_contests().iter().map(contest).collect();
        assert_eq!(again, [on]);
        reports.at_peace(&key("a"));
        let reply: Vec<_> = reports.take().contests.values().map(contest).collect();
        assert_eq!(reply, [(Some(Contest::Over), String::new())]);
        assert!(reports.all_contests().is_empty());
    }

    #[test]
    fn that_an_object_is_gone_replaces_what_was_to_be_said_about_it() {
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
