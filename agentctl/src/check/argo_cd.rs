//! What of Argo CD on the hub may get in the way. Pure.

use argocd::glob;
use serde_json::Value;

use super::{Checked, Facts, Finding, failed, ok, unclear, warning};
use crate::object::{container, full_name, image, list, replicas, text};

/// The settings that decide which namespaces Argo CD's controllers watch.
#[derive(Clone, Copy, Debug)]
pub struct Watchers<'a> {
    /// The workloads that may be Argo CD application controllers.
    pub controllers: &'a Result<Vec<Value>, String>,
    /// Argo CD's parameters.
    pub parameters: &'a Result<Option<Value>, String>,
    /// The namespace of the hub's Argo CD.
    pub argocd_namespace: &'a str,
    /// The clusters with the add-on.
    pub clusters: &'a [String],
}

impl<'a> Watchers<'a> {
    pub(super) fn of(facts: &'a Facts) -> Self {
        Self {
            controllers: &facts.controllers,
            parameters: &facts.parameters,
            argocd_namespace: &facts.settings.routing.argocd_namespace,
            clusters: &facts.clusters,
        }
    }
}

/// The first release whose application controller leaves clusters alone that say so.
const CONSIDERATE: (u64, u64) = (3, 4);

/// Selects Argo CD's application controllers, by the label that manifests and charts put on them.
pub const CONTROLLER: &str = "app.kubernetes.io/component=application-controller";

/// Application controllers on the hub that would reconcile what runs on clusters.
pub fn controllers(facts: Watchers<'_>) -> Vec<Finding> {
    let judge = || -> Result<Vec<Checked>, String> {
        let running = facts.controllers.as_ref()?.iter();
        let running = running.filter(|it| replicas(it) > 0);
        Ok(running.map(|it| controller(it, facts)).collect())
    };
    let all = match judge() {
        Ok(all) if all.is_empty() => vec![ok("no Argo CD application controller runs on the hub")],
        Ok(all) => all,
        Err(reason) => vec![Err(reason)],
    };
    let all = all.into_iter();
    all.map(|it| Finding::of(("controllers", it))).collect()
}

fn controller(workload: &Value, facts: Watchers<'_>) -> Checked {
    let (name, image) = (full_name(workload), image(workload));
    let version = version(image);
    if version.is_some_and(|version| version >= CONSIDERATE) {
        return ok(format!(
            "{name} ({image}) ignores the clusters of the add-on"
        ));
    }
    let own = argocd::Meta::of(workload).namespace();
    let ours = watched_of_ours(workload, own, facts);
    if ours.is_empty() {
        return ok(format!(
            "{name} ({image}) watches no namespace of the add-on"
        ));
    }
    let names = ours.join(", ");
    let next = "upgrade it to Argo CD 3.4 or newer, which ignores them, or scale it to 0 if the hub has no \
    Applications of its own";
    if version.is_none() {
        let cause =
            format!("cannot read the version of {name} from its image {image}; it watches {names}");
        return unclear(cause, next);
    }
    let cause = format!(
        "{name} ({image}) would reconcile Applications that the add-on delivers: it watches {names}"
    );
    failed(cause, next)
}

/// Major and minor of an image's tag, if it is a version.
pub(super) fn version(image: &str) -> Option<(u64, u64)> {
    let name = image.split('@').next()?;
    let (_, tag) = name.rsplit('/').next()?.split_once(':')?;
    let mut parts = tag.trim_start_matches('v').split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The namespaces of ours that it looks at: its own, and those that Argo CD's parameters name.
fn watched_of_ours(workload: &Value, own: &str, facts: Watchers<'_>) -> Vec<String> {
    let further = further(facts.parameters);
    let argocd = facts.argocd_namespace;
    let clusters = facts.clusters.iter().map(String::as_str);
    let ours = std::iter::once(argocd).chain(clusters);
    let watched = ours.filter(|namespace| {
        *namespace == own
            || (own == argocd && further.iter().any(|it| glob::matches_entry(it, namespace)))
            || environment(workload)
                .iter()
                .any(|it| glob::matches_entry(it, namespace))
    });
    let mut watched: Vec<_> = watched.map(str::to_owned).collect();
    // A fleet is no list for people.
    let more = watched.len().saturating_sub(3);
    if more > 0 {
        watched.truncate(3);
        watched.push(format!("{more} more"));
    }
    watched
}

fn further(parameters: &Result<Option<Value>, String>) -> Vec<String> {
    let parameters = parameters.as_ref().ok().and_then(Option::as_ref);
    let data = parameters.and_then(|it| it.get("data"));
    let value = data.and_then(|data| data.get("application.namespaces"));
    entries(value.and_then(Value::as_str).unwrap_or_default())
}

fn environment(workload: &Value) -> Vec<String> {
    let mut env = container(workload)
        .map_or(&[][..], |it| list(it, "/env"))
        .iter();
    let entry = env.find(|it| text(it, "/name") == "ARGOCD_APPLICATION_NAMESPACES");
    entries(entry.map_or("", |entry| text(entry, "/value")))
}

fn entries(text: &str) -> Vec<String> {
    let entries = text.split(',').map(str::trim);
    let entries = entries.filter(|entry| !entry.is_empty());
    entries.map(str::to_owned).collect()
}

/// Whether the hub's Argo CD shows Applications in the namespaces of clusters.
pub(super) fn parameters(facts: &Facts) -> Checked {
    let argocd = &facts.settings.routing.argocd_namespace;
    if facts.parameters.as_ref()?.is_none() {
        return warning(
            format!(
                "ConfigMap {argocd}/argocd-cmd-params-cm not found; no Argo CD shows the fleet"
            ),
            "install argocd-server on the hub to use its UI and CLI",
        );
    }
    let further = further(&facts.parameters);
    let is_shown = |cluster: &str| further.iter().any(|it| glob::matches_entry(it, cluster));
    let Some(cluster) = facts.clusters.iter().find(|it| !is_shown(it)) else {
        return ok("its UI and CLI show Applications in the namespaces of all clusters");
    };
    warning(
        format!("its UI and CLI do not show Applications in namespace {cluster}"),
        format!(
            "add it to application.namespaces of the ConfigMap {argocd}/argocd-cmd-params-cm and restart \
             argocd-server, or keep its Applications in namespace {argocd}"
        ),
    )
}
