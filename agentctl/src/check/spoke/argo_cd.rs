//! Whether an Argo CD runs in its namespace, or the add-on installs one, and whether its version fits the hub's. Pure.

use argocd::keys::addon::{ARGOCD, INSTALLED};
use diagnosis::object::{full_name, image, label, replicas};
use serde_json::Value;

use super::{
    Checked, Facts, Spoke, failed, is_ready, ok, places::is_argo_cd, running, unclear, warning,
};
use crate::check::argo_cd::version as version_of;

/// The largest difference in minor versions: Argo CD supports this many releases, and its kinds change with each.
const APART: u64 = 2;

const CONTROLLER: (&str, &str) = ("argocd-application-controller", "application-controller");

/// The programs that every sync needs: name and component.
const NEEDED: [(&str, &str); 3] = [
    CONTROLLER,
    ("argocd-repo-server", "repo-server"),
    ("argocd-redis", "redis"),
];

/// The programs in Argo CD's namespace.
fn here<'a>(facts: &'a Facts, spoke: &'a Spoke) -> impl Iterator<Item = &'a Value> {
    running(spoke)
        .filter(|it| is_argo_cd(it))
        .filter(|it| argocd::Meta::of(it).namespace() == facts.places.argocd)
}

/// The recorded decision about this cluster, if any.
fn decided(facts: &Facts) -> Option<&str> {
    argocd::Meta::of(facts.hub.as_ref()?.addon()?).annotation(ARGOCD)
}

/// Whether the add-on installs the Argo CD of this cluster, or has installed it.
pub(super) fn is_installed_by_add_on(facts: &Facts, spoke: &Spoke) -> bool {
    let mut all = here(facts, spoke).peekable();
    if all.peek().is_some() {
        return all.any(|it| !label(it, INSTALLED).is_empty());
    }
    let always = facts.configured.variable("INSTALL_ARGOCD") == Some("true");
    facts.configured.installs_argo_cd() && (always || decided(facts) != Some("found"))
}

fn component<'a>(
    mut all: impl Iterator<Item = &'a Value>,
    (name, component): (&str, &str),
) -> Option<&'a Value> {
    all.find(|it| {
        argocd::Meta::of(it).name() == name || label(it, "app.kubernetes.io/component") == component
    })
}

/// Whether an Argo CD runs, with all needed programs.
pub(super) fn programs(facts: &Facts, spoke: &Spoke) -> Checked {
    spoke.programs.as_ref()?;
    let namespace = &facts.places.argocd;
    if here(facts, spoke).next().is_none() {
        return none(facts, spoke);
    }
    let ill = NEEDED.iter().filter_map(|needed| {
        let Some(program) = component(here(facts, spoke), *needed) else {
            return Some(format!("{} is missing", needed.0));
        };
        let name = full_name(program);
        match replicas(program) {
            0 => Some(format!("{name} is scaled to 0")),
            _ => (!is_ready(program)).then(|| format!("{name} is not ready")),
        }
    });
    let ill: Vec<_> = ill.collect();
    if ill.is_empty() {
        let owner = if is_installed_by_add_on(facts, spoke) {
            "installed by the add-on"
        } else {
            "the cluster's own"
        };
        return ok(format!("it runs in namespace {namespace}, {owner}"));
    }
    failed(
        format!("in namespace {namespace}: {}", ill.join("; ")),
        format!(
            "kubectl -n {namespace} get pods on the cluster; no Application is synced without these"
        ),
    )
}

/// Where none is looked for, one may be elsewhere, or one may come.
fn none(facts: &Facts, spoke: &Spoke) -> Checked {
    let namespace = &facts.places.argocd;
    let all = running(spoke).filter(|it| is_argo_cd(it));
    if let Some(elsewhere) = component(all, CONTROLLER) {
        let other = argocd::Meta::of(elsewhere).namespace();
        return warning(
            format!("none in namespace {namespace}, but one in namespace {other}"),
            format!(
                "to use that one, set the variable ARGOCD_NAMESPACE of the cluster's AddOnDeploymentConfig to {other}"
            ),
        );
    }
    if is_installed_by_add_on(facts, spoke) {
        let image = match facts.hub.as_ref().map(|hub| &hub.argocd_image) {
            None => "the hub's version".to_owned(),
            Some(Some(image)) => format!("one, {image}"),
            Some(None) => {
                return failed(
                    format!(
                        "none in namespace {namespace}; the add-on would install the hub's version, but the hub has no \
                        Deployment of argocd-server or argocd-repo-server"
                    ),
                    "install Argo CD on the cluster, and set INSTALL_ARGOCD to false for it, or install it on the hub",
                );
            }
        };
        let cause = format!("none in namespace {namespace}; the add-on installs {image}");
        return ok(cause);
    }
    let why = if facts.configured.installs_argo_cd() {
        "it had one of its own, which is gone, so the add-on brings none"
    } else {
        "INSTALL_ARGOCD is false, so the add-on brings none"
    };
    failed(
        format!("none is in namespace {namespace}; {why}"),
        "install Argo CD there, or set INSTALL_ARGOCD to true for the cluster",
    )
}

/// Whether it goes with the hub's.
pub(super) fn version(facts: &Facts, spoke: &Spoke) -> Option<Checked> {
    let here = image(component(here(facts, spoke), CONTROLLER)?);
    let there = facts
        .hub
        .as_ref()
        .and_then(|hub| hub.argocd_image.as_deref());
    Some(fits(here, there))
}

fn fits(here: &str, there: Option<&str>) -> Checked {
    let Some(there) = there else {
        return ok(format!(
            "Argo CD is {here}; there is none on a hub to compare it with"
        ));
    };
    let (Some(cluster), Some(hub)) = (version_of(here), version_of(there)) else {
        return unclear(
            format!("cannot read versions from the images {here} here and {there} on the hub"),
            "compare them yourself: at most two minor releases apart",
        );
    };
    let shown = |(major, minor): (u64, u64)| format!("{major}.{minor}");
    let (cluster_is, hub_is) = (shown(cluster), shown(hub));
    if cluster.0 == hub.0 && cluster.1.abs_diff(hub.1) <= APART {
        return ok(format!("Argo CD {cluster_is} here, {hub_is} on the hub"));
    }
    let older = if cluster < hub { "cluster" } else { "hub" };
    warning(
        format!(
            "Argo CD {cluster_is} here and {hub_is} on the hub are more than two minor releases apart"
        ),
        format!(
            "upgrade the {older}'s: what only one of them knows in an Application is lost on the way"
        ),
    )
}
