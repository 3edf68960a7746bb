//! The oracle must be able to fail: for each of its findings a broken promise that makes exactly this finding appear.

use crate::fault::Fault;
use crate::history::Releases;
use crate::{certificates, live_autonomous, live_with};

/// Not every history has an object that the broken promise is about.
const ATTEMPTS: u64 = 60;

/// A broken promise, and parts of the only findings that it may cause in some history; the first one is required.
const PLANTED: [(Fault, &[&str]); 35] = [
    (Fault::LossyWatch, &[" and should be "]),
    (Fault::ForgedCommand, &[" ran "]),
    (
        Fault::Misdirected,
        &[" was sent to ", "in a living session: "],
    ),
    (Fault::Swallowed, &["in a living session: "]),
    (
        Fault::StolenWorkload,
        &[" was deleted, and no user deleted it"],
    ),
    (Fault::Overwritten, &[" on the hub, and users last wrote "]),
    (
        Fault::Vanished,
        &[" is gone from the hub, and users last wrote "],
    ),
    (Fault::LostCopy, &[": it is not on "]),
    (Fault::LeftCopy, &[" of uid-0 is not wanted there"]),
    (Fault::MisplacedCopy, &[" is not wanted there"]),
    (Fault::StuckDeletion, &[": the deletion of "]),
    (
        Fault::StuckOnHub,
        &[
            ": its deletion never ends",
            " on the hub, and users last wrote ",
        ],
    ),
    (
        Fault::Invented,
        &[" is on the hub, and users wrote no such"],
    ),
    (Fault::FalseStatus, &[": status on the hub is "]),
    (Fault::FalseProject, &["project default on "]),
    (
        Fault::StandingOperation,
        &[": its operation stands for ever"],
    ),
    (Fault::StandingRefresh, &[": its refresh is never answered"]),
    (Fault::IdleWrites, &["hub: "]),
    (
        Fault::WriteAtRestart,
        &["a restart of the principal made writes"],
    ),
    (
        Fault::WriteAtAgentRestart,
        &["a restart of the agents made writes"],
    ),
    (
        Fault::CutAtEnd,
        &[
            ": the principal reports ",
            ": the link is ",
            " objects in the outbox",
        ],
    ),
    (
        Fault::FalseSource,
        &[": source is ", " of uid-0 is not wanted there"],
    ),
    (Fault::FalseLabels, &[": labels is "]),
    (Fault::FalseNote, &[": the note is "]),
    (Fault::FalseCascade, &[": cascade is "]),
    (Fault::FalseSpec, &[": spec is "]),
    (
        Fault::LeftProject,
        &["AppProject/argocd/left of uid-0 is not wanted there"],
    ),
    (
        Fault::Restless,
        &["never quiet after a new connection", "never quiet "],
    ),
    (Fault::IdleWritesOnSpoke, &[" writes changed nothing"]),
    (Fault::Garbled, &[" cannot be read"]),
    (Fault::Unasked, &[" ran None times"]),
    (Fault::LeftTask, &["1 tasks are left"]),
    (
        Fault::RefusesAll,
        &[" waits while ", " is refused, and its condition is "],
    ),
    (
        Fault::SilentRefusal,
        &[" is refused, and its condition is None"],
    ),
    (
        Fault::StillRefused,
        &[
            " is accepted again, and is not like ",
            " is accepted again, and its condition is ",
            " and should be ",
        ],
    ),
];

/// The same for the histories of an autonomous cluster.
const PLANTED_AUTONOMOUS: [(Fault, &[&str]); 9] = [
    (
        Fault::StolenWorkload,
        &[" was deleted, and no user deleted it"],
    ),
    (Fault::LostCopy, &[" is not shown"]),
    (Fault::LeftCopy, &[" mirrors nothing"]),
    (Fault::FalseStatus, &[" is shown with "]),
    (Fault::Overwritten, &[" is shown as "]),
    (Fault::StandingOperation, &[": /operation is never done"]),
    (
        Fault::StandingRefresh,
        &["argocd.argoproj.io~1refresh is never done"],
    ),
    (Fault::ForgedCommand, &[" ran 2 times"]),
    (Fault::Restless, &["never quiet"]),
];

/// Whether these are the findings that a broken promise is to cause, and no others.
fn are_exactly(findings: &[String], parts: &[&str]) -> bool {
    let is_expected = |finding: &String| parts.iter().any(|part| finding.contains(part));
    let required = parts.first();
    let has = |part: &&str| findings.iter().any(|finding| finding.contains(*part));
    required.is_some_and(has) && findings.iter().all(is_expected)
}

/// Runs histories until one has exactly the expected findings; else returns those of the first that has any.
fn missed(parts: &[&str], live: impl Fn(u64) -> Vec<String>) -> Option<Vec<String>> {
    let mut others = vec![];
    for seed in 0..ATTEMPTS {
        let findings = live(seed);
        if are_exactly(&findings, parts) {
            return None;
        }
        if others.is_empty() {
            others = findings;
        }
    }
    Some(others)
}

#[test]
fn oracle_detects_planted_faults() {
    runtime::install_crypto_provider();
    let certificates = certificates();
    for (fault, parts) in PLANTED {
        let missed = missed(parts, |seed| {
            let lived = live_with(seed, &certificates, fault, Releases::Any);
            lived.err().map(|it| it.findings).unwrap_or_default()
        });
        assert_eq!(
            missed, None,
            "{fault:?} has no history with {parts:?} alone"
        );
    }
}

#[test]
fn oracle_detects_planted_faults_of_autonomous_clusters() {
    runtime::install_crypto_provider();
    let certificates = certificates();
    for (fault, parts) in PLANTED_AUTONOMOUS {
        let missed = missed(parts, |seed| {
            live_autonomous(seed, &certificates, fault, Releases::Any).0
        });
        assert_eq!(
            missed, None,
            "{fault:?} has no history with {parts:?} alone"
        );
    }
}
