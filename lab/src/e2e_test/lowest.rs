//! Tests that cannot run on an old version of another project, where that or the lab has no support for it.

use anyhow::{Result, ensure};

use super::TestGroup;

/// A test, and the lowest version with which it can run.
struct Lowest {
    /// The name of the test on the command line.
    test: &'static str,
    /// The variable with the version of the other project; without it the version is new enough.
    variable: &'static str,
    /// The lowest major and minor version.
    version: (u64, u64),
    /// Why it cannot run below.
    reason: &'static str,
}

const KUBERNETES: &str = "KUBERNETES_VERSION";
const COMMANDS: &str = "the lab's kubelet carries commands over WebSockets only, which kube-apiserver uses from 1.36 on";
const WEBHOOKS: &str = "OCM's admission webhooks run beside each other in a lab from OCM 1.3 on";

const ALL: &[Lowest] = &[
    Lowest {
        test: "live::inside::a_terminal_is_opened_from_the_hub_in_a_pod_of_an_application",
        variable: KUBERNETES,
        version: (1, 36),
        reason: COMMANDS,
    },
    Lowest {
        test: "console::a_shell_and_a_log_of_a_cluster_are_opened_in_argo_cd",
        variable: KUBERNETES,
        version: (1, 36),
        reason: COMMANDS,
    },
    Lowest {
        test: "conformance::readers::both_add_on_api_versions_agree",
        variable: "OCM_VERSION",
        version: (1, 2),
        reason: "OCM serves v1beta1 of the add-on API from 1.2 on",
    },
    Lowest {
        test: "conformance::registration::an_agent_with_a_token_has_the_same_rights",
        variable: "OCM_VERSION",
        version: (1, 2),
        reason: "add-ons register with tokens from OCM 1.2 on",
    },
    Lowest {
        test: "conformance::admission::our_works_pass_ocms_webhook",
        variable: "OCM_VERSION",
        version: (1, 3),
        reason: WEBHOOKS,
    },
    Lowest {
        test: "conformance::admission::the_largest_work_passes_ocms_webhook",
        variable: "OCM_VERSION",
        version: (1, 3),
        reason: WEBHOOKS,
    },
];

/// Why this test cannot run with the versions in use.
pub(super) fn too_old(test: &str) -> Option<&'static str> {
    let lowest = ALL.iter().find(|it| it.test == test)?;
    let given = std::env::var(lowest.variable).ok()?;
    is_below(&given, lowest.version).then_some(lowest.reason)
}

/// Whether a version such as `v1.35.4` is below this one; a commit is not.
fn is_below(version: &str, lowest: (u64, u64)) -> bool {
    let mut numbers = version.trim_start_matches('v').split('.').map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < lowest,
        _ => false,
    }
}

/// Checks that each test exists.
pub(super) fn check(groups: &[TestGroup]) -> Result<()> {
    for lowest in ALL {
        let mut tests = groups.iter().flat_map(|group| &group.e2e_tests);
        let is_known = tests.any(|it| it.title() == lowest.test);
        ensure!(is_known, "the test {} does not exist", lowest.test);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_below_the_lowest_are_too_old() {
        for old in ["v1.35.4", "1.35", "v0.15.0"] {
            assert!(is_below(old, (1, 36)), "{old}");
        }
        for new in [
            "v1.36.0",
            "v2.0.0",
            "main-acb60cd1",
            "",
            "v1.3.0-78-g00f84c32b",
        ] {
            assert!(!is_below(new, (1, 3)), "{new}");
        }
    }
}
