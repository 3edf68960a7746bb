use super::*;
use crate::addon::golden;

fn reported(facts: &ArgoCdFacts<'_>) -> (&'static str, String) {
    let Finding { reason, message } = facts.finding().unwrap();
    (reason, message)
}

fn health_problem(cause: Cause, subject: &str, detail: &str) -> HealthProblem {
    HealthProblem {
        workload: "Deployment argocd-repo-server".to_owned(),
        cause,
        subject: subject.to_owned(),
        detail: detail.to_owned(),
    }
}

/// The golden file contains the messages as users read them.
#[test]
fn each_health_problem_names_workload_cause_and_next_step() {
    let all = [
        (Cause::NotMade, "", "exceeded quota: compute"),
        (Cause::NotMade, "", ""),
        (Cause::Unschedulable, "", "0/3 nodes are available"),
        (Cause::ImagePull, "argocd:v9", "not found"),
        (Cause::Crashes, "server", "exit code 1"),
        (Cause::NotBegun, "server", "CreateContainerConfigError"),
        (Cause::GivenUp, "pod-1", "Evicted: low on memory"),
        (Cause::ScaledDown, "", ""),
        (Cause::NotReady, "server", ""),
        (Cause::Starting, "pod-1", ""),
        (Cause::Other, "", "something new"),
    ];
    let lines = all.map(|(cause, subject, detail)| {
        let problem = health_problem(cause, subject, detail);
        let facts = ArgoCdFacts {
            problem: Some(&problem),
            ..ArgoCdFacts::default()
        };
        let (reason, message) = reported(&facts);
        format!("{cause:?}\n{reason}: {message}\n")
    });
    golden::compare("conditions/argocd/golden.txt", &lines.join("\n"));
}

#[test]
fn unrecognized_openshift_is_named_as_the_next_step() {
    for (detail, expected) in [
        (
            "pods \"argocd-redis-1\" is forbidden: unable to validate against any security context constraint: []",
            true,
        ),
        ("exceeded quota: compute", false),
    ] {
        let problem = health_problem(Cause::NotMade, "", detail);
        let (_, message) = reported(&ArgoCdFacts {
            problem: Some(&problem),
            ..ArgoCdFacts::default()
        });
        let next = "; set the label vendor=OpenShift on the ManagedCluster";
        assert_eq!(message.contains(next), expected, "{message}");
    }
}

#[test]
fn missing_argo_cd_is_reported_with_cause_and_next_step() {
    let missing = ArgoCdFacts {
        argocd: Some(ArgoCd::Missing),
        ..ArgoCdFacts::default()
    };
    for (withheld, part) in [
        (None, "argoproj.io; install Argo CD there"),
        (
            Some(Skipped::Unwanted),
            "INSTALL_ARGOCD is false, so the add-on installs none; set it to auto, or install",
        ),
        (
            Some(Skipped::Gone),
            "only if INSTALL_ARGOCD is true; set it, or install",
        ),
        (
            Some(Skipped::Elsewhere),
            "installs none beside it; set ARGOCD_NAMESPACE to its namespace",
        ),
        (
            Some(Skipped::Elsewhere),
            "or delete the CRD argocds.argoproj.io that an operator left, or install",
        ),
    ] {
        let (reason, message) = reported(&ArgoCdFacts {
            withheld,
            ..missing.clone()
        });
        assert_eq!(reason, ARGOCD_MISSING);
        assert!(message.contains(part), "{message}");
    }
    // Only CRDs, without running programs.
    let half = ArgoCdFacts {
        argocd: Some(ArgoCd::Installed),
        withheld: Some(Skipped::Unwanted),
        ..ArgoCdFacts::default()
    };
    let (reason, message) = reported(&half);
    assert_eq!(reason, ARGOCD_MISSING);
    assert!(message.contains("no Argo CD runs"), "{message}");
}

#[test]
fn the_first_of_several_argo_cd_causes_is_reported() {
    let (need, problem) = (Need::NotOurs, health_problem(Cause::Crashes, "x", ""));
    let all = ArgoCdFacts {
        argocd: Some(ArgoCd::Missing),
        installation: Some(&need),
        problem: Some(&problem),
        ..ArgoCdFacts::default()
    };
    assert_eq!(reported(&all).0, ARGOCD_NOT_OURS);
    assert_eq!(
        reported(&ArgoCdFacts {
            installation: None,
            ..all.clone()
        })
        .0,
        ARGOCD_MISSING
    );
    assert_eq!(
        reported(&ArgoCdFacts {
            installation: None,
            argocd: None,
            ..all
        })
        .0,
        ARGOCD_UNHEALTHY
    );
    assert_eq!(ArgoCdFacts::default().finding(), None);
}
