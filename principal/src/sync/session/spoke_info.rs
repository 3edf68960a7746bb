//! What an agent says of its cluster as a whole.

use argocd::claim;
use live::cluster_info::Census;
use protocol::{
    Event,
    payload::{self, HealthProblem, SpokeInfo},
};

use crate::admission::registry::{Said, SessionSlot};

/// Names of images are the longest.
const LONGEST_NAME: usize = 256;
const LONGEST_DETAIL: usize = 300;

/// Notes what is said. Whoever says something else or nothing has no say in this.
pub(super) fn hear(seat: &SessionSlot, event: &Event) {
    let said = payload::decode::<SpokeInfo>("spoke", &event.payload).unwrap_or_default();
    if let Some(census) = counted(&said) {
        seat.report_census(census);
    }
    seat.report_spoke(Said {
        argocd: said.argo_cd,
        runs: said.argo_cd_runs,
        kinds_brought: said.argo_cd_kinds_brought,
        ails: said.argo_cd_ails.map(told),
        trusts: said.trusts,
    });
}

/// As much of it as may be told on.
fn told(ailment: HealthProblem) -> HealthProblem {
    let HealthProblem {
        workload,
        cause,
        subject,
        detail,
    } = ailment;
    HealthProblem {
        workload: claim::words(&workload, LONGEST_NAME),
        cause,
        subject: claim::words(&subject, LONGEST_NAME),
        detail: claim::words(&detail, LONGEST_DETAIL),
    }
}

/// What has been counted, in the words of our agent or of Go's; none when it does not say.
fn counted(said: &SpokeInfo) -> Option<Census> {
    let version = said.server_version.as_deref().and_then(claim::version);
    Some(Census {
        applications: said.applications_count?,
        apis: said.apis_count?,
        resources: said.resources_count?,
        server_version: version.map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use protocol::payload::Cause;

    use super::*;

    #[test]
    fn what_an_agent_says_of_its_argo_cd_is_told_in_short_lines() {
        let said = told(HealthProblem {
            workload: "Deployment\nx".to_owned(),
            cause: Cause::ImagePull,
            subject: "i".repeat(10_000),
            detail: format!("\u{1b}[2J{}", "d".repeat(10_000)),
        });
        assert_eq!(
            (said.workload.as_str(), said.cause),
            ("Deployment x", Cause::ImagePull)
        );
        assert_eq!(
            (said.subject.len(), said.detail.len()),
            (LONGEST_NAME, LONGEST_DETAIL)
        );
        assert!(said.detail.starts_with("[2J"), "{}", said.detail);
    }
}
