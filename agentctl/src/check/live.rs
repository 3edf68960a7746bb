//! What the hub's Argo CD needs so that people see with it what is on the clusters. Pure.
//!
//! Nothing of this keeps Applications from being delivered, so none of it is a failure, but for an argocd-server that was
//! directed to a port without a listener.

use argocd::{
    Meta,
    keys::{AGENT_NAME, SKIP_RECONCILE, addon::REDIS_PROXY_SERVICE},
};
use diagnosis::object::text;
use serde_json::Value;

use super::{Checked, Facts, Finding, Outcome, failed, ok, warning};
use crate::settings::{REDIS_PROXY_PORT, has_port};

/// Selects Argo CD's servers, by the label that manifests and charts put on them.
pub const SERVER: &str = "app.kubernetes.io/component=server,app.kubernetes.io/part-of=argocd";
/// The default port of redis.
const PORT: &str = "6379";

/// Whether argocd-server may do this with Applications in a namespace; everywhere, if that has no name.
pub type ServerRight = (String, Result<bool, String>);

/// The next step after findings that `hub setup` can resolve.
const HINT: &str =
    "Next: argocd-agentctl hub setup makes these settings and rights; --dry-run lists them first";

/// The hint, if a live check of the hub found something. Only checks of the hub have one that is called `server`.
pub(super) fn hint(checks: &[Finding]) -> Option<&'static str> {
    let is_hub = checks.iter().any(|it| it.check == "server");
    let is_open = |it: &Finding| {
        let is_live = matches!(it.check, "argo cd" | "redis" | "server" | "ui");
        is_live && matches!(it.result, Outcome::Warning | Outcome::Failed)
    };
    (is_hub && checks.iter().any(is_open)).then_some(HINT)
}

/// The address of the redis proxy for argocd-server; `own` is the namespace of the hub program.
pub(crate) fn proxy_address(own: &str) -> String {
    format!("{REDIS_PROXY_SERVICE}.{own}.svc:{PORT}")
}

/// Whether the redis proxy is on, by the Deployment of the hub program.
pub(crate) fn is_proxy_on(manager: Option<&Value>) -> bool {
    has_port(manager, REDIS_PROXY_PORT)
}

/// All of it; nothing where no Argo CD is set up, which is a finding already.
pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let Ok(Some(parameters)) = &facts.parameters else {
        return Vec::new();
    };
    let mut all = vec![("redis", redis(facts, parameters))];
    all.extend(compression(parameters).map(|it| ("compression", it)));
    all.extend([("server", server(facts)), ("secrets", secrets(facts))]);
    all.into_iter().map(Finding::of).collect()
}

fn parameter<'a>(parameters: &'a Value, key: &str) -> &'a str {
    text(parameters, &format!("/data/{key}")).trim()
}

/// Whether argocd-server reads what clusters have in redis.
fn redis(facts: &Facts, parameters: &Value) -> Checked {
    let argocd = &facts.settings.routing.argocd_namespace;
    let ours = proxy_address(&facts.own_namespace);
    let is_on = is_proxy_on(facts.manager.as_ref()?.as_ref());
    let server = parameter(parameters, "redis.server");
    let turn_on = "turn it on with the chart's value redisProxy.enabled=true";
    let lead = format!(
        "set redis.server of the ConfigMap {argocd}/argocd-cmd-params-cm to {ours} and restart argocd-server"
    );
    let shown = if server.is_empty() { "its own" } else { server };
    match (is_on, leads_to_us(server, argocd, &facts.own_namespace)) {
        (true, true) => {
            ok("argocd-server reads trees, differences and states of clusters from the redis proxy")
        }
        (false, true) => failed(
            format!("argocd-server is configured for the redis proxy ({server}), which is off"),
            format!("{turn_on}, or remove redis.server"),
        ),
        (true, false) => warning(
            format!(
                "argocd-server reads a redis ({shown}) without the trees and states of clusters"
            ),
            lead,
        ),
        (false, false) => warning(
            "the redis proxy is off: argocd-server shows no trees, differences and states of clusters",
            format!("to show them, {turn_on}, and {lead}"),
        ),
    }
}

/// Whether this address, as argocd-server uses it, is that of the redis proxy.
pub(crate) fn leads_to_us(server: &str, argocd: &str, own: &str) -> bool {
    full_address(server, argocd) == proxy_address(own)
}

/// An address that is used beside Argo CD, with the namespace of a Service; any other host stays as it is.
pub(crate) fn full_address(address: &str, argocd: &str) -> String {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, PORT));
    let mut parts = host.split('.');
    let name = parts.next().unwrap_or_default();
    let namespace = parts.next().unwrap_or(argocd);
    // Only IPv6 addresses have more colons.
    let is_service = !host.contains(':') && parts.next().is_none_or(|part| part == "svc");
    if is_service {
        format!("{name}.{namespace}.svc:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// Whether it reads the names that Argo CD on clusters gives to values by default.
fn compression(parameters: &Value) -> Option<Checked> {
    let compression = parameter(parameters, "redis.compression");
    if matches!(compression, "" | "gzip") {
        return None;
    }
    let cause = format!(
        "redis.compression is {compression} here; an Argo CD on a cluster without this setting compresses with \
        gzip, so its trees are not found"
    );
    let next = "set gzip here, or the same value in argocd-cmd-params-cm of every cluster";
    Some(warning(cause, next))
}

/// Whether argocd-server may change what it shows.
fn server(facts: &Facts) -> Checked {
    let mut lacking = Vec::new();
    for (namespace, allowed) in &facts.server_rights {
        if !*allowed.as_ref()? {
            lacking.push(namespace.as_str());
        }
    }
    let Some(first) = lacking.first() else {
        return ok("argocd-server may change Applications in the namespaces of clusters");
    };
    let place = match lacking.len().saturating_sub(1) {
        // No cluster is opted in, so there is no namespace to check.
        0 if first.is_empty() => "outside of its own namespace".to_owned(),
        0 => format!("in namespace {first}"),
        more => format!("in namespace {first} and {more} more"),
    };
    warning(
        format!("argocd-server may not change Applications {place}"),
        "grant it the role in docs/live.md; without it, users can view but not sync or refresh them there",
    )
}

/// Whether an application controller on the hub would leave the clusters alone.
fn secrets(facts: &Facts) -> Checked {
    let secrets: Vec<_> = facts.secrets.as_ref()?.iter().map(Meta::of).collect();
    let is_of = |secret: &Meta<'_>, cluster: &str| secret.label(AGENT_NAME) == Some(cluster);
    let has_secret = |cluster: &&String| secrets.iter().any(|it| is_of(it, cluster));
    if let Some(cluster) = facts.clusters.iter().find(|it| !has_secret(it)) {
        return warning(
            format!("no cluster Secret of {cluster} exists, so Argo CD does not know it"),
            "the hub program creates it once the add-on is enabled; its log has the cause",
        );
    }
    let is_bare = |secret: &&Meta<'_>| {
        facts.clusters.iter().any(|it| is_of(secret, it))
            && secret.annotation(SKIP_RECONCILE) != Some("true")
    };
    if let Some(secret) = secrets.iter().find(is_bare) {
        let name = secret.name();
        return warning(
            format!(
                "the cluster Secret {name} has no annotation {SKIP_RECONCILE}: an application controller on the hub \
                would manage its cluster"
            ),
            "the hub program restores it; managedFields names the writer that removes it",
        );
    }
    ok("every cluster has its Secret, and application controllers on the hub ignore it")
}
