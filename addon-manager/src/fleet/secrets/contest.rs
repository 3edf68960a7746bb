//! Conflicts with other field managers of a cluster Secret.
//!
//! We apply without force, so the API server names the fields that another manager owns with other values. We leave a
//! label or an annotation for users and selectors to that manager. We do not overwrite fields that Argo CD needs
//! either, but report them in a condition.

use std::collections::BTreeSet;

use argocd::keys::is_reserved;
use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;

use super::{ApiError, Error};

/// A field as the API server names it in a conflict: `.metadata.labels.region`.
#[derive(Clone, Debug, derive_more::Display, PartialEq, Eq, PartialOrd, Ord)]
#[display("{}", _0.trim_start_matches('.'))]
pub struct Field(pub(super) String);

impl Field {
    fn parts(&self) -> Option<(&'static str, &str)> {
        let of = |kind| {
            let rest = self.0.strip_prefix(".metadata.")?.strip_prefix(kind)?;
            Some((kind, rest.strip_prefix('.')?))
        };
        of("labels").or_else(|| of("annotations"))
    }

    /// Whether another field manager may own it: labels and annotations for users and selectors, but not those that
    /// Argo CD and we need to identify the Secret.
    pub(super) fn may_differ(&self) -> bool {
        self.parts().is_some_and(|(_, key)| !is_reserved(key))
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

/// The message about labels and annotations that another field manager owns.
pub fn contested(fields: &BTreeSet<Field>) -> String {
    let fields: Vec<String> = fields.iter().map(ToString::to_string).collect();
    format!(
        "the cluster Secret keeps the values that another writer set in {}, which differ from the ManagedCluster: \
        remove them from the Secret to follow the ManagedCluster",
        fields.join(", ")
    )
}

/// Removes labels and annotations from the desired Secret.
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
    let Error::Api(ApiError { source, .. }) = error else {
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

/// The manager in a message such as `conflict with "kubectl-edit" using v1`.
pub(super) fn conflicting_manager(error: &Error) -> Option<String> {
    let (_, message) = conflicts(error).into_iter().next()?;
    Some(message.split('"').nth(1).unwrap_or(message).to_owned())
}
