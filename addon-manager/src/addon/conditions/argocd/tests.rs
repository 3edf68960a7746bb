use super::*;
use crate::addon::golden;

fn reply(needs: &Needs<'_>) -> (&'static str, String) {
    cause(needs).unwrap()
}

fn health_problem(cause: Cause, subject: &str, detail: &str) -> HealthProblem {
    HealthProblem {
        workload: "Deployment argocd-repo-server".to_owned(),
        cause,
        subject: subject.to_owned(),
        detail: detail.to_owned(),
    }
}

/// The words as they are, to be read as people read them.
#[test]
fn every_cause_says_what_is_wrong_with_which_program_and_the_next_step() {
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
        let ails = health_problem(cause, subject, detail);
        let needs = Needs {
            ails: Some(&ails),
            ..Needs::default()
        };
        let (reason, message) = reply(&needs);
        format!("{cause:?}\n{reason}: {message}\n")
    });
    golden::hold("conditions/argocd/golden.txt", &lines.join("\n"));
}

#[test]
fn a_cluster_without_argo_cd_says_why_none_comes_and_what_to_do() {
    let missing = Needs {
        argocd: Some(ArgoCd::Missing),
        ..Needs::default()
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
    ] {
        let (reason, message) = reply(&Needs {
            withheld,
            ..missing.clone()
        });
        assert_eq!(reason, ARGOCD_MISSING);
        assert!(message.contains(part), "{message}");
    }
    // Half of one: its kinds, and nothing that runs.
    let half = Needs {
        argocd: Some(ArgoCd::Installed),
        withheld: Some(Skipped::Unwanted),
        ..Needs::default()
    };
    let (reason, message) = reply(&half);
    assert_eq!(reason, ARGOCD_MISSING);
    assert!(message.contains("no Argo CD runs"), "{message}");
}

#[test]
fn of_several_causes_that_is_told_which_comes_first() {
    let (need, ails) = (Need::NotOurs, health_problem(Cause::Crashes, "x", ""));
    let all = Needs {
        argocd: Some(ArgoCd::Missing),
        installation: Some(&need),
        ails: Some(&ails),
        ..Needs::default()
    };
    assert_eq!(reply(&all).0, ARGOCD_NOT_OURS);
    assert_eq!(
        reply(&Needs {
            installation: None,
            ..all.clone()
        })
        .0,
        ARGOCD_MISSING
    );
    assert_eq!(
        reply(&Needs {
            installation: None,
            argocd: None,
            ..all
        })
        .0,
        ARGOCD_UNHEALTHY
    );
    assert_eq!(cause(&Needs::default()), None);
}
