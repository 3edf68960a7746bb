use diagnosis::{status::Connection, testing};

use super::*;

fn session(connected: bool, since: &str) -> SessionReport {
    SessionReport {
        connected,
        since: testing::at(since),
        agent_version: Some("0.2.0".to_owned()),
        last_error: Some("reset by peer".to_owned()),
        ..SessionReport::default()
    }
}

fn shown(mut addon: Addon, session: Option<&SessionReport>) -> Cluster {
    amend(&mut addon, session);
    cluster(&addon, session, Tally::default(), testing::now())
}

#[test]
fn ended_session_shows_before_the_condition_follows() {
    let ended = session(false, "2026-11-22T11:59:30Z");
    let found = shown(testing::well("paris"), Some(&ended));
    assert_eq!(found.connected.state, Connection::No);
    assert_eq!(found.connected.since, Some(ended.since));
    assert!(found.degraded);
    assert_eq!(found.version.as_deref(), Some("0.2.0"));
    let problem = found.last_error.unwrap();
    assert_eq!(problem.reason, AGENT_DISCONNECTED);
    assert!(problem.message.contains("reset by peer"), "{problem:?}");
}

#[test]
fn new_session_shows_before_the_condition_follows() {
    let away = testing::fleet().swap_remove(2);
    assert_eq!(shown(away.clone(), None).connected.state, Connection::No);
    let begun = session(true, "2026-11-22T11:59:30Z");
    let found = shown(away, Some(&begun));
    assert_eq!(found.connected.state, Connection::Yes);
    assert_eq!(found.connected.since, Some(begun.since));
    assert_eq!((found.last_error, found.degraded), (None, false));
    assert_eq!(found.version.as_deref(), Some("0.2.0"));
}

#[test]
fn a_cluster_that_this_program_has_not_seen_shows_its_condition() {
    let found = shown(testing::well("paris"), None);
    assert_eq!(found.connected.state, Connection::Yes);
    assert_eq!(found.version.as_deref(), Some("0.1.0"));
}

#[test]
fn session_does_not_hide_a_pod_that_is_not_ready() {
    let since = "2026-11-22T11:00:00Z";
    let stuck = (
        "Available",
        "False",
        "AgentUnavailable",
        "no ready pod",
        since,
    );
    let addon = testing::addon("paris", "managed", &[stuck]);
    let found = shown(addon, Some(&session(true, since)));
    assert_eq!(found.connected.state, Connection::No);
    assert_eq!(found.last_error.unwrap().reason, "AgentUnavailable");
}

#[test]
fn texts_of_a_hostile_cluster_are_cut() {
    let long = "<script>".repeat(1 << 10);
    let since = "2026-11-22T11:00:00Z";
    let broken = ("Degraded", "True", long.as_str(), long.as_str(), since);
    let addon = testing::addon("paris", &long, &[testing::CONNECTED, broken]);
    let hostile = (0..1000).map(|it| (format!("{it}{long}"), long.clone()));
    let row = ClusterRow::new(shown(addon, None), Some(&hostile.take(70).collect()));
    let text = serde_json::to_string(&row).unwrap();
    assert!(text.len() < 64 * 1100, "{} bytes", text.len());
    assert_eq!(row.labels.len(), cut::LABELS);
}

#[test]
fn row_has_the_labels_and_the_cluster_set() {
    let labels = [(CLUSTER_SET, "europe"), ("env", "prod")];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let row = ClusterRow::new(shown(testing::well("paris"), None), Some(&labels.into()));
    assert_eq!(row.cluster_set.as_deref(), Some("europe"));
    assert_eq!(row.labels["env"], "prod");
    let without = ClusterRow::new(shown(testing::well("paris"), None), None);
    assert!(without.cluster_set.is_none() && without.labels.is_empty());
}
