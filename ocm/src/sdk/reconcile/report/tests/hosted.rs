//! Reports in hosted mode, where works also go to the hosting cluster.

use super::*;

fn hosted(works: Vec<WorkReport>, host: Verdict) -> Facts {
    Facts {
        host: Some(host),
        ..settled(works)
    }
}

#[test]
fn in_hosted_mode_each_place_has_a_condition_of_its_own() {
    let valid = Verdict::new("HostingClusterValidity", true, "HostingClusterValid", "");
    let there = WorkReport {
        hosted: true,
        ..applied(false)
    };
    let decision = decide(&[], &hosted(vec![applied(true), there], valid), &[], false);
    let states = decision.deploy.iter().flatten();
    let states: Vec<_> = states
        .map(|c| (c.type_.as_str(), c.status.as_str()))
        .collect();
    let wanted = [
        ("ManifestApplied", "True"),
        ("HostingClusterValidity", "True"),
        ("HostingManifestApplied", "False"),
    ];
    assert_eq!(states, wanted);

    // Without a host, its conditions disappear.
    let live = carry_out(&[], &decision);
    let home = decide(&live, &settled(vec![applied(true)]), &[], false);
    assert_eq!(kinds(home.deploy.as_ref()), ["ManifestApplied"]);
    let live = home.deploy.unwrap();
    let again = decide(&live, &settled(vec![applied(true)]), &[], false);
    assert_eq!(again, Report::default());
}

#[test]
fn a_blocked_cluster_keeps_the_conditions_of_the_host() {
    let invalid = Verdict::new(
        "HostingClusterValidity",
        false,
        "HostingClusterInvalid",
        "m",
    );
    let facts = hosted(vec![applied(true)], invalid);
    let live = carry_out(&[], &decide(&[], &facts, &[], false));
    let why = Verdict::new("Degraded", true, "R", "m");
    let result = blocked(HealthMode::Customized, &why, &live, at(9)).unwrap();
    let wanted = [
        "ManifestApplied",
        "HostingClusterValidity",
        "HostingManifestApplied",
        "Degraded",
    ];
    assert_eq!(kinds(Some(&result)), wanted);
}
