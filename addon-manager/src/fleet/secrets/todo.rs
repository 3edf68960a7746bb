//! Decides how to reconcile a cluster Secret, from its owner and its content.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::WRITTEN;

/// Adds the digest of the object to its annotations.
pub(super) fn marked(mut desired: Value) -> Value {
    let digest = hex::encode(Sha256::digest(desired.to_string()));
    let mark = json!({"metadata": {"annotations": {WRITTEN: digest}}});
    argocd::patch::merge(&mut desired, &mark);
    desired
}

/// The action for a Secret.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Todo {
    /// None: it is as desired.
    Nothing,
    /// Create it.
    Make,
    /// Repair it: it is ours and differs.
    Mend { uid: String },
    /// Adopt it: a predecessor of this program wrote it, or a user returned it to us.
    TakeOver { uid: String },
    /// None: it has another owner.
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

/// Adds the UID as a precondition: the write fails on a later Secret of the same name.
pub(super) fn demand(desired: &mut Value, uid: &str) {
    argocd::patch::merge(desired, &json!({"metadata": {"uid": uid}}));
}

/// Whether the live Secret contains everything desired. A difference in the digest, which is among the annotations,
/// also shows fields that are not desired any more.
pub(super) fn is_as(live: &Secret, wanted: &Secret) -> bool {
    fn contains<V: PartialEq>(
        live: Option<&BTreeMap<String, V>>,
        wanted: Option<&BTreeMap<String, V>>,
    ) -> bool {
        let mut entries = wanted.into_iter().flatten();
        entries.all(|(key, value)| live.and_then(|live| live.get(key)) == Some(value))
    }
    let texts = wanted.string_data.iter().flatten();
    let mut texts = texts.map(|(key, text)| (key, text.as_bytes()));
    let data = live.data.as_ref();
    contains(
        live.metadata.labels.as_ref(),
        wanted.metadata.labels.as_ref(),
    ) && contains(
        live.metadata.annotations.as_ref(),
        wanted.metadata.annotations.as_ref(),
    ) && contains(data, wanted.data.as_ref())
        && texts.all(|(key, text)| {
            data.and_then(|it| it.get(key))
                .is_some_and(|it| it.0 == text)
        })
}
