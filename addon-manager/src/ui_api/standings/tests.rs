use diagnosis::testing;
use principal::Cursor;

use super::*;

fn routing() -> RoutingSettings {
    RoutingSettings {
        argocd_namespace: "argocd".to_owned(),
        allowed_namespaces: Vec::new(),
    }
}

fn fleet(names: &[&str]) -> Clusters {
    Clusters::new(
        names
            .iter()
            .map(|name| ((*name).to_owned(), Some(server(name)))),
    )
}

fn server(name: &str) -> String {
    format!("https://proxy/{name}")
}

fn changes(from_start: bool, applications: Vec<Value>, removed: &[(&str, &str)]) -> Changes {
    let removed = removed.iter();
    Changes {
        cursor: Cursor::default(),
        from_start,
        applications,
        removed: removed
            .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
            .collect(),
        more: false,
    }
}

/// An Application as the principal keeps it: without managed fields.
fn application(namespace: &str, name: &str, destination: &Value) -> Value {
    let mut object = testing::application(namespace, name, destination);
    object["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("managedFields");
    object
}

fn to(name: &str) -> Value {
    json!({ "name": name })
}

fn unknown(_: &str, _: &str) -> Option<Timestamp> {
    None
}

fn with(names: &[&str], applications: Vec<Value>) -> Standings {
    let mut standings = Standings::new(routing());
    standings.route(fleet(names));
    standings.apply(&changes(true, applications, &[]), unknown, testing::now());
    standings
}

#[test]
fn changes_and_removals_move_the_counts() {
    let mut standings = with(
        &["paris", "rome"],
        vec![
            application("argocd", "one", &to("paris")),
            application("argocd", "two", &to("paris")),
            application("argocd", "hub", &to("in-cluster")),
        ],
    );
    assert_eq!(standings.tally("paris").total(), 2);
    let moved = application("argocd", "two", &to("rome"));
    standings.apply(
        &changes(false, vec![moved], &[("argocd", "none")]),
        unknown,
        testing::now(),
    );
    let totals = |standings: &Standings| ["paris", "rome"].map(|it| standings.tally(it).total());
    assert_eq!(totals(&standings), [1, 1]);
    standings.apply(
        &changes(false, Vec::new(), &[("argocd", "one")]),
        unknown,
        testing::now(),
    );
    assert_eq!(totals(&standings), [0, 1]);
    standings.apply(&changes(true, Vec::new(), &[]), unknown, testing::now());
    assert_eq!(totals(&standings), [0, 0]);
}

#[test]
fn a_changed_fleet_routes_all_without_their_objects() {
    let mut mirror = application("oslo", "own", &to("in-cluster"));
    mirror["metadata"]["annotations"] = json!({ MIRRORED_FROM: "oslo" });
    let by_server = json!({ "server": server("rome") });
    let objects = vec![
        application("argocd", "one", &to("paris")),
        application("argocd", "two", &by_server),
        application("team", "three", &to("paris")),
        application("paris", "four", &to("in-cluster")),
        application("argocd", "long", &to(&"x".repeat(10_000))),
        mirror,
    ];
    let mut later = with(&[], objects.clone());
    assert_eq!(later.tally("paris").total(), 0);
    for names in [
        &["paris"][..],
        &["paris", "rome", "oslo", "team"],
        &["rome"],
        &[],
    ] {
        let autonomous = || fleet(names).with_autonomous(["oslo".to_owned()]);
        later.route(autonomous());
        let mut direct = Standings::new(routing());
        direct.route(autonomous());
        direct.apply(
            &changes(true, objects.clone(), &[]),
            unknown,
            testing::now(),
        );
        for cluster in ["paris", "rome", "oslo", "team"] {
            assert_eq!(
                later.tally(cluster),
                direct.tally(cluster),
                "{cluster} of {names:?}"
            );
        }
    }
    later.route(fleet(&["paris", "rome"]));
    assert_eq!(later.tally("paris").total(), 2);
    assert_eq!(later.tally("rome").total(), 1);
}

fn behind(name: &str) -> Value {
    let mut object = application("argocd", name, &to("paris"));
    object["spec"]["source"]["targetRevision"] = json!("v3");
    object
}

#[test]
fn waiting_time_begins_when_the_change_was_written_or_first_seen() {
    let (early, late) = (testing::at("2026-11-22T11:00:00Z"), testing::now());
    let mut standings = with(&["paris"], Vec::new());
    let change = |object| changes(false, vec![object], &[]);
    standings.apply(&change(behind("one")), unknown, early);
    assert_eq!(standings.tally("paris").behind_since(), Some(early));
    // Still the same wait, also after another change of the Application.
    standings.apply(&change(behind("one")), unknown, late);
    assert_eq!(standings.tally("paris").behind_since(), Some(early));
    let written = testing::at("2026-11-22T11:30:00Z");
    standings.apply(&change(behind("one")), |_, _| Some(written), late);
    assert_eq!(standings.tally("paris").behind_since(), Some(written));
    let compared = application("argocd", "one", &to("paris"));
    standings.apply(&change(compared), |_, _| Some(written), late);
    let tally = standings.tally("paris");
    assert_eq!((tally.behind(), tally.behind_since()), (0, None));
}

#[test]
fn troubled_applications_of_a_cluster_are_found_by_name() {
    let now = testing::now();
    let mut sick = application("argocd", "sick", &to("paris"));
    sick["status"]["health"]["status"] = json!("Degraded");
    let mut other = sick.clone();
    other["spec"]["destination"] = to("rome");
    other["metadata"]["name"] = json!("other");
    let well = application("argocd", "well", &to("paris"));
    let mut standings = with(&["paris", "rome"], vec![well, sick, other, behind("new")]);
    let found = |standings: &Standings| {
        let all = standings.troubled("paris", now);
        all.map(|(_, name, _)| name.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found(&standings), ["sick"]);
    let hour_ago = testing::at("2026-11-22T11:00:00Z");
    let change = changes(false, vec![behind("new")], &[]);
    standings.apply(&change, |_, _| Some(hour_ago), now);
    assert_eq!(found(&standings), ["new", "sick"]);
}

#[test]
fn texts_that_no_record_needs_are_forgotten() {
    let mut standings = with(&["paris"], Vec::new());
    for number in 0..5000 {
        let object = application("argocd", "one", &to(&format!("c{number}")));
        standings.apply(&changes(false, vec![object], &[]), unknown, testing::now());
    }
    assert!(standings.texts.len() < 1100, "{}", standings.texts.len());
}
