use std::collections::BTreeMap;

use diagnosis::{
    labels::Wrong,
    status::{fleet, tallies},
    testing::{fleet as samples, now, standings, well},
};

use super::*;
use crate::{
    output::render,
    testing::{is_documented, place},
};

#[test]
fn lag_counts_changes_with_the_age_of_the_oldest() {
    let tallies = tallies(&standings());
    assert_eq!(lag(&tallies["paris"], now()), "1 (60m)");
    assert_eq!(lag(&tallies["berlin"], now()), "-");
}

#[test]
fn status_prints_one_line_per_cluster() {
    let fleet = fleet(&samples(), tallies(&standings()), now());
    let table = render(&fleet, place(Format::Table, now())).unwrap();
    insta::assert_snapshot!(table);
    is_documented(&table);
    insta::assert_snapshot!(render(&fleet, place(Format::Wide, now())).unwrap());
}

#[test]
fn status_json_and_yaml_have_the_same_values() {
    let mut fleet = fleet(&samples(), tallies(&standings()), now());
    assert!(fleet.keep(&["berlin".to_owned()]).is_empty());
    insta::assert_snapshot!(render(&fleet, place(Format::Json, now())).unwrap());
    insta::assert_snapshot!(render(&fleet, place(Format::Yaml, now())).unwrap());
}

#[test]
fn invalid_label_has_a_status_line_with_cause_and_next_step() {
    let wrong = |cluster: &str| Wrong {
        cluster: cluster.to_owned(),
        value: "manged".to_owned(),
        since: None,
    };
    let mut fleet = fleet(&samples(), BTreeMap::new(), now());
    fleet.mislabelled(&["berlin", "paris", "rome"].map(wrong));
    for format in [Format::Table, Format::Wide] {
        let text = render(&fleet, place(format, now())).unwrap();
        let found = |part: &str| text.matches(part).count();
        assert_eq!(found("is \"manged\"; only"), 2, "{text}");
        assert_eq!(found("kubectl label managedcluster rome"), 1, "{text}");
    }
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
