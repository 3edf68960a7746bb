//! Hub to spoke and back: wire forms, desired objects, and patches.
//!
//! In managed mode the hub owns labels, annotations, Argo CD's resources finalizer and the spec; the spoke owns the
//! status. Everything is idempotent: after a patch is applied, the next one is empty.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::digest::is_volatile;
use crate::entries;
use crate::keys;
use crate::object::{Meta, part_of_metadata, set, to_map};
use crate::patch::{self, Patch};

mod normal;
mod status;
mod wire;
mod written;

#[cfg(test)]
mod tests;

pub use normal::normal_spec;
pub use status::{condition_patch_for_hub, status_patch_for_hub};
pub(crate) use status::{is_web_link, shown_status};
pub(crate) use wire::wire_metadata;
pub use wire::{report_application, stub, wire_application, wire_operation, wire_termination};
pub use written::Written;

/// The agent's environment.
#[derive(Clone, Copy, Debug)]
pub struct SpokeContext<'a> {
    /// Namespace of Argo CD on the spoke.
    pub argocd_namespace: &'a str,
    /// Namespace of Argo CD on the hub; its Applications go to the spoke's Argo CD namespace.
    pub principal_namespace: &'a str,
    /// UID of the principal, if it sent one.
    pub principal_uid: Option<&'a str>,
    /// Name of this cluster, which is also its namespace on the hub.
    pub cluster: &'a str,
}

impl<'a> SpokeContext<'a> {
    /// The namespace on the spoke of an Application in `hub_namespace` on the hub.
    pub fn spoke_namespace(&self, hub_namespace: &'a str) -> &'a str {
        if hub_namespace == self.cluster
            || hub_namespace == self.principal_namespace
            || hub_namespace.is_empty()
        {
            self.argocd_namespace
        } else {
            hub_namespace
        }
    }

    /// The namespace on the hub of a replica's source.
    ///
    /// A delete of a hub object in another namespace, with the same name on the spoke, does not apply to the replica. A
    /// delete of an object in this namespace does, whichever UID it has: see `protocol::session`.
    pub fn hub_namespace(&self, replica: &'a Value) -> &'a str {
        let meta = Meta::of(replica);
        if meta.annotation(keys::NAMESPACE_REMAPPED) == Some("true") {
            self.principal_namespace
        } else if meta.namespace() == self.argocd_namespace {
            self.cluster
        } else {
            meta.namespace()
        }
    }
}

/// Why an incoming object cannot be written on the spoke.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// It has no name.
    #[error("metadata.name is missing")]
    NoName,
    /// It has no UID, which identifies a replica.
    #[error("metadata.uid is missing")]
    NoUid,
    /// It has no spec.
    #[error("spec is missing or not an object")]
    NoSpec,
    /// It is a Secret of another kind.
    #[error("the label argocd.argoproj.io/secret-type is neither repository nor repo-creds")]
    NotForARepository,
    /// Its data is invalid for a Secret or a `ConfigMap`.
    #[error("data is not what it should be")]
    BadData,
}

/// The desired object on the spoke for an incoming Application.
///
/// Its destination is the cluster itself, its spec is in Argo CD's normal form, and its annotations record the source
/// and the annotations from the hub.
pub fn desired_on_spoke(incoming: &Value, context: &SpokeContext<'_>) -> Result<Value, Unusable> {
    let meta = Meta::of(incoming);
    let spec = with_destination(checked_spec(meta)?, keys::IN_CLUSTER);
    let mut annotations = stamped(meta, context);
    if meta.namespace() == context.principal_namespace
        && context.principal_namespace != context.cluster
    {
        annotations.insert(keys::NAMESPACE_REMAPPED.to_owned(), "true".into());
    }
    let mut finalizers = meta.finalizers();
    finalizers.retain(|name| is_resources_finalizer(name));
    Ok(json!({
        "apiVersion": keys::API_VERSION,
        "kind": "Application",
        "metadata": {
            "name": meta.name(),
            "namespace": context.spoke_namespace(meta.namespace()),
            "labels": meta.labels(),
            "annotations": annotations,
            "finalizers": finalizers,
        },
        "spec": normal_spec(&spec),
    }))
}

/// The spec with this cluster as its destination.
pub(crate) fn with_destination(spec: &Map<String, Value>, cluster: &str) -> Value {
    let mut spec = Value::Object(spec.clone());
    let change = json!({ "destination": { "name": cluster, "server": null } });
    patch::merge(&mut spec, &change);
    spec
}

/// The desired object on the spoke for an incoming AppProject.
pub fn desired_project_on_spoke(
    incoming: &Value,
    context: &SpokeContext<'_>,
) -> Result<Value, Unusable> {
    let meta = Meta::of(incoming);
    let spec = checked_spec(meta)?;
    Ok(json!({
        "apiVersion": keys::API_VERSION,
        "kind": "AppProject",
        "metadata": {
            "name": meta.name(),
            "namespace": context.argocd_namespace,
            "labels": meta.labels(),
            "annotations": stamped(meta, context),
            "finalizers": [],
        },
        "spec": spec,
    }))
}

/// The patch that makes the live replica equal to `desired`; none if it is equal or being deleted.
///
/// The hub owns all labels, and those annotations that came from it: others that were added on the spoke stay. Of the
/// finalizers the hub owns only the resources finalizer; Argo CD adds others. A spec that differs only by Argo CD's
/// normalisation stays.
pub fn patch_for_spoke(live: &Value, desired: &Value) -> Option<Patch> {
    let (live_meta, desired_meta) = (Meta::of(live), Meta::of(desired));
    if live_meta.is_deleting() {
        return None;
    }
    if entries::is_shared(desired) {
        return entries::merge_patch(live, desired);
    }
    let from = managed_part(live, desired);
    let spec = match (live_meta.field("spec"), desired_meta.field("spec")) {
        (Some(live), Some(desired)) if normal_spec(live) == normal_spec(desired) => Some(live),
        (_, desired) => desired,
    };
    let to = part(
        to_map(desired_meta.labels()),
        merged_annotations(live_meta, desired_meta),
        merged_finalizers(live_meta, desired_meta),
        spec,
        data_of(desired, desired),
    );
    patch::between(&from, &to)
}

/// The patch that releases a hub Application whose replica is gone: removes Argo CD's finalizers only.
pub fn release_patch_for_hub(hub: &Value) -> Option<Patch> {
    let meta = Meta::of(hub);
    let all = meta.finalizers();
    let mut kept = all.clone();
    kept.retain(|name| !is_argocd_finalizer(name));
    (kept.len() < all.len()).then(|| Patch::Merge(json!({ "metadata": { "finalizers": kept } })))
}

/// The patch that a replica needs before a *delete event* removes it, so that its resources stay.
///
/// The hub's object was deleted without a finalizer: with one it would still exist, with a deletionTimestamp that the
/// spoke follows. So the user wants to keep its resources (`--cascade=false`).
pub fn release_patch_for_spoke(spoke: &Value) -> Option<Patch> {
    let patch = release_patch_for_hub(spoke);
    patch.filter(|_| !Meta::of(spoke).is_deleting())
}

/// Whether the object has a name and a UID.
pub(crate) fn check_identity(meta: Meta<'_>) -> Result<(), Unusable> {
    if meta.name().is_empty() {
        return Err(Unusable::NoName);
    }
    if meta.uid().is_empty() {
        return Err(Unusable::NoUid);
    }
    Ok(())
}

fn checked_spec(meta: Meta<'_>) -> Result<&Map<String, Value>, Unusable> {
    check_identity(meta)?;
    let spec = meta.field("spec").and_then(Value::as_object);
    spec.ok_or(Unusable::NoSpec)
}

/// The incoming annotations, our own, and the record of those from the hub.
pub(crate) fn stamped(meta: Meta<'_>, context: &SpokeContext<'_>) -> Map<String, Value> {
    let mut incoming = meta.annotations();
    incoming.retain(|key, _| !is_volatile(key));
    let applied = incoming.keys().copied().collect::<Vec<_>>().join(",");
    let mut annotations = to_map(incoming);
    if !applied.is_empty() {
        annotations.insert(keys::APPLIED_ANNOTATIONS.to_owned(), applied.into());
    }
    annotations.insert(keys::SOURCE_UID.to_owned(), meta.uid().into());
    if let Some(uid) = context.principal_uid {
        annotations.insert(keys::PRINCIPAL_UID.to_owned(), uid.into());
    }
    annotations
}

fn merged_annotations(live: Meta<'_>, desired: Meta<'_>) -> Map<String, Value> {
    let wanted = desired.annotations();
    let came_from_hub: BTreeSet<&str> = live
        .annotation(keys::APPLIED_ANNOTATIONS)
        .unwrap_or_default()
        .split(',')
        .filter(|key| !is_volatile(key))
        .chain([keys::APPLIED_ANNOTATIONS, keys::NAMESPACE_REMAPPED])
        .collect();
    let live = live.annotations().into_iter();
    let own = live.filter(|(key, _)| !came_from_hub.contains(key));
    to_map(own.chain(wanted))
}

fn merged_finalizers<'a>(live: Meta<'a>, desired: Meta<'a>) -> Vec<&'a str> {
    let (have, want) = (live.finalizers(), desired.finalizers());
    let mut all = have.clone();
    all.retain(|name| !is_resources_finalizer(name) || want.contains(name));
    all.extend(want.iter().filter(|name| !have.contains(name)));
    all
}

/// The parts of `object` that `desired` has.
fn managed_part(object: &Value, desired: &Value) -> Value {
    let meta = Meta::of(object);
    part(
        to_map(meta.labels()),
        to_map(meta.annotations()),
        meta.finalizers(),
        meta.field("spec"),
        data_of(object, desired),
    )
}

/// The data of `object`, if the desired object has data.
fn data_of(object: &Value, desired: &Value) -> Option<Value> {
    desired.get("data")?;
    let data = Meta::of(object).field("data").cloned();
    Some(data.unwrap_or_else(|| json!({})))
}

fn part(
    labels: Map<String, Value>,
    annotations: Map<String, Value>,
    finalizers: Vec<&str>,
    spec: Option<&Value>,
    data: Option<Value>,
) -> Value {
    let metadata = part_of_metadata(labels, annotations, finalizers);
    let mut part = json!({ "metadata": metadata, "spec": spec });
    set(&mut part, "data", data);
    part
}

/// The wire form without finalizers that have no meaning for Argo CD.
pub fn with_argocd_finalizers(mut wire: Value) -> Value {
    if let Some(Value::Array(finalizers)) = wire.pointer_mut("/metadata/finalizers") {
        finalizers.retain(|name| name.as_str().is_some_and(is_argocd_finalizer));
    }
    wire
}

/// Whether a delete of the Application also deletes its resources.
pub fn cascades(application: &Value) -> bool {
    let finalizers = Meta::of(application).finalizers();
    finalizers.into_iter().any(is_resources_finalizer)
}

fn is_resources_finalizer(name: &str) -> bool {
    name.starts_with(keys::RESOURCES_FINALIZER)
}

/// Whether it is a finalizer of Argo CD: resources, and the hooks before and after deletion.
pub(crate) fn is_argocd_finalizer(name: &str) -> bool {
    let (kind, _) = name.split_once('/').unwrap_or((name, ""));
    kind.ends_with("-finalizer.argocd.argoproj.io")
}
