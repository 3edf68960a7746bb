//! Whether the cluster knows Argo CD's kinds, as the hub knows them. Pure.

use diagnosis::object::{first_names, list, present, text};
use serde_json::Value;

use super::{Checked, Facts, Spoke, argo_cd, failed, ok, warning};

/// The version that Argo CD has of its kinds.
const VERSION: &str = "v1alpha1";

/// All of them.
pub(super) fn check(facts: &Facts, spoke: &Spoke) -> Checked {
    let (mut missing, mut unserved, mut dropped) = (Vec::new(), Vec::new(), Vec::new());
    for (name, read) in &spoke.definitions {
        let Some(crd) = read.as_ref()? else {
            missing.push(*name);
            continue;
        };
        let Some(here) = schema(crd) else {
            unserved.push(*name);
            continue;
        };
        if let Some(there) = of_hub(facts, name) {
            differs("", there, here, &mut dropped);
        }
    }
    if !missing.is_empty() {
        return absent(facts, spoke, &missing);
    }
    if !unserved.is_empty() {
        let names = unserved.join(" and ");
        return failed(
            format!("{names} does not serve argoproj.io/{VERSION}"),
            "install the CRDs of Argo CD 2.0 or newer on the cluster",
        );
    }
    if dropped.is_empty() {
        return ok(match facts.hub {
            Some(_) => "Argo CD's are there, and know every field of a spec that the hub's know",
            None => "Argo CD's are there",
        });
    }
    let fields = first_names(&dropped);
    warning(
        format!("the hub's know fields that the cluster's would drop: {fields}"),
        "upgrade Argo CD with its CRDs on the cluster, or do without these fields for it",
    )
}

fn absent(facts: &Facts, spoke: &Spoke, missing: &[&str]) -> Checked {
    let (are, them) = match missing.len() {
        1 => ("is", "it"),
        _ => ("are", "them"),
    };
    let cause = format!("{} {are} not there", missing.join(" and "));
    if !argo_cd::is_installed_by_add_on(facts, spoke) {
        let next = "install Argo CD on the cluster, or let the add-on bring it (INSTALL_ARGOCD)";
        return failed(cause, next);
    }
    let mut of_hub = facts.hub.iter().flat_map(|hub| &hub.definitions);
    if of_hub.any(|(_, read)| matches!(read, Ok(None))) {
        let cause = format!("{cause}, and the hub has none that the add-on could bring");
        return failed(cause, "install Argo CD's CRDs on the hub");
    }
    ok(format!(
        "{cause}; the add-on brings {them} as the hub has {them}"
    ))
}

fn of_hub<'a>(facts: &'a Facts, name: &str) -> Option<&'a Value> {
    let all = &facts.hub.as_ref()?.definitions;
    let (_, read) = all.iter().find(|(known, _)| *known == name)?;
    schema(present(read)?)
}

/// What a `spec` may have.
fn schema(crd: &Value) -> Option<&Value> {
    let mut versions = list(crd, "/spec/versions").iter();
    let is_served = |it: &Value| it.get("served") == Some(&Value::Bool(true));
    let version = versions.find(|it| text(it, "/name") == VERSION && is_served(it))?;
    version.pointer("/schema/openAPIV3Schema/properties/spec")
}

/// Fields of one schema that another lacks, the outermost only.
fn differs(path: &str, wanted: &Value, here: &Value, found: &mut Vec<String>) {
    if here.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)) {
        return;
    }
    for inner in ["items", "additionalProperties"] {
        if let (Some(wanted), Some(here)) = (wanted.get(inner), here.get(inner)) {
            differs(path, wanted, here, found);
        }
    }
    let fields = wanted.get("properties").and_then(Value::as_object);
    let known = here.get("properties");
    for (name, wanted) in fields.into_iter().flatten() {
        let path = match path {
            "" => format!("spec.{name}"),
            path => format!("{path}.{name}"),
        };
        match known.and_then(|known| known.get(name)) {
            Some(here) => differs(&path, wanted, here, found),
            None => found.push(path),
        }
    }
}
