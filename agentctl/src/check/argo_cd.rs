//! What of Argo CD on the hub may get in the way. Pure.

use argocd::glob;
use diagnosis::object::{
    container, entries, first_names, full_name, image, option, present, put, replicas, text,
};
use serde_json::Value;

use super::{Checked, Facts, failed, ok, unclear, warning};

/// The first release whose application controller honours the annotation `skip-reconcile` of cluster Secrets.
const SKIPS_CLUSTERS: (u64, u64) = (3, 4);

/// Selects Argo CD's application controllers, by the label that manifests and charts put on them.
pub const CONTROLLER: &str = "app.kubernetes.io/component=application-controller";

/// The flag and the variable of a program of Argo CD with the namespaces of Applications.
pub(crate) const NAMESPACES: (&str, &str) =
    ("--application-namespaces", "ARGOCD_APPLICATION_NAMESPACES");
/// Those with the address of redis.
pub(crate) const REDIS_SERVER: (&str, &str) = ("--redis", "REDIS_SERVER");

/// Settings of argocd-server, and the parameters of Argo CD for the same.
const SETTINGS: [((&str, &str), &str); 2] = [
    (REDIS_SERVER, "redis.server"),
    (NAMESPACES, "application.namespaces"),
];

/// Whether argocd-server has a list of namespaces for itself, which wins over the `ConfigMap`.
pub fn has_own_namespaces(server: Option<&Value>) -> bool {
    let container = server.and_then(container);
    container.is_some_and(|it| option(it, NAMESPACES).is_some())
}

/// The parameters as argocd-server has them, with the settings of its own flags and variables.
pub fn in_effect(
    parameters: Result<Option<Value>, String>,
    server: Option<&Value>,
) -> Result<Option<Value>, String> {
    let container = server.and_then(container);
    let mut parameters = parameters?;
    for (setting, key) in SETTINGS {
        if let Some(given) = container.and_then(|it| option(it, setting)) {
            let object = parameters.get_or_insert_default();
            put(object, &["data", key], Value::String(given.to_owned()));
        }
    }
    Ok(parameters)
}

/// Application controllers on the hub that would reconcile what runs on clusters: of the workloads that may be some,
/// by Argo CD's parameters as its `ConfigMap` has them, its namespace, and the clusters with the add-on.
pub fn controllers(
    workloads: &Result<Vec<Value>, String>,
    parameters: &Result<Option<Value>, String>,
    argocd: &str,
    clusters: &[String],
) -> Vec<Checked> {
    let running = match workloads {
        Ok(all) => running(all, parameters, argocd, clusters),
        Err(reason) => return vec![Err(reason.clone())],
    };
    if running.is_empty() {
        return vec![ok("no Argo CD application controller runs on the hub")];
    }
    let judged = running.into_iter();
    let judged = judged.map(|(workload, watched)| controller(workload, &watched, argocd));
    judged.collect()
}

/// Application controllers on the hub that ignore the clusters of the add-on and watch their namespaces: each deploys the
/// Applications there whose destination is the hub, which the add-on delivers to the cluster.
pub fn watchers(
    workloads: &Result<Vec<Value>, String>,
    parameters: &Result<Option<Value>, String>,
    argocd: &str,
    clusters: &[String],
) -> Vec<Checked> {
    let workloads = workloads.as_deref().unwrap_or_default();
    let running = running(workloads, parameters, argocd, clusters).into_iter();
    let new = running.filter(|(workload, _)| skips_clusters(version(image(workload))));
    let judge = |(workload, mut watched): (&Value, Vec<&str>)| {
        watched.retain(|namespace| *namespace != argocd);
        let (name, names) = (full_name(workload), first_names(&watched));
        let cause = format!(
            "{name} watches {names}: it deploys Applications there with the destination in-cluster to the hub"
        );
        let next = "show these namespaces to argocd-server alone (docs/hybrid.md), or name the cluster in each destination \
        and admit the hub in no project";
        (!watched.is_empty()).then(|| warning(cause, next))
    };
    new.filter_map(judge).collect()
}

/// The workloads that run, each with the namespaces of ours that it looks at.
fn running<'a>(
    workloads: &'a [Value],
    parameters: &Result<Option<Value>, String>,
    argocd: &'a str,
    clusters: &'a [String],
) -> Vec<(&'a Value, Vec<&'a str>)> {
    let further = further(parameters);
    let running = workloads.iter().filter(|it| replicas(it) > 0);
    let all = running.map(|it| (it, watched_of_ours(it, &further, argocd, clusters)));
    all.collect()
}

/// Whether an application controller of this version ignores the clusters of the add-on.
fn skips_clusters(version: Option<(u64, u64)>) -> bool {
    version.is_some_and(|version| version >= SKIPS_CLUSTERS)
}

fn controller(workload: &Value, watched: &[&str], argocd: &str) -> Checked {
    let (name, image) = (full_name(workload), image(workload));
    let version = version(image);
    if skips_clusters(version) {
        return ok(format!(
            "{name} ({image}) ignores the clusters of the add-on"
        ));
    }
    if watched.is_empty() {
        return ok(format!(
            "{name} ({image}) watches no namespace of the add-on"
        ));
    }
    let names = first_names(watched);
    let next = "upgrade it to Argo CD 3.4 or newer, which ignores them, show these namespaces to argocd-server alone \
    (docs/hybrid.md), or scale it to 0 if the hub has no Applications of its own";
    if version.is_none() {
        let cause =
            format!("cannot read the version of {name} from its image {image}; it watches {names}");
        return unclear(cause, next);
    }
    if *watched == [argocd] {
        let cause = format!(
            "{name} ({image}) reconciles each Application in {argocd}, also those that deploy to a cluster of the add-on"
        );
        let next = "keep Applications of these clusters in the clusters' namespaces (docs/hybrid.md), or upgrade it to \
        Argo CD 3.4 or newer";
        return warning(cause, next);
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
fn watched_of_ours<'a>(
    workload: &Value,
    further: &[String],
    argocd: &'a str,
    clusters: &'a [String],
) -> Vec<&'a str> {
    let own = argocd::Meta::of(workload).namespace();
    let given = container(workload).and_then(|it| option(it, NAMESPACES));
    let named = match given {
        Some(given) => entries(given),
        None if own == argocd => further.to_vec(),
        None => Vec::new(),
    };
    let clusters = clusters.iter().map(String::as_str);
    let ours = std::iter::once(argocd).chain(clusters);
    let is_named = |namespace: &str| named.iter().any(|it| glob::matches_entry(it, namespace));
    let watched = ours.filter(|namespace| *namespace == own || is_named(namespace));
    watched.collect()
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
    let cause = format!("its UI and CLI do not show Applications in namespace {cluster}");
    if facts.has_own_namespaces {
        let next = "add it to the list of namespaces in argocd-server's Deployment, where that is managed (docs/hybrid.md)";
        return warning(cause, next);
    }
    warning(
        cause,
        format!(
            "add it to application.namespaces of the ConfigMap {argocd}/argocd-cmd-params-cm and restart \
             argocd-server, or keep its Applications in namespace {argocd}"
        ),
    )
}
