//! What the hub serves, what is installed, where agents dial, and what the caller may do. Pure.

use std::collections::{BTreeMap, BTreeSet};

use argocd::keys::addon::{ADDON, CA_SECRET, MANAGER, PRINCIPAL_SERVICE};
use diagnosis::{
    labels::Wrong,
    object::{argument, container, image, list, present, text},
};
use runtime::net::host_and_port;
use serde_json::Value;

use super::{
    Checked, Facts,
    RightPlace::{self, ArgoCd, Everywhere, Own},
    failed, ok,
    rights::plural,
    unclear, warning,
};

/// Kinds by group and version, `group/version`.
pub type Served = BTreeMap<&'static str, Result<BTreeSet<String>, String>>;

const INSTALL_OCM: &str = "install Open Cluster Management 1.2 or newer (clusteradm init), or choose the hub with --context";

/// The groups that matter, in the version that is needed, with the kinds and where they come from.
pub const GROUPS: [(&str, &[&str], &str); 4] = [
    (
        "addon.open-cluster-management.io/v1alpha1",
        &[
            "managedclusteraddons",
            "clustermanagementaddons",
            "addondeploymentconfigs",
        ],
        INSTALL_OCM,
    ),
    (
        "cluster.open-cluster-management.io/v1",
        &["managedclusters"],
        INSTALL_OCM,
    ),
    (
        "work.open-cluster-management.io/v1",
        &["manifestworks"],
        INSTALL_OCM,
    ),
    (
        "argoproj.io/v1alpha1",
        &["applications", "appprojects"],
        "install Argo CD, or at least its CRDs, on the hub",
    ),
];

/// Something that the caller may have to do: the verb, API group and plural name (`group/plural`), of which object (empty
/// for any), in whose namespace, and the commands that need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right(
    pub &'static str,
    pub &'static str,
    pub &'static str,
    pub RightPlace,
    pub &'static str,
);

const CLUSTERS: &str = "cluster.open-cluster-management.io/managedclusters";
const ADDONS: &str = "addon.open-cluster-management.io/managedclusteraddons";
const APPLICATIONS: &str = "argoproj.io/applications";
const REVIEWS: &str = "authorization.k8s.io/subjectaccessreviews";
const READ_SECRETS: &str = "why, for destinations by server, and check";

const ADOPTING: &str = "status, check, cluster adopt";

/// What the commands need.
pub const RIGHTS: [Right; 12] = [
    Right("list", ADDONS, "", Everywhere, "every command"),
    Right("list", APPLICATIONS, "", Everywhere, "status, why"),
    Right("list", "argoproj.io/appprojects", "", ArgoCd, "why"),
    Right("list", "/secrets", "", ArgoCd, READ_SECRETS),
    Right("create", REVIEWS, "", Everywhere, "check"),
    Right("get", "apps/deployments", "", Own, "status, why"),
    Right("get", "/secrets", CA_SECRET, Own, "certs list"),
    Right("patch", "/secrets", CA_SECRET, Own, "certs rotate --ca"),
    Right("get", ADDONS, ADDON, Everywhere, "agent, certs rotate"),
    Right("patch", ADDONS, ADDON, Everywhere, "agent, certs rotate"),
    Right("list", CLUSTERS, "", Everywhere, ADOPTING),
    Right("patch", CLUSTERS, "", Everywhere, "cluster adopt"),
];

/// The kinds that the hub must serve.
pub(super) fn apis(facts: &Facts) -> Vec<Checked> {
    let check = |(version, kinds, next): (&'static str, &[&str], &'static str)| {
        let found = facts.served.get(version).map(Result::as_ref).transpose();
        let found = found.map_err(|reason| format!("{version}: {reason}"))?;
        let is_missing = |kind: &&str| found.is_none_or(|found| !found.contains(*kind));
        let missing: Vec<_> = kinds.iter().copied().filter(is_missing).collect();
        if missing.is_empty() {
            return ok(format!("{version} is served"));
        }
        let cause = format!("{version} does not have {}", missing.join(", "));
        failed(cause, next)
    };
    GROUPS.map(check).to_vec()
}

/// The labels that cannot be followed.
pub(super) fn labels(read: &Result<Vec<Wrong>, String>) -> Vec<Checked> {
    let fails = |it: &Wrong| failed(it.cause(), it.next());
    match read.as_deref() {
        Err(reason) => vec![Err(reason.clone())],
        Ok([]) => vec![ok("all opt-in labels are valid")],
        Ok(wrong) => wrong.iter().map(fails).collect(),
    }
}

/// The add-on's definition.
pub fn offer(read: &Result<Option<Value>, String>) -> Checked {
    let Some(offer) = read.as_ref()? else {
        let cause = format!("ClusterManagementAddOn {ADDON} not found");
        return failed(cause, "install the chart (manifests/hub)");
    };
    let mut kinds = list(offer, "/spec/supportedConfigs").iter();
    if kinds.any(|kind| text(kind, "/resource") == "addontemplates") {
        return failed(
            format!(
                "the ClusterManagementAddOn {ADDON} belongs to another add-on, which uses AddOnTemplates"
            ),
            "remove the other one first; `helm upgrade --install` of the chart prints the steps",
        );
    }
    let kind = text(offer, "/spec/installStrategy/type");
    ok(format!("available, install strategy {kind}"))
}

/// The hub program.
pub(super) fn program(facts: &Facts) -> Checked {
    let namespace = &facts.own_namespace;
    let Some(manager) = facts.manager.as_ref()? else {
        return failed(
            format!("Deployment {namespace}/{MANAGER} not found"),
            "install the chart, or set its namespace with --own-namespace",
        );
    };
    let ready = manager.pointer("/status/availableReplicas");
    let ready = ready.and_then(Value::as_i64).unwrap_or_default();
    let image = image(manager);
    if ready > 0 {
        return ok(format!("{ready} available, image {image}"));
    }
    failed(
        format!("no Pod of {namespace}/{MANAGER} is ready, image {image}"),
        format!(
            "kubectl -n {namespace} describe pods -l app.kubernetes.io/name={MANAGER}, and its log"
        ),
    )
}

/// The hosts and ports that agents dial, from the hub program's arguments and the Service.
pub fn addresses(manager: Option<&Value>, service: Option<&Value>) -> Vec<(String, u16)> {
    let container = manager.and_then(container);
    let configured = container.and_then(|it| argument(it, "--principal-address"));
    if let Some(configured) = configured.filter(|configured| !configured.is_empty()) {
        return vec![address_of(configured)];
    }
    let Some(service) = service else {
        return Vec::new();
    };
    let port = service.pointer("/spec/ports/0/port");
    let port = port.and_then(|port| u16::try_from(port.as_u64()?).ok());
    let port = port.unwrap_or(AGENTS_PORT);
    if text(service, "/spec/type") == "ExternalName" {
        return vec![(text(service, "/spec/externalName").to_owned(), port)];
    }
    let ways = list(service, "/status/loadBalancer/ingress").iter();
    let ways = ways.filter_map(|way| {
        let name = [text(way, "/hostname"), text(way, "/ip")];
        name.into_iter().find(|name| !name.is_empty())
    });
    ways.map(|host| (host.to_owned(), port)).collect()
}

/// The default port that agents dial.
const AGENTS_PORT: u16 = 443;

/// Host and port; a malformed address is shown as it is.
pub(super) fn address_of(address: &str) -> (String, u16) {
    let default = (address, AGENTS_PORT);
    let (host, port) = host_and_port(address, Some(AGENTS_PORT)).unwrap_or(default);
    (host.to_owned(), port)
}

/// Whether agents know where to dial.
pub(super) fn address(facts: &Facts) -> Checked {
    let service = facts.service.as_ref()?.as_ref();
    let addresses = addresses(present(&facts.manager), service).into_iter();
    let hosts: Vec<_> = addresses.map(|(host, _)| host).collect();
    if !hosts.is_empty() {
        return ok(format!("agents dial {}", hosts.join(", ")));
    }
    let Some(service) = service else {
        let cause = format!("Service {PRINCIPAL_SERVICE} not found");
        return failed(cause, "install the chart");
    };
    let next = "set the chart's value principal.address, or give the Service a load balancer; without either, \
    agents dial a Route, TLSRoute, Ingress or node port if principal.findAddress is on";
    let service = (PRINCIPAL_SERVICE, text(service, "/spec/type"));
    if let (name, "LoadBalancer") = service {
        let cause = format!("the load balancer of Service {name} has no address yet");
        return warning(cause, next);
    }
    let (name, kind) = service;
    let cause = format!("the Service {name} is of type {kind} and has no address of its own");
    unclear(cause, next)
}

/// Whether the hosts' names lead somewhere.
pub(super) fn names(facts: &Facts) -> Vec<Checked> {
    let check = |(host, resolved): &(String, Result<(), String>)| match resolved {
        Ok(()) => ok(format!("{host} resolves")),
        Err(reason) => warning(
            format!("{host} does not resolve from this machine: {reason}"),
            "check that the clusters can resolve it; their DNS may differ",
        ),
    };
    facts.resolved.iter().map(check).collect()
}

/// What the caller may not do.
pub(super) fn rights(facts: &Facts) -> Checked {
    let mut missing = Vec::new();
    for (Right(verb, resource, _, _, command), allowed) in &facts.rights {
        if !*allowed.as_ref()? {
            missing.push(format!("{verb} {} ({command})", plural(resource)));
        }
    }
    if missing.is_empty() {
        return ok("you have the rights that all commands need");
    }
    let next = "docs/agentctl.md has the roles; only the commands that need a missing right fail";
    warning(format!("permission denied: {}", missing.join("; ")), next)
}
