//! Why we do not install Argo CD on a cluster whose Argo CD namespace has none. Pure.

use principal::Runs;

use super::{Decision, Install, Seen, Verdict};

/// Why we do not install Argo CD on a cluster whose Argo CD namespace has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipped {
    /// `INSTALL_ARGOCD` is false.
    Unwanted,
    /// The cluster had an Argo CD that we did not install, and it is gone.
    Gone,
    /// Another namespace of the cluster has an Argo CD, or may have one.
    Elsewhere,
}

/// Why a cluster that reports no Argo CD in its namespace gets none; none if it gets one, or has not reported.
pub fn withheld(install: Install, verdict: &Verdict, seen: Seen) -> Option<Skipped> {
    let installs = verdict.decision.is_some_and(Decision::installs_argocd);
    let found = verdict.decision == Some(Decision::Found);
    match (seen.runs?, install) {
        (Runs::Nothing | Runs::Elsewhere, Install::Never) => Some(Skipped::Unwanted),
        (Runs::Nothing, _) => found.then_some(Skipped::Gone),
        (Runs::Elsewhere, _) => (!installs && verdict.need.is_none()).then_some(Skipped::Elsewhere),
        (Runs::Ours | Runs::Foreign | Runs::Other, _) => None,
    }
}
