//! What agents report about their replicas.

use super::*;

pub(crate) fn body(event: &Event) -> Value {
    serde_json::from_slice(&event.payload).unwrap()
}

/// A spoke's replica of a hub object.
pub(crate) fn replica(hub: &Value, change: &Value) -> Value {
    let source = hub["metadata"]["uid"].as_str().unwrap();
    let mut replica = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {
            "namespace": "argocd", "name": hub["metadata"]["name"],
            "uid": format!("local-{source}"), "resourceVersion": "1",
            "annotations": { argocd::keys::SOURCE_UID: source },
        },
        "spec": hub["spec"],
    });
    argocd::patch::merge(&mut replica, change);
    replica
}

/// An event about a replica.
pub(crate) fn report(verb: Verb, replica: &Value) -> Event {
    let meta = argocd::Meta::of(replica);
    let key = ObjectKey::new(Kind::Application, meta.namespace(), meta.name());
    let body = serde_json::to_vec(replica).unwrap();
    Event::about(&key, verb, meta.uid(), meta.resource_version(), body.into())
}

/// A resync entry for an object of a spoke.
pub(crate) fn resync_entry(
    kind: Kind,
    name: &str,
    uid: &str,
    digest: Option<String>,
) -> RequestUpdate {
    RequestUpdate {
        name: name.to_owned(),
        namespace: "argocd".to_owned(),
        uid: uid.to_owned(),
        kind: kind.to_string(),
        digest,
        ..RequestUpdate::default()
    }
}
