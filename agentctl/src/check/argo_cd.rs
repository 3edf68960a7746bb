//! What of Argo CD on the hub may get in the way. Pure.

use argocd::glob;
use serde_json::Value;

use super::{Facts, Finding, Outcome};

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
    let all = match facts.controllers {
        Ok(all) => all,
        Err(reason) => return vec![Finding::new("controllers", Outcome::Unclear, reason)],
    };
    let running: Vec<_> = all.iter().filter(|it| is_running(it)).collect();
    if running.is_empty() {
        let cause = "no Argo CD application controller runs on the hub";
        return vec![Finding::new("controllers", Outcome::Ok, cause)];
    }
    running
        .into_iter()
        .map(|it| controller(it, facts))
        .collect()
}

fn controller(workload: &Value, facts: Watchers<'_>) -> Finding {
    let meta = argocd::Meta::of(workload);
    let name = format!("{}/{}", meta.namespace(), meta.name());
    let image = image(workload);
    let finding = |outcome, cause| Finding::new("controllers", outcome, cause);
    let version = version(image);
    if version.is_some_and(|version| version >= CONSIDERATE) {
        let cause = format!("{name} ({image}) ignores the clusters of the add-on");
        return finding(Outcome::Ok, cause);
    }
    let ours = watched_of_ours(workload, meta.namespace(), facts);
    if ours.is_empty() {
        let cause = format!("{name} ({image}) watches no namespace of the add-on");
        return finding(Outcome::Ok, cause);
    }
    let names = ours.join(", ");
    let next = "upgrade it to Argo CD 3.4 or newer, which ignores them, or scale it to 0 if the hub has no \
    Applications of its own";
    if version.is_none() {
        let cause =
            format!("cannot read the version of {name} from its image {image}; it watches {names}");
        return finding(Outcome::Unclear, cause).next(next);
    }
    let cause = format!(
        "{name} ({image}) would reconcile Applications that the add-on delivers: it watches {names}"
    );
    finding(Outcome::Failed, cause).next(next)
}

fn is_running(name: &Value) -> bool {
    let wanted = name.pointer("/spec/replicas").and_then(Value::as_i64);
    wanted.unwrap_or(1) > 0
}

fn image(name: &Value) -> &str {
    let image = name.pointer("/spec/template/spec/containers/0/image");
    image.and_then(Value::as_str).unwrap_or_default()
}

/// Major and minor of an image's tag, if it is a version.
pub(super) fn version(image: &str) -> Option<(u64, u64)> {
    let name = image.split('@').next()?;
    let (_, tag) = name.rsplit('/').next()?.split_once(':')?;
    let mut parts = tag.trim_start_matches('v').split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The namespaces of ours that it looks at: its own, and those that Argo CD's parameters name.
fn watched_of_ours(name: &Value, own: &str, facts: Watchers<'_>) -> Vec<String> {
    let further = further(facts.parameters);
    let argocd = facts.argocd_namespace;
    let clusters = facts.clusters.iter().map(String::as_str);
    let ours = std::iter::once(argocd).chain(clusters);
    let watched = ours.filter(|namespace| {
        *namespace == own
            || (own == argocd && further.iter().any(|it| glob::matches_entry(it, namespace)))
            || environment(name)
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

fn environment(name: &Value) -> Vec<String> {
    let env = name.pointer("/spec/template/spec/containers/0/env");
    let mut env = env.and_then(Value::as_array).into_iter().flatten();
    let entry = env
        .find(|it| it.get("name").and_then(Value::as_str) == Some("ARGOCD_APPLICATION_NAMESPACES"));
    let value = entry.and_then(|entry| entry.get("value"));
    entries(value.and_then(Value::as_str).unwrap_or_default())
}

fn entries(text: &str) -> Vec<String> {
    let entries = text.split(',').map(str::trim);
    let entries = entries.filter(|entry| !entry.is_empty());
    entries.map(str::to_owned).collect()
}

/// Whether the hub's Argo CD shows Applications in the namespaces of clusters.
pub(super) fn parameters(facts: &Facts) -> Finding {
    let argocd = &facts.settings.routing.argocd_namespace;
    let finding = |outcome, cause: String| Finding::new("argo cd", outcome, cause);
    match &facts.parameters {
        Err(reason) => return finding(Outcome::Unclear, reason.clone()),
        Ok(None) => {
            let cause = format!(
                "ConfigMap {argocd}/argocd-cmd-params-cm not found; no Argo CD shows the fleet"
            );
            return finding(Outcome::Warning, cause)
                .next("install argocd-server on the hub to use its UI and CLI");
        }
        Ok(Some(_)) => {}
    }
    let further = further(&facts.parameters);
    let hidden = facts.clusters.iter().find(|cluster| {
        !further
            .iter()
            .any(|entry| glob::matches_entry(entry, cluster))
    });
    match hidden {
        None => finding(
            Outcome::Ok,
            "its UI and CLI show Applications in the namespaces of all clusters".to_owned(),
        ),
        Some(cluster) => {
            let cause = format!("its UI and CLI do not show Applications in namespace {cluster}");
            finding(Outcome::Warning, cause).next(format!(
                "add it to application.namespaces of the ConfigMap {argocd}/argocd-cmd-params-cm and restart \
                 argocd-server, or keep its Applications in namespace {argocd}"
            ))
        }
    }
}
