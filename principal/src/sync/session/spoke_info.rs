//! The facts that an agent states about its cluster.

use std::collections::BTreeSet;

use argocd::claim;
use live::cluster_info::Census;
use protocol::{
    Event,
    payload::{self, HealthProblem, SpokeInfo},
};

use crate::admission::registry::SessionSlot;

/// Names of images are the longest.
const LONGEST_NAME: usize = 256;
const LONGEST_DETAIL: usize = 300;

/// Records the facts. An unreadable message clears them.
pub(super) fn record(session_slot: &SessionSlot, event: &Event) {
    let stated = payload::decode::<SpokeInfo>("spoke", &event.payload).unwrap_or_default();
    if let Some(census) = counted(&stated) {
        session_slot.report_census(census);
    }
    session_slot.report(|report, _now| {
        report.argocd = stated.argo_cd;
        report.argocd_runs = stated.argo_cd_runs;
        report.argocd_kinds_installed = stated.argo_cd_kinds_brought;
        report.argocd_ails = stated.argo_cd_ails.as_ref().map(shortened);
        report.trusts = stated.trusts.filter(is_plausible);
    });
}

/// More fingerprints than a few are an attempt to fill our memory.
fn is_plausible(trusts: &BTreeSet<String>) -> bool {
    trusts.len() <= 32 && trusts.iter().all(|it| it.len() == 64)
}

/// Cuts the texts of an agent to printable lines of bounded length.
fn shortened(health_problem: &HealthProblem) -> HealthProblem {
    HealthProblem {
        workload: claim::words(&health_problem.workload, LONGEST_NAME),
        cause: health_problem.cause,
        subject: claim::words(&health_problem.subject, LONGEST_NAME),
        detail: claim::words(&health_problem.detail, LONGEST_DETAIL),
    }
}

/// The counts, from our agent or from Go's; none when it does not send them.
fn counted(stated: &SpokeInfo) -> Option<Census> {
    let version = stated.server_version.as_deref().and_then(claim::version);
    Some(Census {
        applications: stated.applications_count?,
        apis: stated.apis_count?,
        resources: stated.resources_count?,
        server_version: version.map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use protocol::payload::Cause;

    use super::*;

    #[test]
    fn health_problem_of_an_agent_is_cut_to_short_printable_lines() {
        let stated = shortened(&HealthProblem {
            workload: "Deployment\nx".to_owned(),
            cause: Cause::ImagePull,
            subject: "i".repeat(10_000),
            detail: format!("\u{1b}[2J{}", "d".repeat(10_000)),
        });
        assert_eq!(
            (stated.workload.as_str(), stated.cause),
            ("Deployment x", Cause::ImagePull)
        );
        assert_eq!(
            (stated.subject.len(), stated.detail.len()),
            (LONGEST_NAME, LONGEST_DETAIL)
        );
        assert!(stated.detail.starts_with("[2J"), "{}", stated.detail);
    }
}
