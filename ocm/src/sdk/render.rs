//! Converts rendered objects to the contents of works. Pure.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{RenderError, Rendered, hash::digest, place::Place};
use crate::{
    api::work::{
        DeleteOption, FeedbackRule, ManifestConfig, ManifestWorkSpec, ResourceIdentifier,
        SelectivelyOrphan, ServerSideApply, UpdateStrategy,
    },
    keys,
};

/// One object, checked and measured.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Manifest {
    /// Its name in works.
    pub(crate) id: ResourceIdentifier,
    /// The object.
    pub(crate) body: Value,
    /// Its size as JSON.
    pub(crate) size: usize,
    /// How it is applied and watched.
    pub(crate) config: ManifestConfig,
    /// Where it goes in hosted mode.
    pub(crate) location: Location,
    /// Whether it runs before deletion, and only then.
    pub(crate) hook: bool,
}

/// Where an object goes in hosted mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// To the managed cluster.
    Managed,
    /// To the cluster that hosts the agent.
    Hosting,
    /// Nowhere.
    Nowhere,
}

/// The objects that go to one place; without hosted mode all go to the managed cluster.
pub(crate) fn bound_for(manifests: &[Manifest], place: &Place, hosted: bool) -> Vec<Manifest> {
    let wanted = match place {
        Place::Managed => Location::Managed,
        Place::Hosting(_) => Location::Hosting,
    };
    let goes = |manifest: &&Manifest| {
        if hosted {
            manifest.location == wanted
        } else {
            !place.is_hosting()
        }
    };
    manifests.iter().filter(goes).cloned().collect()
}

/// Checks and measures the rendered objects, in the author's order.
pub(crate) fn manifests(rendered: Rendered) -> Result<Vec<Manifest>, RenderError> {
    let Rendered { manifests, configs } = rendered;
    let mut seen = BTreeSet::new();
    let mut checked = Vec::with_capacity(manifests.len());
    for mut body in manifests {
        drop_nulls(&mut body);
        let manifest = manifest(body, &configs)?;
        if !seen.insert(manifest.id.clone()) {
            return Err(refused(&manifest.id, "is rendered twice"));
        }
        checked.push(manifest);
    }
    Ok(checked)
}

fn manifest(body: Value, configs: &[ManifestConfig]) -> Result<Manifest, RenderError> {
    let id = identify(&body).ok_or_else(|| RenderError {
        message: "an object is rendered without apiVersion, kind or name".to_owned(),
    })?;
    if body.pointer("/metadata/generateName").is_some() {
        return Err(refused(&id, "has a generateName"));
    }
    let kind = body.get("kind").and_then(Value::as_str).unwrap_or_default();
    let mut config = default_config(kind, id.clone());
    let own = configs
        .iter()
        .filter(|own| fits(&own.resource_identifier, &id));
    own.for_each(|own| merge(&mut config, own));
    let size = body.to_string().len();
    let (location, hook) = (location(&body), is_hook(&body));
    Ok(Manifest {
        id,
        body,
        size,
        config,
        location,
        hook,
    })
}

/// The error about one object.
pub(crate) fn refused(id: &ResourceIdentifier, why: &str) -> RenderError {
    let message = format!("{} {}/{} {why}", id.resource, id.namespace, id.name);
    RenderError { message }
}

/// The API server may drop nulls of embedded objects, so ours have none.
fn drop_nulls(value: &mut Value) {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
        fields.values_mut().for_each(drop_nulls);
    } else if let Some(items) = value.as_array_mut() {
        items.iter_mut().for_each(drop_nulls);
    }
}

/// The identifier of an object in works; `None` without apiVersion, kind or name.
pub(crate) fn identify(body: &Value) -> Option<ResourceIdentifier> {
    let text = |path| body.pointer(path)?.as_str().filter(|text| !text.is_empty());
    let api_version = text("/apiVersion")?;
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    Some(ResourceIdentifier {
        group: group.to_owned(),
        resource: plural(text("/kind")?),
        namespace: text("/metadata/namespace").unwrap_or_default().to_owned(),
        name: text("/metadata/name")?.to_owned(),
    })
}

/// The plural of a kind, guessed as in OCM, which identifies objects in works by it.
fn plural(kind: &str) -> String {
    let singular = kind.to_lowercase();
    if singular == "endpoints" {
        return singular;
    }
    match singular.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if singular.ends_with('s') => format!("{singular}es"),
        None => format!("{singular}s"),
    }
}

/// Server-side apply keeps the fields of other managers; the work agent has no permission to patch CRDs.
/// Workloads report their status, at once where the agent can watch.
fn default_config(kind: &str, id: ResourceIdentifier) -> ManifestConfig {
    let update_strategy = (kind != "CustomResourceDefinition").then(|| UpdateStrategy {
        kind: "ServerSideApply".to_owned(),
        server_side_apply: Some(ServerSideApply {
            force: true,
            field_manager: String::new(),
        }),
    });
    let well_known = matches!(kind, "Deployment" | "DaemonSet" | "Job" | "Pod");
    let rule = FeedbackRule {
        kind: "WellKnownStatus".to_owned(),
        json_paths: Vec::new(),
    };
    ManifestConfig {
        resource_identifier: id,
        feedback_rules: well_known.then_some(rule).into_iter().collect(),
        feedback_scrape_type: if well_known { "Watch" } else { "" }.to_owned(),
        update_strategy,
    }
}

fn fits(pattern: &ResourceIdentifier, id: &ResourceIdentifier) -> bool {
    let one = |pattern: &str, text: &str| pattern == "*" || pattern == text;
    pattern.group == id.group
        && pattern.resource == id.resource
        && one(&pattern.namespace, &id.namespace)
        && one(&pattern.name, &id.name)
}

fn merge(config: &mut ManifestConfig, own: &ManifestConfig) {
    for rule in &own.feedback_rules {
        if !config.feedback_rules.contains(rule) {
            config.feedback_rules.push(rule.clone());
        }
    }
    if !own.feedback_scrape_type.is_empty() {
        config
            .feedback_scrape_type
            .clone_from(&own.feedback_scrape_type);
    }
    if own.update_strategy.is_some() {
        config.update_strategy.clone_from(&own.update_strategy);
    }
}

/// The spec of a work that holds these objects.
pub(crate) fn work_spec<'a>(manifests: impl Iterator<Item = &'a Manifest>) -> ManifestWorkSpec {
    let mut spec = ManifestWorkSpec::default();
    let mut orphans = Vec::new();
    for manifest in manifests {
        if mark(&manifest.body, "annotations", keys::DELETION_ORPHAN).is_some() {
            orphans.push(manifest.id.clone());
        }
        let plain = ManifestConfig {
            resource_identifier: manifest.id.clone(),
            ..ManifestConfig::default()
        };
        if manifest.config != plain {
            spec.manifest_configs.push(manifest.config.clone());
        }
        spec.workload.manifests.push(manifest.body.clone());
    }
    spec.delete_option = (!orphans.is_empty()).then(|| DeleteOption {
        propagation_policy: "SelectivelyOrphan".to_owned(),
        selectively_orphans: Some(SelectivelyOrphan {
            orphaning_rules: orphans,
        }),
    });
    spec
}

fn mark<'a>(body: &'a Value, marks: &str, key: &str) -> Option<&'a Value> {
    body.get("metadata")?.get(marks)?.get(key)
}

fn location(body: &Value) -> Location {
    let marks = ["annotations", "labels"];
    let value = marks
        .into_iter()
        .find_map(|marks| mark(body, marks, keys::HOSTED_LOCATION));
    match value.and_then(Value::as_str) {
        Some("hosting") => Location::Hosting,
        Some("none") => Location::Nowhere,
        Some(_) | None => Location::Managed,
    }
}

/// Whether an object is a pre-delete hook. Only Jobs and Pods can be, since they complete.
fn is_hook(body: &Value) -> bool {
    let kind = body.get("kind").and_then(Value::as_str);
    let marks = [
        ("annotations", keys::PRE_DELETE),
        ("labels", keys::PRE_DELETE),
        ("labels", keys::PRE_DELETE_OLD),
    ];
    let mut marked = marks
        .into_iter()
        .filter_map(|(marks, key)| mark(body, marks, key));
    matches!(kind, Some("Job" | "Pod")) && marked.next().is_some()
}

/// A digest of a work's spec that does not depend on the defaults that the API server adds, with any
/// version of the CRD.
pub(crate) fn spec_digest(spec: &Value) -> String {
    let mut spec = spec.clone();
    drop_default(&mut spec, "/deleteOption/propagationPolicy", "Foreground");
    drop_empty(&mut spec, "deleteOption");
    let configs = spec.get_mut("manifestConfigs");
    for config in configs.and_then(Value::as_array_mut).into_iter().flatten() {
        // Hubs before OCM 1.3 drop this unknown field, so a difference in it must cause no write.
        if let Some(config) = config.as_object_mut() {
            config.remove("feedbackScrapeType");
        }
        let apply = "/updateStrategy/serverSideApply";
        drop_default(config, &format!("{apply}/fieldManager"), "work-agent");
        drop_default(config, &format!("{apply}/force"), false);
        drop_default(config, "/updateStrategy/type", "Update");
        drop_empty(config, "updateStrategy");
    }
    drop_empty(&mut spec, "manifestConfigs");
    digest(&spec)
}

fn drop_default(value: &mut Value, path: &str, default: impl Into<Value>) {
    if value.pointer(path) == Some(&default.into())
        && let Some((parent, field)) = path.rsplit_once('/')
        && let Some(parent) = value.pointer_mut(parent).and_then(Value::as_object_mut)
    {
        parent.remove(field);
    }
}

fn drop_empty(value: &mut Value, field: &str) {
    let empty = match value.get(field) {
        Some(Value::Object(object)) => object.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Null) => true,
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) | None => false,
    };
    if empty && let Some(object) = value.as_object_mut() {
        object.remove(field);
    }
}

/// The objects of a work, with their sizes.
pub(crate) fn identifiers(spec: &Value) -> BTreeSet<ResourceIdentifier> {
    let manifests = spec.pointer("/workload/manifests");
    let manifests = manifests.and_then(Value::as_array).into_iter().flatten();
    manifests.filter_map(identify).collect()
}

#[cfg(test)]
mod tests;
