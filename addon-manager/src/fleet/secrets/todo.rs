//! What to do about a cluster Secret: whose it is, and whether it is as it should be.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::WRITTEN;

/// Adds the digest of the whole to its annotations.
pub(super) fn marked(mut desired: Value) -> Value {
    let digest = hex::encode(Sha256::digest(desired.to_string()));
    if let Some(metadata) = desired.get_mut("metadata").and_then(Value::as_object_mut) {
        let annotations = metadata
            .entry("annotations")
            .or_insert_with(|| Value::Object(serde_json::Map::default()));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(WRITTEN.to_owned(), Value::String(digest));
        }
    }
    desired
}

/// What to do about a Secret.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Todo {
    /// It is as it should be.
    Nothing,
    /// There is none.
    Make,
    /// It is ours and differs.
    Mend { uid: String },
    /// It is that of a program which this one replaces, or a person has given it back to us.
    TakeOver { uid: String },
    /// It is somebody else's.
    LeaveAlone,
}

pub(super) fn todo(cluster: &str, live: Option<&Secret>, wanted: &Secret) -> Todo {
    let Some(live) = live else {
        return Todo::Make;
    };
    let uid = live.metadata.uid.clone().unwrap_or_default();
    let none = BTreeMap::new();
    let labels = live.metadata.labels.as_ref().unwrap_or(&none);
    let annotations = live.metadata.annotations.as_ref().unwrap_or(&none);
    match annotations.get(WRITTEN) {
        Some(emptied) if emptied.is_empty() => Todo::TakeOver { uid },
        Some(_) if is_as(live, wanted) => Todo::Nothing,
        Some(_) => Todo::Mend { uid },
        None if argocd::cluster_secret::is_predecessors(cluster, labels, annotations) => {
            Todo::TakeOver { uid }
        }
        None => Todo::LeaveAlone,
    }
}

/// Lets a write succeed only on the very Secret that was looked at.
pub(super) fn demand(desired: &mut Value, uid: String) {
    if let Some(metadata) = desired.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("uid".to_owned(), Value::String(uid));
    }
}

/// Whether everything wanted is there. The digest among the annotations tells that nothing is there
/// which was wanted once and is no longer.
pub(super) fn is_as(live: &Secret, wanted: &Secret) -> bool {
    fn holds<V: PartialEq>(
        live: Option<&BTreeMap<String, V>>,
        wanted: Option<&BTreeMap<String, V>>,
    ) -> bool {
        let mut entries = wanted.into_iter().flatten();
        entries.all(|(key, value)| live.and_then(|live| live.get(key)) == Some(value))
    }
    let texts = wanted.string_data.iter().flatten();
    let mut texts = texts.map(|(key, text)| (key, text.as_bytes()));
    let data = live.data.as_ref();
    holds(
        live.metadata.labels.as_ref(),
        wanted.metadata.labels.as_ref(),
    ) && holds(
        live.metadata.annotations.as_ref(),
        wanted.metadata.annotations.as_ref(),
    ) && holds(data, wanted.data.as_ref())
        && texts.all(|(key, text)| {
            data.and_then(|it| it.get(key))
                .is_some_and(|it| it.0 == text)
        })
}
