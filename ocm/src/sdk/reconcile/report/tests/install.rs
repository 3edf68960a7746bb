//! When the first success and the first failure of an install are reported.

use super::*;

/// `Available` will be known soon; the first success of the works waits for it.
#[test]
fn first_success_waits_for_available_and_failures_do_not() {
    let (name, cluster) = (ClusterName::new("c").unwrap(), ManagedCluster::default());
    let addon = ManagedClusterAddOn::default();
    let target = Target {
        name: &name,
        cluster: &cluster,
        addon: &addon,
    };
    let pending = |verdicts: &[Verdict]| Health {
        verdicts: verdicts.to_vec(),
        pending: true,
        ..Health::default()
    };
    let decide = |facts: &Facts, result: &Health| {
        report(HealthMode::Customized, target, facts, result, at(9))
    };
    let [available, degraded] = good();
    let well = settled(vec![applied(true)]);
    assert_eq!(
        decide(&well, &pending(std::slice::from_ref(&degraded))),
        Report::default()
    );
    let both = decide(&well, &pending(&[available, degraded.clone()]));
    assert_eq!(
        kinds(both.deploy.as_ref()),
        ["ManifestApplied", "Degraded", "Available"]
    );
    assert_eq!(both.available, None, "it is one write");
    let failed = decide(&settled(vec![applied(false)]), &pending(&[degraded]));
    assert_eq!(
        kinds(failed.deploy.as_ref()),
        ["ManifestApplied", "Degraded"]
    );
    assert_eq!(failed.available, None);
    let troubled = Verdict::new("Degraded", true, "R", "m");
    assert!(decide(&well, &pending(&[troubled])).deploy.is_some());
}

#[test]
fn the_first_failure_of_an_install_is_reported_when_it_lasts() {
    let degraded = [Verdict::new("Degraded", false, "AsExpected", "")];
    let failed_since = |second: Option<i64>| WorkReport {
        created: second.map(at),
        ..applied(false)
    };
    let result = |works: Vec<WorkReport>| decide(&[], &settled(works), &degraded, false);
    // `decide` runs at second 9.
    let early = result(vec![failed_since(Some(5))]);
    assert_eq!(
        (early.deploy, early.recheck),
        (None, Some(Duration::from_secs(6)))
    );
    for late in [
        vec![failed_since(Some(-1))],
        vec![failed_since(None)],
        vec![failed_since(Some(3600))],
        vec![failed_since(Some(5)), failed_since(Some(-1))],
    ] {
        let late = result(late);
        assert_eq!(kinds(late.deploy.as_ref()), ["ManifestApplied", "Degraded"]);
        assert_eq!(late.recheck, None);
    }

    let well = result(vec![applied(true)]).deploy.unwrap();
    let after = settled(vec![failed_since(Some(5))]);
    let again = decide(&well, &after, &degraded, false);
    assert!(again.deploy.is_some(), "success was reported before");
}
