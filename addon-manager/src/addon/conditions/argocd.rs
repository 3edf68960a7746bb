//! The causes of `Degraded` that concern Argo CD: it is missing, cannot be installed, or is unhealthy after we
//! installed it.

use principal::{ArgoCd, Cause, HealthProblem};

use super::{Finding, finding};
use crate::addon::argocd_install::{Need, Skipped};

/// The cluster has no Argo CD that the agent could serve.
pub const ARGOCD_MISSING: &str = "ArgoCDMissing";
/// The hub has no Argo CD that could be the pattern for this cluster.
pub const HUB_ARGOCD_UNREADABLE: &str = "HubArgoCDUnreadable";
/// Another Argo CD runs where ours should be.
pub const ARGOCD_NOT_OURS: &str = "ArgoCDNotOurs";
/// The Argo CD that we installed is unhealthy.
pub const ARGOCD_UNHEALTHY: &str = "ArgoCDUnhealthy";

/// The facts about the Argo CD of a cluster.
#[derive(Clone, Debug, Default)]
pub struct ArgoCdFacts<'a> {
    /// What its agent reports.
    pub argocd: Option<ArgoCd>,
    /// The problem that blocks the installation.
    pub installation: Option<&'a Need>,
    /// Why we do not install Argo CD on a cluster that has none.
    pub withheld: Option<Skipped>,
    /// The health problem of an Argo CD that we installed.
    pub problem: Option<&'a HealthProblem>,
}

impl ArgoCdFacts<'_> {
    /// The cause that requires an action by a person, if any. A blocked installation comes before its consequences.
    pub fn finding(&self) -> Option<Finding> {
        if let Some(need) = self.installation {
            return Some(not_installed(need));
        }
        let misses_kinds = self.argocd == Some(ArgoCd::Missing);
        if misses_kinds || self.withheld.is_some() {
            let message = missing(misses_kinds, self.withheld);
            return Some(finding(ARGOCD_MISSING, message));
        }
        let problem = self.problem?;
        Some(finding(ARGOCD_UNHEALTHY, unhealthy(problem)))
    }
}

fn missing(misses_kinds: bool, withheld: Option<Skipped>) -> String {
    let what = if misses_kinds {
        "its API does not serve Applications and AppProjects of argoproj.io"
    } else {
        "no Argo CD runs in its Argo CD namespace (ARGOCD_NAMESPACE)"
    };
    let why = match withheld {
        None => "",
        Some(Skipped::Unwanted) => {
            "INSTALL_ARGOCD is false, so the add-on installs none; set it to auto, or "
        }
        Some(Skipped::Gone) => {
            "its own Argo CD was removed, and the add-on installs one only if INSTALL_ARGOCD is true; set it, or "
        }
        Some(Skipped::Elsewhere) => {
            "another namespace has one, or may have one: its programs, its operator, or its CRDs where UI_ACCESS is none; \
            the add-on installs none beside it; set ARGOCD_NAMESPACE to its namespace (argocd-agentctl check spoke shows it), \
            or INSTALL_ARGOCD to true to install one that replaces its CRDs, or delete the CRD argocds.argoproj.io \
            that an operator left, or "
        }
    };
    format!(
        "the cluster has no Argo CD for the agent: {what}; {why}install Argo CD there; the agent continues within seconds"
    )
}

fn not_installed(need: &Need) -> Finding {
    match need {
        Need::Pattern(message) => finding(HUB_ARGOCD_UNREADABLE, message),
        Need::NotOurs => {
            let message = "INSTALL_ARGOCD is true, but another Argo CD runs in the same namespace; the add-on does \
            not touch it. Set INSTALL_ARGOCD to auto or false to use it, or remove it to let the add-on install its own";
            finding(ARGOCD_NOT_OURS, message)
        }
    }
}

fn unhealthy(health_problem: &HealthProblem) -> String {
    let HealthProblem {
        workload,
        cause,
        subject,
        detail,
    } = health_problem;
    let detail = if detail.is_empty() {
        String::new()
    } else {
        format!(": {detail}")
    };
    let (what, next) = match cause {
        Cause::NotMade if detail.contains("security context constraint") => (
            format!("its Pods are not created{detail}"),
            "set the label vendor=OpenShift on the ManagedCluster, so that redis gets no fixed user",
        ),
        Cause::NotMade => (
            format!("its Pods are not created{detail}"),
            "check Events, quotas and admission rules of its namespace",
        ),
        Cause::Unschedulable => (
            format!("its Pod cannot be scheduled{detail}"),
            "free capacity, or set nodePlacement or resourceRequirements in the AddOnDeploymentConfig",
        ),
        Cause::ImagePull => (
            format!("the image {subject} cannot be pulled{detail}"),
            "the image is that of the hub's Argo CD; correct it there, or map its registry in the \
            AddOnDeploymentConfig's registries",
        ),
        Cause::Crashes => (
            format!("its container {subject} restarts repeatedly{detail}"),
            "check its log on the cluster",
        ),
        Cause::NotBegun => (
            format!("its container {subject} cannot start{detail}"),
            "correct that on the cluster",
        ),
        Cause::GivenUp => (
            format!("the cluster evicted or failed its Pod {subject}{detail}"),
            "free capacity for it",
        ),
        Cause::ScaledDown => (
            "it is scaled to 0".to_owned(),
            "the work agent scales it up again; to run without it, set INSTALL_ARGOCD to false",
        ),
        Cause::NotReady => (
            format!("its container {subject} runs but is not ready{detail}"),
            "check its log on the cluster",
        ),
        Cause::Starting | Cause::Other => (
            format!("it has been starting for minutes{detail}"),
            "check its Pods on the cluster",
        ),
    };
    format!("the Argo CD that the add-on installed is unhealthy: {workload}: {what}; {next}")
}

#[cfg(test)]
mod tests;
