//! Reports the spoke's own objects to the hub in autonomous mode.
//!
//! The state of an object has its labels, annotations, spec and status together, as in the Go protocol. The principal
//! starts every session with the list of its mirrors, and the agent answers with the differences.

use std::sync::Arc;

use argocd::{Meta, digest, keys, mirror};
use protocol::payload::{RequestUpdate, SyncedResource};
use protocol::{Event, Kind, ObjectKey, Verb};
use serde_json::{Value, json};

use crate::sync::cache::Store;
use crate::transport::Welcome;

/// Kinds that the hub mirrors.
const SHOWN: [Kind; 2] = [Kind::AppProject, Kind::Application];

/// The answer about an object that the hub mirrors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The mirror is current: no answer.
    Right(ObjectKey),
    /// The mirror differs: send the state.
    State(ObjectKey),
    /// The object does not exist: send this event.
    Gone(Event),
    /// The agent knows nothing about the object: no answer.
    Unknown,
}

/// The state of an object, for our principal (`ours`) or for a Go principal.
pub fn state(key: &ObjectKey, live: &Value, ours: bool, stated_before: bool) -> Option<Event> {
    let meta = Meta::of(live);
    if meta.is_ignored() || !SHOWN.contains(&key.kind) {
        return None;
    }
    // A Go principal handles a create only if the project is missing, but an update in both cases.
    let verb = if stated_before || (key.kind == Kind::AppProject && !ours) {
        Verb::SpecUpdate
    } else {
        Verb::Create
    };
    let body = mirror::wire(live, key.kind.as_str(), ours).to_string();
    let (uid, version) = (meta.uid(), meta.resource_version());
    Some(Event::about(key, verb, uid, version, body.into()))
}

/// The event of an object that is gone; `last` is its last version.
///
/// If a watch saw the deletion, the event has a version. Otherwise it looks like an answer to the hub, whose brake counts it
/// together with all other missing objects.
pub fn left(key: &ObjectKey, last: &Value, is_seen: bool) -> Event {
    let last = Meta::of(last);
    let version = match last.resource_version() {
        _ if !is_seen => "",
        "" => "0",
        version => version,
    };
    gone(key, last.uid(), version)
}

fn gone(key: &ObjectKey, uid: &str, version: &str) -> Event {
    let stub = json!({
        "apiVersion": keys::API_VERSION,
        "kind": key.kind.as_str(),
        "metadata": { "name": key.name, "namespace": key.namespace, "uid": uid },
        "spec": {},
    });
    Event::about(key, Verb::Delete, uid, version, stub.to_string().into())
}

/// Compares a mirror of the hub with the spoke's object.
///
/// `namespace`: Argo CD's namespace on this cluster.
pub fn answer(store: &Store, namespace: &str, welcome: &Welcome, claim: &RequestUpdate) -> Answer {
    let kind = claim.kind.parse().ok();
    let Some(kind) = kind.filter(|kind| SHOWN.contains(kind)) else {
        return Answer::Unknown;
    };
    // Our name at the principal is the prefix of our projects' names there.
    let cluster = welcome.agent_name.as_ref().or(welcome.subject.as_ref());
    let cluster = cluster.filter(|_| kind == Kind::AppProject);
    let name = cluster.and_then(|cluster| mirror::source_name(cluster, &claim.name));
    let name = name.unwrap_or(&claim.name);
    let key = ObjectKey::new(kind, namespace, name);
    let live = store.live(&key).filter(|live| !Meta::of(live).is_ignored());
    match live {
        Some(live) if is_shown_right(&live, claim, welcome.capabilities.is_ours()) => {
            Answer::Right(key)
        }
        Some(_) => Answer::State(key),
        None if claim.uid.is_empty() => Answer::Unknown,
        None => Answer::Gone(gone(&key, &claim.uid, "")),
    }
}

fn is_shown_right(live: &Value, claim: &RequestUpdate, ours: bool) -> bool {
    let meta = Meta::of(live);
    if meta.uid() != claim.uid {
        return false;
    }
    if ours {
        let kind = claim.kind.as_str();
        let digest = mirror::wire_digest(&mirror::wire(live, kind, ours));
        return claim.digest.as_deref() == Some(digest.as_str());
    }
    claim.checksum == digest::spec_checksum(live)
}

/// All objects that the hub mirrors.
pub fn owned(store: &Store) -> Vec<(ObjectKey, Arc<Value>)> {
    store
        .all()
        .into_iter()
        .filter_map(|(key, entry)| Some((key, entry.live?)))
        .filter(|(key, live)| SHOWN.contains(&key.kind) && !Meta::of(live).is_ignored())
        .collect()
}

/// The list of the spoke's own objects for a Go principal; empty if its checksum matches.
pub fn list(store: &Store, checksum: Option<&[u8]>) -> Vec<SyncedResource> {
    let owned = owned(store);
    let lines = owned
        .iter()
        .map(|(key, live)| (key.kind.as_str(), key.name.as_str(), Meta::of(live).uid()));
    if digest::list_checksum(lines).as_deref() == checksum {
        return Vec::new();
    }
    owned
        .into_iter()
        .map(|(key, live)| SyncedResource {
            uid: Meta::of(&live).uid().to_owned(),
            kind: key.kind.to_string(),
            name: key.name,
            namespace: key.namespace,
        })
        .collect()
}

/// The object with the records of its executed commands, if another writer removed them.
///
/// An `ApplicationSet` removes every annotation that it did not set itself, and that must not make a command run twice.
pub fn with_memory(object: Arc<Value>, before: Option<&Value>) -> Arc<Value> {
    let Some(before) = before.filter(|it| Meta::of(it).uid() == Meta::of(&object).uid()) else {
        return object;
    };
    let mut remembering = object;
    for record in [keys::LAST_COMMAND, keys::LAST_REFRESH] {
        if Meta::of(&remembering).annotation(record).is_none()
            && let Some(value) = Meta::of(before).annotation(record)
        {
            let annotations = json!({ record: value });
            let metadata = json!({ "metadata": { "annotations": annotations } });
            argocd::patch::merge(Arc::make_mut(&mut remembering), &metadata);
        }
    }
    remembering
}

#[cfg(test)]
mod tests {
    use protocol::version::Capabilities;

    use super::*;

    fn answered(store: &Store, claim: &RequestUpdate) -> Answer {
        let welcome = Welcome {
            agent_name: Some("c".to_owned()),
            capabilities: Capabilities::ours(),
            ..Welcome::default()
        };
        answer(store, "argocd", &welcome, claim)
    }

    fn app(name: &str, label: Option<&str>) -> Arc<Value> {
        let labels = label.map(|label| json!({ label: "true" }));
        Arc::new(json!({
            "metadata": {
                "name": name, "namespace": "argocd", "uid": format!("u-{name}"), "resourceVersion": "7",
                "labels": labels,
            },
            "spec": { "project": "default" },
            "status": { "sync": { "status": "Synced" } },
        }))
    }

    fn key(kind: Kind, name: &str) -> ObjectKey {
        ObjectKey::new(kind, "argocd", name)
    }

    fn store() -> Store {
        let store = Store::default();
        store.seen(key(Kind::Application, "a"), app("a", None));
        store.seen(key(Kind::AppProject, "c-b"), app("c-b", None));
        store.seen(
            key(Kind::Application, "ignored"),
            app("ignored", Some(keys::IGNORE_SYNC)),
        );
        store
    }

    fn claim(kind: Kind, name: &str, uid: &str) -> RequestUpdate {
        RequestUpdate {
            name: name.to_owned(),
            uid: uid.to_owned(),
            kind: kind.to_string(),
            ..RequestUpdate::default()
        }
    }

    #[test]
    fn a_current_mirror_gets_no_state() {
        let store = store();
        let mut shown = claim(Kind::Application, "a", "u-a");
        assert_eq!(
            answered(&store, &shown),
            Answer::State(key(Kind::Application, "a"))
        );
        let wire = mirror::wire(&app("a", None), "Application", true);
        shown.digest = Some(mirror::wire_digest(&wire));
        assert_eq!(
            answered(&store, &shown),
            Answer::Right(key(Kind::Application, "a"))
        );
        shown.uid = "u-before".to_owned();
        assert_eq!(
            answered(&store, &shown),
            Answer::State(key(Kind::Application, "a"))
        );
    }

    #[test]
    fn project_name_with_cluster_prefix_is_resolved() {
        let store = store();
        let claim = claim(Kind::AppProject, "c-c-b", "u-c-b");
        assert_eq!(
            answered(&store, &claim),
            Answer::State(key(Kind::AppProject, "c-b"))
        );
    }

    #[test]
    fn a_missing_object_is_an_answer_and_a_seen_deletion_an_event() {
        let store = store();
        for name in ["nowhere", "ignored"] {
            let claim = claim(Kind::Application, name, "u");
            let Answer::Gone(event) = answered(&store, &claim) else {
                panic!("{name} is not shown");
            };
            assert!(event.event_id.ends_with('_'), "{}", event.event_id);
        }
        let event = left(&key(Kind::Application, "a"), &app("a", None), true);
        assert!(event.event_id.ends_with("_7_delete"));
        let asked = claim(Kind::Repository, "a", "u");
        assert_eq!(answered(&store, &asked), Answer::Unknown);
    }

    #[test]
    fn a_go_principal_gets_projects_as_updates() {
        let project = key(Kind::AppProject, "c-b");
        let verb = |ours| state(&project, &app("c-b", None), ours, false).map(|it| it.verb);
        assert_eq!(
            (verb(true), verb(false)),
            (Some(Verb::Create), Some(Verb::SpecUpdate))
        );
        let hidden = app("ignored", Some(keys::IGNORE_SYNC));
        assert!(state(&key(Kind::Application, "ignored"), &hidden, true, false).is_none());
    }

    #[test]
    fn a_list_with_a_matching_checksum_is_not_sent() {
        let store = store();
        let lines = [("Application", "a", "u-a"), ("AppProject", "c-b", "u-c-b")];
        let known = digest::list_checksum(lines);
        assert!(list(&store, known.as_deref()).is_empty());
        assert_eq!(list(&store, None).len(), 2);
    }

    #[test]
    fn a_removed_command_record_is_restored() {
        let mut took = Value::clone(&app("a", None));
        took["metadata"]["annotations"] = json!({ keys::LAST_COMMAND: "id x", "other": "gone" });
        let seen = with_memory(app("a", None), Some(&took));
        let annotations = Meta::of(&seen).annotations();
        assert_eq!(annotations, [(keys::LAST_COMMAND, "id x")].into());
        let another = with_memory(app("b", None), Some(&took));
        assert!(
            Meta::of(&another).annotations().is_empty(),
            "another object"
        );
    }
}
