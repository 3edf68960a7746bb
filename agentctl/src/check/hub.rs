//! What the hub serves, what is installed, where agents dial, and what the caller may do. Pure.

use std::collections::{BTreeMap, BTreeSet};

use argocd::keys::addon::{ADDON, CA_SECRET, MANAGER, PRINCIPAL_SERVICE};
use serde_json::Value;

use super::{Facts, Finding, Outcome};

/// Kinds by group and version, `group/version`.
pub type Served = BTreeMap<&'static str, Result<BTreeSet<String>, String>>;

/// The groups that matter, in the version that is needed, with the kinds and where they come from.
pub const GROUPS: [(&str, &[&str], &str); 4] = [
    (
        "addon.open-cluster-management.io/v1alpha1",
        &[
            "managedclusteraddons",
            "clustermanagementaddons",
            "addondeploymentconfigs",
        ],
        "install Open Cluster Management 1.2 or newer (clusteradm init), or choose the hub with --context",
    ),
    (
        "cluster.open-cluster-management.io/v1",
        &["managedclusters"],
        "install Open Cluster Management 1.2 or newer (clusteradm init), or choose the hub with --context",
    ),
    (
        "work.open-cluster-management.io/v1",
        &["manifestworks"],
        "install Open Cluster Management 1.2 or newer (clusteradm init), or choose the hub with --context",
    ),
    (
        "argoproj.io/v1alpha1",
        &["applications", "appprojects"],
        "install Argo CD, or at least its CRDs, on the hub",
    ),
];

/// Something that the caller may have to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    /// The verb.
    pub verb: &'static str,
    /// API group and plural name, `group/plural`.
    pub resource: &'static str,
    /// Of which object; empty for any.
    pub name: &'static str,
    /// Whose namespace: everywhere, Argo CD's, or the hub program's.
    pub place: Place,
    /// Which command needs it.
    pub command: &'static str,
}

/// Where a right is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In all namespaces.
    Everywhere,
    /// In that of the hub's Argo CD.
    ArgoCd,
    /// In the hub program's.
    Own,
}

/// What the commands need.
pub const RIGHTS: [Right; 12] = [
    Right::new("list", ADDONS, Place::Everywhere, "every command"),
    Right::new(
        "list",
        "argoproj.io/applications",
        Place::Everywhere,
        "status, why",
    ),
    Right::new("list", "argoproj.io/appprojects", Place::ArgoCd, "why"),
    Right::new(
        "list",
        "/secrets",
        Place::ArgoCd,
        "why, for destinations by server, and check",
    ),
    Right::new(
        "create",
        "authorization.k8s.io/subjectaccessreviews",
        Place::Everywhere,
        "check",
    ),
    Right::new("get", "apps/deployments", Place::Own, "status, why"),
    Right::new("get", "/secrets", Place::Own, "certs list").of(CA_SECRET),
    Right::new("patch", "/secrets", Place::Own, "certs rotate --ca").of(CA_SECRET),
    Right::new("get", ADDONS, Place::Everywhere, "agent, certs rotate").of(ADDON),
    Right::new("patch", ADDONS, Place::Everywhere, "agent, certs rotate").of(ADDON),
    Right::new(
        "list",
        CLUSTERS,
        Place::Everywhere,
        "status, check, cluster adopt",
    ),
    Right::new("patch", CLUSTERS, Place::Everywhere, "cluster adopt"),
];

const CLUSTERS: &str = "cluster.open-cluster-management.io/managedclusters";

const ADDONS: &str = "addon.open-cluster-management.io/managedclusteraddons";

impl Right {
    const fn new(
        verb: &'static str,
        resource: &'static str,
        place: Place,
        command: &'static str,
    ) -> Self {
        Self {
            verb,
            resource,
            name: "",
            place,
            command,
        }
    }

    const fn of(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    /// Group and plural name.
    pub fn kind(&self) -> (&'static str, &'static str) {
        self.resource.split_once('/').unwrap_or(("", self.resource))
    }
}

/// The kinds that the hub must serve.
pub(super) fn apis(facts: &Facts) -> Vec<Finding> {
    let finding = |(version, kinds, next): &(&'static str, &[&str], &str)| {
        let found = match facts.served.get(version) {
            Some(Ok(found)) => found.clone(),
            Some(Err(reason)) => {
                return Finding::new("api", Outcome::Unclear, format!("{version}: {reason}"));
            }
            None => BTreeSet::new(),
        };
        let missing: Vec<_> = kinds.iter().filter(|it| !found.contains(**it)).collect();
        if missing.is_empty() {
            return Finding::new("api", Outcome::Ok, format!("{version} is served"));
        }
        let missing: Vec<_> = missing.into_iter().copied().collect();
        let cause = format!("{version} does not have {}", missing.join(", "));
        Finding::new("api", Outcome::Failed, cause).next(*next)
    };
    GROUPS.iter().map(finding).collect()
}

/// The add-on's definition.
pub fn offer(read: &Result<Option<Value>, String>) -> Finding {
    let failed = |cause: String| Finding::new("add-on", Outcome::Failed, cause);
    match read {
        Err(reason) => Finding::new("add-on", Outcome::Unclear, reason),
        Ok(None) => failed(format!("ClusterManagementAddOn {ADDON} not found"))
            .next("install the chart (manifests/hub)"),
        Ok(Some(offer)) => {
            let kinds = offer.pointer("/spec/supportedConfigs");
            let mut kinds = kinds.and_then(Value::as_array).into_iter().flatten();
            if kinds.any(|kind| text(kind, "/resource") == "addontemplates") {
                return failed(format!(
                    "the ClusterManagementAddOn {ADDON} belongs to another add-on, which uses AddOnTemplates"
                ))
                .next("remove the other one first; `helm upgrade --install` of the chart prints the steps");
            }
            let kind = text(offer, "/spec/installStrategy/type");
            Finding::new(
                "add-on",
                Outcome::Ok,
                format!("available, install strategy {kind}"),
            )
        }
    }
}

/// The hub program.
pub(super) fn program(facts: &Facts) -> Finding {
    let namespace = &facts.own_namespace;
    match &facts.manager {
        Err(reason) => Finding::new("hub program", Outcome::Unclear, reason),
        Ok(None) => Finding::new(
            "hub program",
            Outcome::Failed,
            format!("Deployment {namespace}/{MANAGER} not found"),
        )
        .next("install the chart, or set its namespace with --own-namespace"),
        Ok(Some(manager)) => {
            let ready = manager.pointer("/status/availableReplicas");
            let ready = ready.and_then(Value::as_i64).unwrap_or_default();
            let image = text(manager, "/spec/template/spec/containers/0/image");
            if ready > 0 {
                let cause = format!("{ready} available, image {image}");
                return Finding::new("hub program", Outcome::Ok, cause);
            }
            let cause = format!("no Pod of {namespace}/{MANAGER} is ready, image {image}");
            Finding::new("hub program", Outcome::Failed, cause).next(format!(
                "kubectl -n {namespace} describe pods -l app.kubernetes.io/name={MANAGER}, and its log"
            ))
        }
    }
}

/// The hosts that agents dial, from the hub program's arguments and the Service.
pub fn hosts(manager: Option<&Value>, service: Option<&Value>) -> Vec<String> {
    let all = addresses(manager, service).into_iter();
    all.map(|(host, _)| host).collect()
}

/// The same with their ports.
pub fn addresses(manager: Option<&Value>, service: Option<&Value>) -> Vec<(String, u16)> {
    let args = manager.and_then(|it| it.pointer("/spec/template/spec/containers/0/args"));
    let mut args = args.and_then(Value::as_array).into_iter().flatten();
    let configured = args.find_map(|arg| arg.as_str()?.strip_prefix("--principal-address="));
    if let Some(configured) = configured.filter(|configured| !configured.is_empty()) {
        return vec![address_of(configured)];
    }
    let Some(service) = service else {
        return Vec::new();
    };
    let port = service.pointer("/spec/ports/0/port");
    let port = port.and_then(Value::as_u64);
    let port = port.and_then(|port| u16::try_from(port).ok());
    let port = port.unwrap_or(AGENTS_PORT);
    if text(service, "/spec/type") == "ExternalName" {
        return vec![(text(service, "/spec/externalName").to_owned(), port)];
    }
    let ways = service.pointer("/status/loadBalancer/ingress");
    let ways = ways.and_then(Value::as_array).into_iter().flatten();
    let ways = ways.filter_map(|way| {
        let name = [text(way, "/hostname"), text(way, "/ip")];
        name.into_iter().find(|name| !name.is_empty())
    });
    ways.map(|host| (host.to_owned(), port)).collect()
}

/// The default port that agents dial.
const AGENTS_PORT: u16 = 443;

/// Host and port. A bare IPv6 address has no port.
pub fn address_of(address: &str) -> (String, u16) {
    let bracketed = address.strip_prefix('[');
    let (host, port) = match bracketed.and_then(|rest| rest.split_once(']')) {
        Some((inner, rest)) => (inner, rest.strip_prefix(':')),
        None => match address.split_once(':') {
            Some((host, rest)) if !rest.contains(':') => (host, Some(rest)),
            Some(_) | None => (address, None),
        },
    };
    let port = port.and_then(|port| port.parse().ok());
    (host.to_owned(), port.unwrap_or(AGENTS_PORT))
}

/// Whether agents know where to dial.
pub(super) fn address(facts: &Facts) -> Finding {
    let service = match &facts.service {
        Ok(service) => service.as_ref(),
        Err(reason) => return Finding::new("address", Outcome::Unclear, reason),
    };
    let manager = facts.manager.as_ref().ok().and_then(Option::as_ref);
    let hosts = hosts(manager, service);
    if !hosts.is_empty() {
        let cause = format!("agents dial {}", hosts.join(", "));
        return Finding::new("address", Outcome::Ok, cause);
    }
    let Some(service) = service else {
        let cause = format!("Service {PRINCIPAL_SERVICE} not found");
        return Finding::new("address", Outcome::Failed, cause).next("install the chart");
    };
    let next = "set the chart's value principal.address, or give the Service a load balancer; without either, \
    agents dial a Route, TLSRoute, Ingress or node port if principal.findAddress is on";
    let (outcome, cause) = match text(service, "/spec/type") {
        "LoadBalancer" => (
            Outcome::Warning,
            format!("the load balancer of Service {PRINCIPAL_SERVICE} has no address yet"),
        ),
        kind => (
            Outcome::Unclear,
            format!(
                "the Service {PRINCIPAL_SERVICE} is of type {kind} and has no address of its own"
            ),
        ),
    };
    Finding::new("address", outcome, cause).next(next)
}

/// Whether the hosts' names lead somewhere.
pub(super) fn names(facts: &Facts) -> Vec<Finding> {
    let finding = |(host, resolved): &(String, Result<(), String>)| match resolved {
        Ok(()) => Finding::new("name", Outcome::Ok, format!("{host} resolves")),
        Err(reason) => {
            let cause = format!("{host} does not resolve from this machine: {reason}");
            Finding::new("name", Outcome::Warning, cause)
                .next("check that the clusters can resolve it; their DNS may differ")
        }
    };
    facts.resolved.iter().map(finding).collect()
}

/// What the caller may not do.
pub(super) fn rights(facts: &Facts) -> Finding {
    let mut missing = Vec::new();
    for (right, answer) in &facts.rights {
        match answer {
            Ok(true) => {}
            Ok(false) => missing.push(format!(
                "{} {} ({})",
                right.verb,
                right.kind().1,
                right.command
            )),
            Err(reason) => return Finding::new("your rights", Outcome::Unclear, reason),
        }
    }
    if missing.is_empty() {
        return Finding::new(
            "your rights",
            Outcome::Ok,
            "you have the rights that all commands need",
        );
    }
    let cause = format!("permission denied: {}", missing.join("; "));
    Finding::new("your rights", Outcome::Warning, cause)
        .next("docs/agentctl.md has the roles; only the commands that need a missing right fail")
}

pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
