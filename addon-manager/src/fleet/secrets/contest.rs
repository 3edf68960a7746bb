//! What somebody else has set on a cluster Secret that we have set, too.
//!
//! We apply without force, so the API server names the fields of which another manager has decided
//! otherwise. A label or an annotation for people and selectors is then left to them; what Argo CD needs
//! is not written over either, but told.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;

use super::Error;

/// A field as the API server names it in a conflict: `.metadata.labels.region`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Field(pub(super) String);

impl std::fmt::Display for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.trim_start_matches('.'))
    }
}

impl Field {
    fn parts(&self) -> Option<(&'static str, &str)> {
        let of = |kind| {
            let rest = self.0.strip_prefix(".metadata.")?.strip_prefix(kind)?;
            Some((kind, rest.strip_prefix('.')?))
        };
        of("labels").or_else(|| of("annotations"))
    }

    /// Whether nothing breaks when somebody else decides on it: labels and annotations for people and
    /// selectors, but not those by which Argo CD and we know what the Secret is.
    pub(super) fn may_differ(&self) -> bool {
        self.parts().is_some_and(|(_, key)| {
            let reserved = argocd::keys::RESERVED_LABEL_PREFIXES.iter();
            !reserved.clone().any(|prefix| key.starts_with(prefix))
        })
    }

    pub(super) fn of(&self, secret: &Secret) -> Option<String> {
        let (kind, key) = self.parts()?;
        let map = if kind == "labels" {
            secret.metadata.labels.as_ref()
        } else {
            secret.metadata.annotations.as_ref()
        };
        map?.get(key).cloned()
    }

    pub(super) fn in_json(&self, object: &Value) -> Option<String> {
        let (kind, key) = self.parts()?;
        let value = object.pointer("/metadata")?.get(kind)?.get(key)?;
        value.as_str().map(str::to_owned)
    }
}

/// What to tell a person of labels and annotations that somebody else decides on.
pub fn contested(fields: &BTreeSet<Field>) -> String {
    let fields: Vec<String> = fields.iter().map(ToString::to_string).collect();
    format!(
        "the cluster Secret keeps the values that another writer set in {}, which differ from the ManagedCluster: \
        remove them from the Secret to follow the ManagedCluster",
        fields.join(", ")
    )
}

/// The same without some labels and annotations.
pub(super) fn without(mut desired: Value, fields: &BTreeSet<Field>) -> Value {
    for (kind, key) in fields.iter().filter_map(Field::parts) {
        let map = desired.pointer_mut(&format!("/metadata/{kind}"));
        if let Some(map) = map.and_then(Value::as_object_mut) {
            map.remove(key);
        }
    }
    desired
}

fn conflicts(error: &Error) -> Vec<(&str, &str)> {
    let Error::Api { source, .. } = error else {
        return Vec::new();
    };
    let kube::Error::Api(status) = &**source else {
        return Vec::new();
    };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes
        .filter(|cause| cause.reason == "FieldManagerConflict")
        .map(|cause| (cause.field.as_str(), cause.message.as_str()))
        .collect()
}

pub(super) fn conflicting_fields(error: &Error) -> BTreeSet<Field> {
    let fields = conflicts(error).into_iter();
    fields.map(|(field, _)| Field(field.to_owned())).collect()
}

/// The API server says `conflict with "kubectl-edit" using v1`.
pub(super) fn conflicting_manager(error: &Error) -> Option<String> {
    let (_, message) = conflicts(error).into_iter().next()?;
    Some(message.split('"').nth(1).unwrap_or(message).to_owned())
}
