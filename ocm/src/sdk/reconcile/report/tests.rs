use proptest::prelude::*;

use super::*;
use crate::{
    api::{
        addon::{ManagedClusterAddOn, ManagedClusterAddOnStatus},
        cluster::ManagedCluster,
        work::ManifestWorkStatus,
    },
    name::ClusterName,
};

mod hosted;
mod install;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn applied(status: bool) -> WorkReport {
    let verdict = Verdict::new("Applied", status, "R", "");
    let mut condition = verdict.onto(&[], at(0));
    condition.observed_generation = Some(1);
    let status = ManifestWorkStatus {
        conditions: vec![condition],
        ..Default::default()
    };
    WorkReport {
        name: "w".to_owned(),
        generation: 1,
        status,
        ..WorkReport::default()
    }
}

fn settled(works: Vec<WorkReport>) -> Facts {
    Facts {
        works,
        settled: true,
        ..Facts::default()
    }
}

fn decide(live: &[Condition], facts: &Facts, verdicts: &[Verdict], lost: bool) -> Report {
    let name = ClusterName::new("c").unwrap();
    let mut cluster = ManagedCluster::default();
    if lost {
        let verdict = Verdict::new(condition::cluster::AVAILABLE, Status::Unknown, "R", "");
        cluster.status.get_or_insert_default().conditions = vec![verdict.onto(&[], at(0))];
    }
    let conditions = live.to_vec();
    let status = ManagedClusterAddOnStatus {
        conditions,
        ..Default::default()
    };
    let addon = ManagedClusterAddOn {
        status: Some(status),
        ..Default::default()
    };
    let target = Target {
        name: &name,
        cluster: &cluster,
        addon: &addon,
    };
    let result = Health {
        verdicts: verdicts.to_vec(),
        ..Health::default()
    };
    report(HealthMode::Customized, target, facts, &result, at(9))
}

/// The conditions on the hub after this report.
fn carry_out(live: &[Condition], report: &Report) -> Vec<Condition> {
    let new: Vec<_> = report
        .deploy
        .iter()
        .flatten()
        .chain(&report.available)
        .collect();
    let kept = live
        .iter()
        .filter(|c| new.iter().all(|n| n.type_ != c.type_));
    kept.chain(new.iter().copied()).cloned().collect()
}

fn kinds(conditions: Option<&Vec<Condition>>) -> Vec<&str> {
    conditions
        .into_iter()
        .flatten()
        .map(|c| c.type_.as_str())
        .collect()
}

fn good() -> [Verdict; 2] {
    [
        Verdict::new("Available", true, "R", ""),
        Verdict::new("Degraded", false, "AsExpected", ""),
    ]
}

#[test]
fn an_install_takes_two_status_writes_and_then_none() {
    let waiting = [Verdict::new("Degraded", false, "AsExpected", "")];
    let nothing = decide(&[], &settled(vec![WorkReport::default()]), &waiting, false);
    assert_eq!(nothing, Report::default(), "a good condition waits");

    let first = decide(&[], &settled(vec![applied(true)]), &waiting, false);
    assert_eq!(
        kinds(first.deploy.as_ref()),
        ["ManifestApplied", "Degraded"]
    );
    assert_eq!(first.available, None);

    let live = carry_out(&[], &first);
    let second = decide(&live, &settled(vec![applied(true)]), &good(), false);
    assert_eq!(second.deploy, None);
    assert_eq!(second.available.as_ref().unwrap().status, "True");

    let live = carry_out(&live, &second);
    assert_eq!(
        decide(&live, &settled(vec![applied(true)]), &good(), false),
        Report::default()
    );
}

#[test]
fn available_waits_while_the_cluster_is_lost() {
    let unknown = Verdict::new(
        "Available",
        Status::Unknown,
        "ManagedClusterLeaseUpdateStopped",
        "",
    );
    let live = carry_out(
        &[],
        &decide(&[], &settled(vec![applied(true)]), &good(), false),
    );
    let live = carry_out(
        &live,
        &Report {
            available: Some(unknown.onto(&live, at(1))),
            ..Report::default()
        },
    );
    let facts = settled(vec![applied(true)]);
    assert_eq!(decide(&live, &facts, &good(), true), Report::default());
    let back = decide(&live, &facts, &good(), false);
    assert_eq!(back.available.unwrap().status, "True");
}

#[test]
fn a_failure_is_reported_and_withdrawn_when_it_is_over() {
    let mut facts = settled(vec![WorkReport::default()]);
    facts.problem = Some("too large".to_owned());
    let result = decide(&[], &facts, &[], false);
    let condition = &result.deploy.as_ref().unwrap()[0];
    assert_eq!(
        (condition.status.as_str(), condition.message.as_str()),
        ("False", "too large")
    );
    let live = carry_out(&[], &result);
    let over = decide(&live, &settled(vec![WorkReport::default()]), &[], false);
    assert_eq!(over.deploy, Some(Vec::new()));
}

#[test]
fn conditions_stay_while_the_cluster_has_not_reported() {
    let live = carry_out(&[], &decide(&[], &settled(vec![applied(true)]), &[], false));
    let mut changed = applied(true);
    changed.generation = 2;
    assert_eq!(
        decide(&live, &settled(vec![changed]), &[], false).deploy,
        None
    );
}

#[test]
fn nothing_is_reported_while_earlier_works_are_being_deleted() {
    let mut facts = settled(Vec::new());
    facts.going_since = Some(at(1));
    let report = decide(&[], &facts, &[], false);
    assert_eq!(report, Report::default(), "there are works to apply");

    let live = [
        Verdict::new("ManifestApplied", true, "AddonManifestApplied", "as it was").onto(&[], at(0)),
    ];
    facts.works.push(applied(true));
    assert_eq!(decide(&live, &facts, &[], false), Report::default());
}

#[test]
fn nothing_is_reported_before_the_desired_works_are_known() {
    assert_eq!(
        decide(&[], &Facts::default(), &[], false),
        Report::default()
    );
    let nothing_wanted = decide(&[], &settled(Vec::new()), &[], false);
    assert_eq!(
        nothing_wanted.deploy.unwrap()[0].message,
        "no manifest need to apply"
    );
}

#[test]
fn an_author_cannot_set_conditions_of_ocm() {
    let verdicts = [
        "Progressing",
        "Configured",
        "RegistrationApplied",
        "ManifestApplied",
    ]
    .map(|kind| Verdict::new(kind, true, "R", ""));
    let result = decide(&[], &settled(vec![applied(true)]), &verdicts, false);
    assert_eq!(kinds(result.deploy.as_ref()), ["ManifestApplied"]);
    assert_eq!(result.deploy.unwrap()[0].reason, health::reason::APPLIED);
}

#[test]
fn of_two_verdicts_on_one_condition_the_first_counts() {
    let verdicts = ["First", "Second"].map(|reason| Verdict::new("Own", true, reason, ""));
    let facts = settled(Vec::new());
    let result = decide(&[], &facts, &verdicts, false);
    assert_eq!(kinds(result.deploy.as_ref()), ["ManifestApplied", "Own"]);
    let live = carry_out(&[], &result);
    assert_eq!(decide(&live, &facts, &verdicts, false), Report::default());
}

#[test]
fn a_bad_condition_is_written_at_once() {
    let verdicts = [Verdict::new("Degraded", true, "R", "m")];
    let result = decide(&[], &settled(vec![WorkReport::default()]), &verdicts, false);
    assert_eq!(kinds(result.deploy.as_ref()), ["Degraded"]);
    let live = carry_out(&[], &result);
    let result = decide(&live, &settled(vec![applied(true)]), &verdicts, false);
    assert_eq!(
        kinds(result.deploy.as_ref()),
        ["ManifestApplied", "Degraded"],
        "an omitted condition is removed"
    );
}

#[test]
fn a_blocked_cluster_has_the_reason_and_keeps_its_conditions() {
    let live = carry_out(
        &[],
        &decide(&[], &settled(vec![applied(true)]), &good(), false),
    );
    let verdict = Verdict::new("Degraded", true, "Reserved", "m");
    let result = blocked(HealthMode::Lease, &verdict, &live, at(9)).unwrap();
    assert_eq!(kinds(Some(&result)), ["ManifestApplied", "Degraded"]);
    let result = blocked(HealthMode::Customized, &verdict, &live, at(9)).unwrap();
    assert_eq!(
        kinds(Some(&result)),
        ["ManifestApplied", "Degraded", "Available"]
    );
    let live = carry_out(
        &live,
        &Report {
            deploy: Some(result),
            ..Report::default()
        },
    );
    assert_eq!(
        blocked(HealthMode::Customized, &verdict, &live, at(10)),
        None
    );
}

prop_compose! {
    fn some_verdicts()(
        verdicts in prop::collection::vec(
            ("Available|Degraded|Own|Progressing", 0u8..3, "[A-Z]{1,2}", any::<bool>()), 0..5)
    ) -> Vec<Verdict> {
        let status = |number| match number {
            0 => Status::True,
            1 => Status::False,
            _ => Status::Unknown,
        };
        let verdict = |(kind, number, reason, calm): (String, u8, String, bool)| {
            let verdict = Verdict::new(kind, status(number), reason, "");
            if calm { verdict.deferrable() } else { verdict }
        };
        verdicts.into_iter().map(verdict).collect()
    }
}

proptest! {
    #[test]
    fn a_second_report_writes_nothing(
        before in some_verdicts(), verdicts in some_verdicts(), works in 0usize..3,
        answered in any::<bool>(), lost in any::<bool>()
    ) {
        let live: Vec<_> = before.iter().map(|verdict| verdict.onto(&[], at(1))).collect();
        let work = if answered { applied(true) } else { WorkReport::default() };
        let facts = settled(vec![work; works]);
        let first = decide(&live, &facts, &verdicts, lost);
        prop_assert!(!lost || first.available.is_none());
        prop_assert!(first.deploy.is_none() || first.available.is_none());
        let written = first.deploy.as_ref();
        let along = written.map(|all| condition::find(all, addon::AVAILABLE));
        let was = condition::find(&live, addon::AVAILABLE);
        prop_assert!(!lost || along.is_none_or(|along| along == was));
        prop_assert!(along.is_none_or(|along| was.is_none() || along.is_some()));
        let live = carry_out(&live, &first);
        prop_assert_eq!(decide(&live, &facts, &verdicts, lost), Report::default());
    }
}

#[test]
fn in_lease_mode_the_cluster_writes_available() {
    let name = ClusterName::new("c").unwrap();
    let target = Target {
        name: &name,
        cluster: &ManagedCluster::default(),
        addon: &ManagedClusterAddOn::default(),
    };
    let facts = settled(vec![applied(true)]);
    let health = Health {
        verdicts: good().to_vec(),
        ..Health::default()
    };
    let result = report(HealthMode::Lease, target, &facts, &health, at(9));
    assert_eq!(result.available, None);
    assert_eq!(
        kinds(result.deploy.as_ref()),
        ["ManifestApplied", "Degraded"]
    );
}
