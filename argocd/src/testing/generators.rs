//! Generators for property tests.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::keys;

/// Any JSON, a few levels deep, with keys that collide often.
pub(crate) fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        // Minus zero is equal to zero and is written otherwise: no change, but another text.
        any::<f64>().prop_map(|float| Value::from(float + 0.0)),
        "[a-c]{0,2}|.{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            proptest::collection::vec(("[a-d~/]{1,2}", inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn texts(keys: &'static [&'static str]) -> impl Strategy<Value = Map<String, Value>> {
    proptest::collection::btree_map(proptest::sample::select(keys), "[ab]?", 0..4).prop_map(|map| {
        map.into_iter()
            .map(|(key, value)| (key.to_owned(), value.into()))
            .collect()
    })
}

fn annotations() -> impl Strategy<Value = Map<String, Value>> {
    texts(&[
        "a",
        "b",
        "notes.example.com/x",
        keys::REFRESH,
        keys::HYDRATE,
        keys::SOURCE_UID,
        keys::PRINCIPAL_UID,
        keys::NAMESPACE_REMAPPED,
        keys::APPLIED_ANNOTATIONS,
        keys::LAST_APPLIED,
        keys::LAST_COMMAND,
        keys::NOTIFIED,
    ])
}

fn finalizers() -> impl Strategy<Value = Vec<&'static str>> {
    let all = vec![
        keys::RESOURCES_FINALIZER,
        "resources-finalizer.argocd.argoproj.io/background",
        "post-delete-finalizer.argocd.argoproj.io/cleanup",
        "example.com/other",
    ];
    proptest::sample::subsequence(all, 0..4)
}

fn spec() -> impl Strategy<Value = Value> {
    let policy = proptest::option::of(json());
    (json(), json(), json(), policy).prop_map(|(helm, plugin, other, policy)| {
        let mut spec = json!({
            "project": "",
            "source": { "repoURL": "x", "helm": helm, "plugin": plugin },
            "destination": { "name": "spoke1", "namespace": "default" },
            "other": other,
        });
        if let Some(policy) = policy {
            spec["syncPolicy"] = policy;
        }
        spec
    })
}

/// An Application as an API server might hold it, with annotations and finalizers that matter to us.
pub(crate) fn application() -> impl Strategy<Value = Value> {
    let namespace = proptest::sample::select(vec!["spoke1", "argocd", "team-a"]);
    let labels = texts(&["a", "b", "team"]);
    (
        labels,
        annotations(),
        finalizers(),
        namespace,
        spec(),
        "[1-3]",
    )
        .prop_map(|(labels, annotations, finalizers, namespace, spec, uid)| {
            let mut metadata = json!({
                "name": "guestbook",
                "namespace": namespace,
                "uid": uid,
                "resourceVersion": "1",
            });
            // an API server keeps no empty collections
            let optional = [
                ("labels", Value::Object(labels)),
                ("annotations", Value::Object(annotations)),
                ("finalizers", finalizers.into()),
            ];
            for (field, value) in optional {
                if value != json!({}) && value != json!([]) {
                    metadata[field] = value;
                }
            }
            json!({
                "apiVersion": keys::API_VERSION,
                "kind": "Application",
                "metadata": metadata,
                "spec": spec,
            })
        })
}
