use super::*;
use crate::testing::{addon, at, fleet as samples, now, standings, well};

#[test]
fn applications_are_counted_where_they_go_and_the_hubs_own_nowhere() {
    let tallies = tallies(&standings());
    let counts: Vec<_> = tallies
        .iter()
        .map(|(cluster, tally)| {
            (
                cluster.as_str(),
                tally.total(),
                tally.synced(),
                tally.troubled(),
            )
        })
        .collect();
    assert_eq!(counts, [("berlin", 2, 1, 1), ("paris", 3, 2, 0)]);
    assert!(tallies["berlin"].needs_a_look(now()));
    // One was changed an hour ago, and the cluster has not compared it since; blocked ones are reported differently.
    assert_eq!(
        (tallies["paris"].behind(), tallies["berlin"].behind()),
        (1, 0)
    );
}

#[test]
fn cluster_lagging_over_15_minutes_needs_attention() {
    let paris = || tallies(&standings()).remove("paris").unwrap();
    assert_eq!(paris().behind_since(), Some(at("2026-11-22T11:00:00Z")));
    for (time, late) in [
        ("2026-11-22T11:15:00Z", false),
        ("2026-11-22T11:15:01Z", true),
    ] {
        let tallies = BTreeMap::from([("paris".to_owned(), paris())]);
        let fleet = fleet(&[well("paris")], tallies, at(time));
        assert_eq!(fleet.is_degraded(), late, "{time}");
    }
}

#[test]
fn the_most_urgent_condition_is_the_last_error() {
    let reasons: Vec<_> = fleet(&samples(), BTreeMap::new(), now())
        .clusters
        .into_iter()
        .map(|it| {
            (
                it.name,
                it.last_error.map(|error| error.reason),
                it.degraded,
            )
        })
        .collect();
    let expected = [
        ("berlin", Some("ObjectsRefused"), true),
        ("lima", Some("Revoked"), true),
        ("oslo", Some("AgentDisconnected"), true),
        ("paris", None, false),
        ("quito", None, true),
    ];
    let expected = expected
        .map(|(name, reason, degraded)| (name.to_owned(), reason.map(str::to_owned), degraded));
    assert_eq!(reasons, expected);
}

#[test]
fn lost_and_leaving_clusters_are_distinguished() {
    let lost = addon(
        "c",
        "managed",
        &[(
            "Available",
            "Unknown",
            "ManagedClusterLeaseUpdateStopped",
            "",
            "2026-11-22T11:00:00Z",
        )],
    );
    assert_eq!(connected(&lost).state, Connection::Unknown);
    let leaving = Addon {
        deleting: Some(now()),
        ..well("c")
    };
    assert_eq!(connected(&leaving).state, Connection::Leaving);
    assert_eq!(worst(&leaving), None);
}

#[test]
fn revoked_agent_is_not_connected_since_revocation() {
    let mut out = well("c");
    out.revoked = Some("stolen".to_owned());
    // The add-on still says Available, which takes a minute to turn.
    assert_eq!(connected(&out).state, Connection::No);
    let leaving = Addon {
        deleting: Some(now()),
        ..out
    };
    assert_eq!(connected(&leaving).state, Connection::Leaving);
}

#[test]
fn missing_lease_of_a_new_add_on_is_no_error() {
    let new = addon(
        "c",
        "managed",
        &[(
            "Available",
            "Unknown",
            "ManagedClusterAddOnLeaseNotFound",
            "The status of argocd-agent-addon add-on is unknown.",
            "2026-11-22T11:59:00Z",
        )],
    );
    assert_eq!(connected(&new).state, Connection::NotYet);
    assert_eq!(worst(&new), None);
    assert!(fleet(&[new], BTreeMap::new(), now()).is_degraded());
}

#[test]
fn invalid_label_is_a_problem_with_cause_and_next_step() {
    let wrong = |cluster: &str| Wrong {
        cluster: cluster.to_owned(),
        value: "manged".to_owned(),
        since: None,
    };
    let mut fleet = fleet(&samples(), BTreeMap::new(), now());
    fleet.mislabelled(&["berlin", "paris", "rome"].map(wrong));
    let reason = |name: &str| {
        let cluster = fleet.clusters.iter().find(|it| it.name == name).unwrap();
        assert!(cluster.degraded, "{cluster:?}");
        cluster.last_error.as_ref().unwrap().reason.as_str()
    };
    // A cluster that has the add-on is listed once, with its worse problem.
    assert_eq!(fleet.clusters.len(), 6);
    assert_eq!(
        ["berlin", "paris", "rome"].map(reason),
        ["ObjectsRefused", "UnknownMode", "UnknownMode"]
    );
    let rome = fleet.clusters.last().unwrap().last_error.as_ref().unwrap();
    assert!(rome.message.contains("is \"manged\"; only"), "{rome:?}");
    assert!(
        rome.message.contains("kubectl label managedcluster rome"),
        "{rome:?}"
    );
    assert!(fleet.keep(&["rome".to_owned()]).is_empty() && fleet.is_degraded());
}

#[test]
fn clusters_that_are_not_there_are_named() {
    let mut fleet = fleet(&samples(), BTreeMap::new(), now());
    let asked = ["paris", "rome"].map(str::to_owned);
    assert_eq!(fleet.keep(&asked), ["rome"]);
    assert_eq!(fleet.clusters.len(), 1);
    assert!(!fleet.is_degraded());
}
