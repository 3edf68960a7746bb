use super::*;
use crate::testing::{at, behind, degraded, healthy, refused, standing};

fn standings() -> Vec<Standing> {
    let mut older = behind();
    older["metadata"]["managedFields"][0]["time"] = "2026-11-22T10:00:00Z".into();
    let all = [behind(), older, degraded(), healthy(), refused(), healthy()];
    all.iter().map(standing).collect()
}

#[test]
fn an_application_that_is_taken_out_leaves_the_tally_of_the_others() {
    let all = standings();
    for (index, gone) in all.iter().enumerate() {
        let mut tally = Tally::of(&all);
        tally.remove(gone);
        let others = all.iter().enumerate().filter(|(at, _)| *at != index);
        assert_eq!(tally, Tally::of(others.map(|(_, it)| it)), "{gone:?}");
    }
    let mut tally = Tally::of(&all);
    // Once more than they were taken in.
    for gone in all.iter().chain(&all) {
        tally.remove(gone);
    }
    assert_eq!(tally, Tally::default());
}

#[test]
fn the_oldest_change_counts_until_it_is_taken_out() {
    let all = standings();
    let mut tally = Tally::of(&all);
    assert_eq!(tally.behind(), 2);
    assert_eq!(tally.behind_since(), Some(at("2026-11-22T10:00:00Z")));
    tally.remove(&all[1]);
    assert_eq!(tally.behind(), 1);
    assert_eq!(tally.behind_since(), Some(at("2026-11-22T11:00:00Z")));
}

#[test]
fn words_that_argo_cd_does_not_have_are_unknown() {
    let mut app = healthy();
    app["status"]["sync"]["status"] = "<b>Synced</b>".into();
    app["status"]["health"] = serde_json::json!({});
    let tally = Tally::of([&standing(&app)]);
    let json = serde_json::to_value(&tally).unwrap();
    assert_eq!(json["sync"], serde_json::json!({"Unknown": 1}));
    assert_eq!(json["health"], serde_json::json!({"Unknown": 1}));
}

#[test]
fn a_standing_is_small() {
    assert!(size_of::<Standing>() <= 56);
}
