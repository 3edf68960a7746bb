//! Mirrors on the hub of an autonomous cluster's Applications and AppProjects.
//!
//! The spoke owns labels, annotations, spec and status. A mirror is an object of its own on the hub: it names its cluster
//! ([`keys::MIRRORED_FROM`]), has no field that could act or point elsewhere on the hub, and the hub can revert local
//! edits of it. This module checks all names from a spoke; the namespace never comes from the spoke.

use serde_json::{Map, Value, json};

use crate::command::{Judgement, Operation};
use crate::digest::{self, is_volatile};
use crate::keys;
use crate::name::{LONGEST_NAME, is_name};
use crate::object::{AppProject, Application, Meta, copy, part_of_metadata, set, text, to_map};
use crate::patch::{self, Patch};
use crate::projection::{is_argocd_finalizer, shown_status, wire_metadata, with_destination};

mod clean;
mod project;

#[cfg(test)]
mod tests;

pub use project::{project, project_name, source_name};

/// Why an object of a spoke cannot be mirrored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// The name is not a DNS subdomain.
    #[error("its name is no name of an object")]
    BadName,
    /// The project's name is too long with the cluster's name as prefix.
    #[error(
        "its name is too long: with the cluster's before it, it would have more than {LONGEST_NAME} characters"
    )]
    TooLong,
    /// The UID is missing or invalid.
    #[error("metadata.uid is missing or no UID")]
    NoUid,
    /// It has no spec.
    #[error("spec is missing or not an object")]
    NoSpec,
}

/// Whether an object on the hub mirrors one of this cluster: it has our annotation, or the Go principal created it.
pub fn is_of(object: &Value, cluster: &str) -> bool {
    match cluster_of(object) {
        Some(from) => from == cluster,
        None => {
            is_of_go(object)
                && (Meta::of(object).namespace() == cluster
                    || AppProject::of(object).source_namespaces() == [cluster])
        }
    }
}

/// The cluster that our annotation names.
pub fn cluster_of(object: &Value) -> Option<&str> {
    Meta::of(object).annotation(keys::MIRRORED_FROM)
}

/// Whether an object on the hub is a mirror.
pub fn is_mirror(object: &Value) -> bool {
    cluster_of(object).is_some() || is_of_go(object)
}

/// Only mirrors of the Go principal have both annotations.
fn is_of_go(object: &Value) -> bool {
    let meta = Meta::of(object);
    meta.source_uid().is_some() && meta.annotation(keys::LAST_UPDATED).is_some()
}

/// An Application or AppProject of the spoke as its agent reports it, to our principal (`ours`) or a Go principal.
///
/// A Go principal takes a reported operation or refresh for a new command of a user and sends it back; so a report to it
/// has none.
pub fn wire(live: &Value, kind: &str, ours: bool) -> Value {
    let mut metadata = wire_metadata(live);
    if let Some(annotations) = metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
    {
        let commands = [keys::LAST_COMMAND, keys::LAST_REFRESH, keys::REFRESH];
        annotations
            .retain(|key, _| !is_volatile(key) || (ours && commands.contains(&key.as_str())));
    }
    let mut wire = json!({
        "apiVersion": keys::API_VERSION,
        "kind": kind,
        "metadata": metadata,
        "spec": Meta::of(live).field("spec"),
    });
    if kind == "Application" {
        copy(&mut wire, live, "status");
        if ours {
            copy(&mut wire, live, "operation");
        }
    }
    wire
}

/// Digest of a report of [`wire`], without the version of the object.
pub fn wire_digest(wire: &Value) -> String {
    let mut report = wire.clone();
    if let Some(metadata) = report.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
        metadata.remove("generation");
    }
    digest::short(&report)
}

/// The desired mirror of a spoke's Application.
pub fn application(source: &Value, cluster: &str) -> Result<Value, Unusable> {
    let mut spec = with_destination(checked(source)?, cluster);
    let project = project_name(cluster, Application::of(source).project())?;
    set(&mut spec, "project", Some(project));
    Ok(json!({
        "apiVersion": keys::API_VERSION,
        "kind": "Application",
        "metadata": metadata(source, cluster, Meta::of(source).name(), cluster),
        "spec": spec,
    }))
}

/// The mirror to create: with the status, and without commands, which come from the hub only.
pub fn created(desired: &Value, source: &Value, cluster: &str) -> Value {
    let mut object = desired.clone();
    let judgement = Judgement {
        operation: Operation::Follow(None),
        terminate: false,
        refresh: false,
        refresh_done: false,
    };
    let status = shown_status(&json!({}), &report(source, cluster), &judgement);
    set(&mut object, "status", status);
    object
}

/// The patch that makes the mirror equal to `desired`, with the status of `source`; none if it is equal.
pub fn application_patch(
    live: &Value,
    desired: &Value,
    source: &Value,
    judgement: &Judgement,
    cluster: &str,
) -> Option<Patch> {
    let hub = Application::of(live);
    let operation = judgement.next_operation(live).cloned();
    let mut from = owned(live, live, false);
    let mut to = owned(desired, live, judgement.refresh_done);
    let status = shown_status(live, &report(source, cluster), judgement);
    set(&mut from, "status", hub.status().cloned());
    set(&mut from, "operation", hub.operation().cloned());
    set(&mut to, "status", status);
    set(&mut to, "operation", operation);
    patch::between(&from, &to)
}

/// The patch that reverts a user's edits of a mirror that we had `written`; none if there are none.
///
/// Commands are not edits, and neither are the records of the hub's controllers.
pub fn healing_patch(live: &Value, written: &Value) -> Option<Patch> {
    patch::between(&owned(live, live, false), &owned(written, live, false))
}

/// The mirror to recreate after a user has deleted it on the hub.
pub fn recreated(written: &Value) -> Value {
    let meta = Meta::of(written);
    let mut annotations = meta.annotations();
    annotations.retain(|key, _| !keys::REQUESTS.contains(key));
    let mut object = json!({
        "apiVersion": written.get("apiVersion"),
        "kind": written.get("kind"),
        "metadata": {
            "name": meta.name(),
            "namespace": meta.namespace(),
            "labels": meta.labels(),
            "annotations": annotations,
        },
        "spec": meta.field("spec"),
    });
    copy(&mut object, written, "status");
    object
}

/// The spoke's report, with child Applications in the namespace of their mirrors.
pub fn report(source: &Value, cluster: &str) -> Value {
    let mut report = source.clone();
    let resources = report
        .pointer_mut("/status/resources")
        .and_then(Value::as_array_mut);
    for resource in resources.into_iter().flatten() {
        if text(resource, "group") == "argoproj.io" && text(resource, "kind") == "Application" {
            set(resource, "namespace", Some(cluster));
        }
    }
    report
}

/// The spec, if name, UID and spec are valid.
fn checked(source: &Value) -> Result<&Map<String, Value>, Unusable> {
    let meta = Meta::of(source);
    if !is_name(meta.name()) {
        return Err(Unusable::BadName);
    }
    let uid = meta.uid();
    if uid.is_empty() || uid.len() > 128 || !uid.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(Unusable::NoUid);
    }
    let spec = meta.field("spec").and_then(Value::as_object);
    spec.ok_or(Unusable::NoSpec)
}

/// Metadata of a mirror: the name of its cluster, and the spoke's labels and annotations without those on which the
/// hub's controllers act.
fn metadata(source: &Value, cluster: &str, name: &str, namespace: &str) -> Value {
    let meta = Meta::of(source);
    let mut annotations = clean::annotations(meta);
    annotations.insert(keys::SOURCE_UID.to_owned(), meta.uid().into());
    annotations.insert(keys::MIRRORED_FROM.to_owned(), cluster.into());
    json!({
        "name": name,
        "namespace": namespace,
        "labels": clean::labels(meta),
        "annotations": annotations,
    })
}

/// The parts of a mirror that the spoke owns, with the hub's own parts from `live`.
///
/// Without Argo CD's finalizers: a mirror has no resources on the hub to clean up.
fn owned(object: &Value, live: &Value, refresh_done: bool) -> Value {
    let (meta, live_meta) = (Meta::of(object), Meta::of(live));
    let mut annotations = to_map(meta.annotations());
    for key in [keys::NOTIFIED, keys::REFRESH, keys::HYDRATE] {
        annotations.remove(key);
        let stays = key == keys::NOTIFIED || !refresh_done;
        if let Some(value) = live_meta.annotation(key).filter(|_| stays) {
            annotations.insert(key.to_owned(), value.into());
        }
    }
    let is_same = std::ptr::eq(object, live);
    let mut finalizers = live_meta.finalizers();
    finalizers.retain(|name| is_same || !is_argocd_finalizer(name));
    let metadata = part_of_metadata(to_map(meta.labels()), annotations, finalizers);
    let spec = meta.field("spec").cloned().unwrap_or_default();
    let spec = if is_same {
        spec
    } else {
        project::with_tokens_of(spec, live)
    };
    json!({ "metadata": metadata, "spec": spec })
}
