//! What of Argo CD on the hub may get in the way. Pure.

use argocd::glob;
use serde_json::Value;

use super::{Checked, Facts, failed, ok, unclear, warning};
use crate::object::{
    argument, container, entries, full_name, image, present, put, replicas, text, variable,
};

/// The first release whose application controller leaves clusters alone that say so.
const CONSIDERATE: (u64, u64) = (3, 4);

/// Selects Argo CD's application controllers, by the label that manifests and charts put on them.
pub const CONTROLLER: &str = "app.kubernetes.io/component=application-controller";

/// Flags of argocd-server, and the parameters of Argo CD for the same settings.
const FLAGS: [(&str, &str); 2] = [
    ("--redis", "redis.server"),
    ("--application-namespaces", "application.namespaces"),
];

/// The parameters as argocd-server has them. Its flags, which Argo CD's operator sets, win over the `ConfigMap`.
pub fn in_effect(
    parameters: Result<Option<Value>, String>,
    server: Option<&Value>,
) -> Result<Option<Value>, String> {
    let container = server.and_then(container);
    let mut parameters = parameters?;
    for (flag, key) in FLAGS {
        if let Some(given) = container.and_then(|it| argument(it, flag)) {
            let object = parameters.get_or_insert_default();
            put(object, &["data", key], Value::String(given.to_owned()));
        }
    }
    Ok(parameters)
}

/// Application controllers on the hub that would reconcile what runs on clusters: of the workloads that may be some,
/// by Argo CD's parameters, its namespace, and the clusters with the add-on.
pub fn controllers(
    workloads: &Result<Vec<Value>, String>,
    parameters: &Result<Option<Value>, String>,
    argocd: &str,
    clusters: &[String],
) -> Vec<Checked> {
    let further = further(parameters);
    let judge = |workload: &Value| {
        let watched = watched_of_ours(workload, &further, argocd, clusters);
        controller(workload, &watched)
    };
    let workloads = match workloads {
        Ok(all) => all.iter().filter(|it| replicas(it) > 0),
        Err(reason) => return vec![Err(reason.clone())],
    };
    let all: Vec<_> = workloads.map(judge).collect();
    if all.is_empty() {
        return vec![ok("no Argo CD application controller runs on the hub")];
    }
    all
}

fn controller(workload: &Value, watched: &[String]) -> Checked {
    let (name, image) = (full_name(workload), image(workload));
    let version = version(image);
    if version.is_some_and(|version| version >= CONSIDERATE) {
        return ok(format!(
            "{name} ({image}) ignores the clusters of the add-on"
        ));
    }
    if watched.is_empty() {
        return ok(format!(
            "{name} ({image}) watches no namespace of the add-on"
        ));
    }
    let names = watched.join(", ");
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
fn watched_of_ours(
    workload: &Value,
    further: &[String],
    argocd: &str,
    clusters: &[String],
) -> Vec<String> {
    let own = argocd::Meta::of(workload).namespace();
    let env = container(workload).and_then(|it| variable(it, "ARGOCD_APPLICATION_NAMESPACES"));
    let mut named = entries(env.unwrap_or_default());
    if own == argocd {
        named.extend_from_slice(further);
    }
    let clusters = clusters.iter().map(String::as_str);
    let ours = std::iter::once(argocd).chain(clusters);
    let is_named = |namespace: &str| named.iter().any(|it| glob::matches_entry(it, namespace));
    let watched = ours.filter(|namespace| *namespace == own || is_named(namespace));
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
    let parameters = present(parameters);
    entries(parameters.map_or("", |it| text(it, "/data/application.namespaces")))
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
