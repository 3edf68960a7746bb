//! What is said of the Argo CD of a cluster: that it has none, why, and what is wrong with one that we have brought.

use principal::{Ailment, ArgoCd, Cause};

use super::Needs;
use crate::addon::bring::{Need, Withheld};

/// The cluster has no Argo CD that the agent could serve.
pub const ARGOCD_MISSING: &str = "ArgoCDMissing";
/// The hub has no Argo CD of which one for this cluster could be made.
pub const HUB_ARGOCD_UNREADABLE: &str = "HubArgoCDUnreadable";
/// There is an Argo CD of somebody else's where ours should be.
pub const ARGOCD_NOT_OURS: &str = "ArgoCDNotOurs";
/// The Argo CD that we have brought does not run as it should.
pub const ARGOCD_UNHEALTHY: &str = "ArgoCDUnhealthy";

/// What needs a person of it, if anything does. Where one should be brought and cannot, that is the cause.
pub(super) fn cause(needs: &Needs<'_>) -> Option<(&'static str, String)> {
    if let Some(need) = needs.bringing {
        return Some(not_brought(need));
    }
    let lacks_kinds = needs.argocd == Some(ArgoCd::Missing);
    if lacks_kinds || needs.withheld.is_some() {
        return Some((ARGOCD_MISSING, missing(lacks_kinds, needs.withheld)));
    }
    let ails = needs.ails?;
    Some((ARGOCD_UNHEALTHY, unhealthy(ails)))
}

fn missing(lacks_kinds: bool, withheld: Option<Withheld>) -> String {
    let what = if lacks_kinds {
        "its API does not serve Applications and AppProjects of argoproj.io"
    } else {
        "no program of one runs in its Argo CD namespace (ARGOCD_NAMESPACE)"
    };
    let why = match withheld {
        None => "",
        Some(Withheld::Unwanted) => {
            "INSTALL_ARGOCD is false, so none is brought; set it to auto, or "
        }
        Some(Withheld::Gone) => {
            "the one that it had has gone, and none is brought in its place unless INSTALL_ARGOCD is true; set it so, or "
        }
    };
    format!(
        "the cluster has no Argo CD: {what}; {why}install Argo CD there, and the agent goes on by itself within seconds"
    )
}

fn not_brought(need: &Need) -> (&'static str, String) {
    match need {
        Need::Pattern(message) => (HUB_ARGOCD_UNREADABLE, message.clone()),
        Need::NotOurs => {
            let message = "INSTALL_ARGOCD is true, and the cluster has an Argo CD that is not ours in the \
                           same namespace, which is left alone; set INSTALL_ARGOCD to auto or false to \
                           have the agent serve it, or remove it to have ours brought";
            (ARGOCD_NOT_OURS, message.to_owned())
        }
    }
}

fn unhealthy(ailment: &Ailment) -> String {
    let Ailment {
        workload,
        cause,
        subject,
        detail,
    } = ailment;
    let detail = if detail.is_empty() {
        String::new()
    } else {
        format!(": {detail}")
    };
    let (what, next) = match cause {
        Cause::NotMade => (
            format!("no Pod of it is made{detail}"),
            "look at the Events, the quotas and the admission rules of its namespace",
        ),
        Cause::Unschedulable => (
            format!("no node takes its Pod{detail}"),
            "make room, or say nodePlacement or resourceRequirements in the AddOnDeploymentConfig",
        ),
        Cause::ImagePull => (
            format!("the image {subject} cannot be pulled{detail}"),
            "the image is that of the hub's Argo CD; put that right, or say in the AddOnDeploymentConfig's \
             registries from where the cluster gets it",
        ),
        Cause::Crashes => (
            format!("its container {subject} ends again and again{detail}"),
            "look at its log on the cluster",
        ),
        Cause::NotBegun => (
            format!("its container {subject} cannot be begun{detail}"),
            "put that right on the cluster",
        ),
        Cause::GivenUp => (
            format!("the cluster has given up its Pod {subject}{detail}"),
            "make room for it",
        ),
        Cause::ScaledDown => (
            "somebody has scaled it to nothing".to_owned(),
            "it is scaled up again unless that is done anew; to be without it, set INSTALL_ARGOCD to false",
        ),
        Cause::NotReady => (
            format!("its container {subject} runs and does not become ready{detail}"),
            "look at its log on the cluster",
        ),
        Cause::Starting | Cause::Other => (
            format!("it has not come up for minutes{detail}"),
            "look at its Pods on the cluster",
        ),
    };
    format!("the Argo CD that the add-on has brought is not well: {workload}: {what}; {next}")
}

#[cfg(test)]
mod tests;
