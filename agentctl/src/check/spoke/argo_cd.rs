//! Whether an Argo CD runs in its namespace, or the add-on installs one, and whether its version fits the hub's. Pure.

use argocd::keys::addon::{ARGOCD, INSTALLED};
use serde_json::Value;

use super::{
    Facts, Finding, Outcome, Spoke, full_name, image, is_ready, label, places::is_argo_cd, running,
    wanted,
};
use crate::check::argo_cd::version as version_of;

/// The largest difference in minor versions: Argo CD supports this many releases, and its kinds change with each.
const APART: u64 = 2;

/// The programs that every sync needs: name and component.
const NEEDED: [(&str, &str); 3] = [
    ("argocd-application-controller", "application-controller"),
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
    let (_, addon) = facts.hub.as_ref()?.addon.as_ref().ok()?.as_ref()?;
    argocd::Meta::of(addon).annotation(ARGOCD)
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
pub(super) fn programs(facts: &Facts, spoke: &Spoke) -> Finding {
    let finding = |outcome, cause: String| Finding::new("argo cd", outcome, cause);
    if let Err(reason) = &spoke.programs {
        return finding(Outcome::Unclear, reason.clone());
    }
    let namespace = &facts.places.argocd;
    if here(facts, spoke).next().is_none() {
        return none(facts, spoke);
    }
    let ill = NEEDED
        .iter()
        .filter_map(|needed| match component(here(facts, spoke), *needed) {
            None => Some(format!("{} is missing", needed.0)),
            Some(it) if wanted(it) == 0 => Some(format!("{} is scaled to 0", full_name(it))),
            Some(it) if !is_ready(it) => Some(format!("{} is not ready", full_name(it))),
            Some(_) => None,
        });
    let ill: Vec<_> = ill.collect();
    if ill.is_empty() {
        let owner = if is_installed_by_add_on(facts, spoke) {
            "installed by the add-on"
        } else {
            "the cluster's own"
        };
        let cause = format!("it runs in namespace {namespace}, {owner}");
        return finding(Outcome::Ok, cause);
    }
    let cause = format!("in namespace {namespace}: {}", ill.join("; "));
    finding(Outcome::Failed, cause).next(format!(
        "kubectl -n {namespace} get pods on the cluster; no Application is synced without these"
    ))
}

/// Where none is looked for, one may be elsewhere, or one may come.
fn none(facts: &Facts, spoke: &Spoke) -> Finding {
    let finding = |outcome, cause: String| Finding::new("argo cd", outcome, cause);
    let namespace = &facts.places.argocd;
    let all = running(spoke).filter(|it| is_argo_cd(it));
    if let Some(elsewhere) = component(
        all,
        ("argocd-application-controller", "application-controller"),
    ) {
        let other = argocd::Meta::of(elsewhere).namespace();
        let cause = format!("none in namespace {namespace}, but one in namespace {other}");
        return finding(Outcome::Warning, cause).next(format!(
            "to use that one, set the variable ARGOCD_NAMESPACE of the cluster's AddOnDeploymentConfig to {other}"
        ));
    }
    if is_installed_by_add_on(facts, spoke) {
        let image = facts.hub.as_ref().map(|hub| hub.argocd_image.as_deref());
        return match image {
            Some(None) => finding(
                Outcome::Failed,
                format!(
                    "none in namespace {namespace}; the add-on would install the hub's version, but the hub has no \
                    Deployment of argocd-server or argocd-repo-server"
                ),
            )
            .next("install Argo CD on the cluster, and set INSTALL_ARGOCD to false for it, or install it on the hub"),
            Some(Some(image)) => finding(
                Outcome::Ok,
                format!("none in namespace {namespace}; the add-on installs one, {image}"),
            ),
            None => finding(
                Outcome::Ok,
                format!("none in namespace {namespace}; the add-on installs the hub's version"),
            ),
        };
    }
    let why = if facts.configured.installs_argo_cd() {
        "it had one of its own, which is gone, so the add-on brings none"
    } else {
        "INSTALL_ARGOCD is false, so the add-on brings none"
    };
    let cause = format!("none is in namespace {namespace}; {why}");
    finding(Outcome::Failed, cause)
        .next("install Argo CD there, or set INSTALL_ARGOCD to true for the cluster")
}

/// Whether it goes with the hub's.
pub(super) fn version(facts: &Facts, spoke: &Spoke) -> Option<Finding> {
    let finding = |outcome, cause: String| Finding::new("version", outcome, cause);
    let controller = component(here(facts, spoke), NEEDED[0])?;
    let here = image(controller);
    let Some(there) = facts
        .hub
        .as_ref()
        .and_then(|hub| hub.argocd_image.as_deref())
    else {
        return Some(finding(
            Outcome::Ok,
            format!("Argo CD is {here}; there is none on a hub to compare it with"),
        ));
    };
    let (Some(cluster), Some(hub)) = (version_of(here), version_of(there)) else {
        let cause =
            format!("cannot read versions from the images {here} here and {there} on the hub");
        return Some(
            finding(Outcome::Unclear, cause)
                .next("compare them yourself: at most two minor releases apart"),
        );
    };
    let (cluster_is, hub_is) = (shown(cluster), shown(hub));
    let is_near = cluster.0 == hub.0 && cluster.1.abs_diff(hub.1) <= APART;
    if is_near {
        let cause = format!("Argo CD {cluster_is} here, {hub_is} on the hub");
        return Some(finding(Outcome::Ok, cause));
    }
    let older = if cluster < hub {
        "the cluster's"
    } else {
        "the hub's"
    };
    let cause = format!(
        "Argo CD {cluster_is} here and {hub_is} on the hub are more than two minor releases apart"
    );
    let next = format!(
        "upgrade {older}: what only one of them knows in an Application is lost on the way"
    );
    Some(finding(Outcome::Warning, cause).next(next))
}

fn shown((major, minor): (u64, u64)) -> String {
    format!("{major}.{minor}")
}
