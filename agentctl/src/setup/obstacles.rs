//! What has to be done before setup may change argocd-server, so that it does not lose its redis and no other Argo CD takes
//! the Applications of clusters. Pure.

use argocd::keys::addon::MANAGER;
use diagnosis::object::{argument, container, entries, option};
use serde_json::{Value, json};

use super::{
    Facts,
    holder::{Holder, Wanted, missing},
    redis,
};
use crate::check::{
    Checked, Finding, NAMESPACES, Outcome, REDIS_SERVER, controllers, failed, is_proxy_on,
    leads_to_us, warning, watchers,
};

/// The release that the documentation installs.
const RELEASE: &str = "argocd-agent-addon";

/// All of them; setup writes nothing if there are any.
pub(super) fn obstacles(facts: &Facts, holder: Holder<'_>, wanted: &Wanted) -> Vec<Finding> {
    let mut all: Vec<_> = proxy(facts).into_iter().collect();
    if all.is_empty() {
        all.extend(redis::obstacles(facts, holder, wanted));
    }
    if !holder.is_operated {
        all.extend(flags(facts, wanted));
    }
    let mut all: Vec<_> = all.into_iter().map(Finding::of).collect();
    let others = other_controllers(facts, wanted).into_iter();
    all.extend(others.filter(|it| matches!(it.result, Outcome::Failed | Outcome::Unclear)));
    all
}

/// What the reader should know of the changes.
pub(super) fn notes(facts: &Facts, holder: Holder<'_>, wanted: &Wanted) -> Vec<Finding> {
    let mut all = Vec::new();
    if let Some((client, next)) = holder.manager() {
        let cause = format!("{client} may set the values of {} back", holder.title());
        all.push(("settings", warning(cause, next)));
    }
    if holder.is_operated && wanted.patterns.is_some() {
        let argocd = &facts.argocd_namespace;
        let cause = "the operator applies spec.sourceNamespaces only for instances that may manage the cluster";
        let next = format!(
            "check that the operator's variable ARGOCD_CLUSTER_CONFIG_NAMESPACES contains {argocd}"
        );
        all.push(("operator", warning(cause, next)));
    }
    if let Some(parameters) = afterwards(wanted) {
        let argocd = &facts.argocd_namespace;
        let found = watchers(&facts.controllers, &parameters, argocd, &facts.clusters);
        all.extend(found.into_iter().map(|it| ("controllers", it)));
    }
    // The operator makes Roles in the namespaces for it, too.
    if !holder.is_operated && facts.has_notifications && wanted.patterns.is_some() {
        let cause = "Argo CD's notifications controller reads application.namespaces, too; from its next restart \
            on it sends nothing unless it may list Applications and AppProjects in all namespaces";
        let next = "apply Argo CD's examples/k8s-rbac/argocd-server-applications, unless it has these rights";
        all.push(("notifications", warning(cause, next)));
    }
    let mut all: Vec<_> = all.into_iter().map(Finding::of).collect();
    let others = other_controllers(facts, wanted).into_iter();
    all.extend(others.filter(|it| it.result == Outcome::Warning));
    all
}

/// A check, and what it found.
pub(super) type Found = (&'static str, Checked);

/// How to change a value of the chart.
pub(super) fn upgrade(facts: &Facts, value: &str) -> String {
    let own = &facts.own_namespace;
    let manager = facts.manager.as_ref().map(argocd::Meta::of);
    let release = manager.and_then(|it| it.annotation("meta.helm.sh/release-name"));
    let release = release.unwrap_or(RELEASE);
    format!(
        "helm upgrade {release} CHART -n {own} --reset-then-reuse-values --set {value} --wait (CHART as it was \
        installed), and run this again"
    )
}

fn proxy(facts: &Facts) -> Option<Found> {
    let own = &facts.own_namespace;
    if facts.manager.is_none() {
        let cause = format!("Deployment {own}/{MANAGER} not found");
        let next = "install the chart, or set its namespace with --own-namespace";
        return Some(("hub program", failed(cause, next)));
    }
    if is_proxy_on(facts.manager.as_ref()) {
        return None;
    }
    let cause = "the redis proxy is off, and so are the pages in the UI";
    let next = format!(
        "turn it on: {}; ui.enabled=true turns the pages on",
        upgrade(facts, "redisProxy.enabled=true")
    );
    Some(("redis", failed(cause, next)))
}

/// Flags and variables of argocd-server that win over the `ConfigMap`, where they have another value than is needed.
fn flags(facts: &Facts, wanted: &Wanted) -> Vec<Found> {
    let (argocd, own) = (&facts.argocd_namespace, &facts.own_namespace);
    let is_other_redis = |it: &str| wanted.is_led || !leads_to_us(it, argocd, own);
    let is_too_narrow = |it: &str| !missing(facts, &entries(it), false).is_empty();
    let Some(server) = container(&facts.server) else {
        return Vec::new();
    };
    let given = |setting| option(server, setting);
    let remove = "remove it from its Deployment, where that is managed, and run this again";
    let extend = "add the namespaces of all clusters to it where its Deployment is managed, or remove it, and run this \
    again";
    let found = [
        (
            REDIS_SERVER,
            given(REDIS_SERVER).is_some_and(is_other_redis),
            remove,
        ),
        (
            NAMESPACES,
            given(NAMESPACES).is_some_and(is_too_narrow),
            extend,
        ),
    ];
    let found = found.into_iter().filter(|(_, is_wrong, _)| *is_wrong);
    let found = found.map(|((flag, name), _, next)| {
        let setting = if argument(server, flag).is_some() {
            format!("flag {flag}")
        } else {
            format!("variable {name}")
        };
        let cause = format!("argocd-server has the {setting}, which wins over the ConfigMap");
        ("flags", failed(cause, next))
    });
    found.collect()
}

/// Argo CD's parameters with the namespaces as they will be, if these change.
fn afterwards(wanted: &Wanted) -> Option<Result<Option<Value>, String>> {
    let patterns = wanted.patterns.as_ref()?.join(",");
    Some(Ok(Some(
        json!({"data": {"application.namespaces": patterns}}),
    )))
}

/// Application controllers on the hub that would take Applications of clusters, with the namespaces as they will be.
fn other_controllers(facts: &Facts, wanted: &Wanted) -> Vec<Finding> {
    let Some(parameters) = afterwards(wanted) else {
        return Vec::new();
    };
    let argocd = &facts.argocd_namespace;
    let found = controllers(&facts.controllers, &parameters, argocd, &facts.clusters);
    Finding::each("controllers", found).collect()
}
