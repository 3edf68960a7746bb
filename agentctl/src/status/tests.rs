use argocd::routing::RoutingSettings;
use serde_json::json;

use super::*;
use crate::{
    fleet::{self, Servers},
    output::render,
    testing::{self, application, is_documented, now, place, well},
};

/// Three Applications of paris, one of them out of sync; two of berlin, one of which contradicts itself.
fn tallies() -> BTreeMap<String, Tally> {
    let settings = RoutingSettings {
        argocd_namespace: "argocd".to_owned(),
        allowed_namespaces: Vec::new(),
    };
    let clusters = fleet::clusters(&testing::fleet(), &Servers::new());
    let to = |cluster: &str| json!({"name": cluster, "namespace": "shop"});
    let mut changed = application("argocd", "two", &to("paris"));
    changed["status"]["sync"]["status"] = json!("OutOfSync");
    changed["spec"]["source"]["targetRevision"] = json!("v3");
    let mut conflict = application("berlin", "four", &to("paris"));
    conflict["status"] = json!({"conditions": [{"type": "ArgoCDAgentConflict", "message": "m"}]});
    let all = [
        application("paris", "one", &to("in-cluster")),
        changed,
        application("paris", "three", &to("paris")),
        conflict,
        application("argocd", "five", &to("berlin")),
        application("argocd", "hub-local", &to("in-cluster")),
    ];
    let mut tallies = BTreeMap::<String, Tally>::new();
    for app in &all {
        if let Some(cluster) = belongs_to(app, &clusters, &settings) {
            tallies.entry(cluster).or_default().count(app);
        }
    }
    tallies
}

#[test]
fn applications_are_counted_where_they_go_and_the_hubs_own_nowhere() {
    let tallies = tallies();
    let counts: Vec<_> = tallies
        .iter()
        .map(|(cluster, tally)| {
            (
                cluster.as_str(),
                tally.total,
                tally.synced(),
                tally.troubled,
            )
        })
        .collect();
    assert_eq!(counts, [("berlin", 2, 1, 1), ("paris", 3, 2, 0)]);
    assert!(tallies["berlin"].needs_a_look(now()));
    // One was changed an hour ago, and the cluster has not compared it since; blocked ones are reported differently.
    assert_eq!(tallies["paris"].lag(now()), "1 (60m)");
    assert_eq!(tallies["berlin"].lag(now()), "-");
}

#[test]
fn cluster_lagging_over_15_minutes_needs_attention() {
    let paris = || tallies().remove("paris").unwrap();
    assert_eq!(
        paris().behind_since,
        Some(testing::at("2026-11-22T11:00:00Z"))
    );
    for (time, late) in [
        ("2026-11-22T11:15:00Z", false),
        ("2026-11-22T11:15:01Z", true),
    ] {
        let tallies = BTreeMap::from([("paris".to_owned(), paris())]);
        let fleet = fleet(&[well("paris")], tallies, testing::at(time));
        assert_eq!(fleet.is_degraded(), late, "{time}");
    }
}

#[test]
fn status_prints_one_line_per_cluster() {
    let fleet = fleet(&testing::fleet(), tallies(), now());
    let table = render(&fleet, place(Format::Table, now())).unwrap();
    insta::assert_snapshot!(table);
    is_documented(&table);
    insta::assert_snapshot!(render(&fleet, place(Format::Wide, now())).unwrap());
}

#[test]
fn status_json_and_yaml_have_the_same_values() {
    let mut fleet = fleet(&testing::fleet(), tallies(), now());
    assert!(fleet.keep(&["berlin".to_owned()]).is_empty());
    insta::assert_snapshot!(render(&fleet, place(Format::Json, now())).unwrap());
    insta::assert_snapshot!(render(&fleet, place(Format::Yaml, now())).unwrap());
}

#[test]
fn the_most_urgent_condition_is_the_last_error() {
    let reasons: Vec<_> = fleet(&testing::fleet(), BTreeMap::new(), now())
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
    let lost = testing::addon(
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
    let new = testing::addon(
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
fn invalid_label_has_a_status_line_with_cause_and_next_step() {
    let wrong = |cluster: &str| Wrong {
        cluster: cluster.to_owned(),
        value: "manged".to_owned(),
        since: None,
    };
    let mut fleet = fleet(&testing::fleet(), BTreeMap::new(), now());
    fleet.mislabelled(&["berlin", "paris", "rome"].map(wrong));
    let reason = |name: &str| {
        let cluster = fleet.clusters.iter().find(|it| it.name == name).unwrap();
        assert!(cluster.degraded, "{cluster:?}");
        cluster.last_error.as_ref().unwrap().reason.as_str()
    };
    // Who has the add-on has one line, with what is worse.
    assert_eq!(fleet.clusters.len(), 6);
    assert_eq!(
        ["berlin", "paris", "rome"].map(reason),
        ["ObjectsRefused", "UnknownMode", "UnknownMode"]
    );
    for format in [Format::Table, Format::Wide] {
        let text = render(&fleet, place(format, now())).unwrap();
        let found = |part: &str| text.matches(part).count();
        assert_eq!(found("is \"manged\"; only"), 2, "{text}");
        assert_eq!(found("kubectl label managedcluster rome"), 1, "{text}");
    }
    assert!(fleet.keep(&["rome".to_owned()]).is_empty() && fleet.is_degraded());
}

#[test]
fn clusters_that_are_not_there_are_named() {
    let mut fleet = fleet(&testing::fleet(), BTreeMap::new(), now());
    let asked = ["paris", "rome"].map(str::to_owned);
    assert_eq!(fleet.keep(&asked), ["rome"]);
    assert_eq!(fleet.clusters.len(), 1);
    assert!(!fleet.is_degraded());
}

#[test]
fn stopped_hub_program_is_reported_below_the_table() {
    let mut fleet = fleet(&[well("paris")], BTreeMap::new(), now());
    assert!(!fleet.is_degraded());
    fleet.silent = Some("the hub program does not run".to_owned());
    let text = render(&fleet, place(Format::Table, now())).unwrap();
    assert!(
        text.ends_with("\n\nthe hub program does not run\n"),
        "{text}"
    );
    assert!(fleet.is_degraded());
}

#[test]
fn empty_fleet_explains_how_to_opt_in() {
    let text = render(&Fleet::default(), place(Format::Table, now())).unwrap();
    assert!(text.contains("kubectl label managedcluster"), "{text}");
}
