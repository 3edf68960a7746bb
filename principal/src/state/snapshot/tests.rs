use super::*;
use crate::{
    fleet::{Certificates, Enrolment},
    report::{BlockedDeletion, ShownCertificate},
};

fn enrolment(mode: Mode) -> Enrolment {
    Enrolment {
        mode,
        server: None,
        since: None,
        fresh: false,
        confirm_delete: None,
        shares_unscoped: None,
        certificates: Certificates::All,
    }
}

fn connected(not_after: &str) -> SessionReport {
    SessionReport {
        connected: true,
        mode: Some(Mode::Managed),
        certificate: Some(ShownCertificate {
            not_before: Timestamp::UNIX_EPOCH,
            not_after: not_after.parse().unwrap(),
            authority: None,
        }),
        ..SessionReport::default()
    }
}

fn shared(reports: impl IntoIterator<Item = (String, SessionReport)>) -> Sessions {
    let reports = reports.into_iter();
    Arc::new(reports.map(|(name, it)| (name, Arc::new(it))).collect())
}

/// Three enrolled clusters, of which two are connected, and a rejected one.
fn moment() -> Snapshot {
    let clusters = [
        ("a", Mode::Managed),
        ("b", Mode::Managed),
        ("c", Mode::Autonomous),
    ];
    let clusters = clusters.map(|(name, mode)| (name.to_owned(), enrolment(mode)));
    let blocked_deletion = BlockedDeletion {
        names: vec!["Application argocd/shop".to_owned()],
        count: 12,
        mirrors: false,
        digest: "digest".to_owned(),
    };
    let reports = [
        ("a".to_owned(), connected("2026-02-01T00:00:00Z")),
        (
            "c".to_owned(),
            SessionReport {
                blocked_deletion: Some(blocked_deletion),
                ..connected("2026-01-01T00:00:00Z")
            },
        ),
        (
            "x".to_owned(),
            SessionReport {
                last_error: Some("é".repeat(4000)),
                ..SessionReport::default()
            },
        ),
    ];
    let figures = |objects, seconds| Figures {
        outbox_objects: objects,
        unacknowledged: Duration::from_secs(seconds),
        ..Figures::default()
    };
    Snapshot {
        is_active: true,
        fleet: Arc::new(Fleet {
            clusters: clusters.into(),
        }),
        reports: shared(reports),
        figures: [
            ("a".to_owned(), figures(2, 7)),
            ("c".to_owned(), figures(3, 5)),
        ]
        .into(),
        tunnels: [("a".to_owned(), 1)].into(),
    }
}

#[test]
fn totals_count_enrolled_connected_and_pending() {
    let expected = Totals {
        enrolled: [2, 1],
        connected: [1, 1],
        outbox_objects: 5,
        inbox_objects: 0,
        unacknowledged: Duration::from_secs(7),
        // deletion_held
        trouble: [1, 0, 0, 0, 0, 0],
        first_expiry: Some("2026-01-01T00:00:00Z".parse().unwrap()),
    };
    assert_eq!(moment().totals(), expected);
    assert_eq!(Snapshot::default().totals(), Totals::default());
}

fn page(asked: &Value) -> Page {
    serde_json::from_value(asked.clone()).unwrap()
}

fn names(reply: &Value) -> Vec<&str> {
    let clusters = reply["clusters"].as_array().unwrap();
    clusters
        .iter()
        .map(|it| it["cluster"].as_str().unwrap())
        .collect()
}

#[test]
fn pages_follow_each_other_and_each_cluster_is_on_one() {
    let moment = moment();
    let first = moment.page(&page(&json!({"limit": 2})));
    assert_eq!(
        (names(&first), &first["next"]),
        (vec!["a", "b"], &json!("b"))
    );
    let second = moment.page(&page(&json!({"limit": 2, "after": "b"})));
    assert_eq!(
        (names(&second), &second["next"]),
        (vec!["c", "x"], &Value::Null)
    );
    let one = moment.page(&page(&json!({"cluster": "c"})));
    assert_eq!(names(&one), ["c"]);
    assert_eq!(
        (&first["enrolled"], &first["connected"]),
        (&json!(3), &json!(2))
    );
}

#[test]
fn row_has_the_state_of_a_cluster_and_no_object_names() {
    let all = moment().page(&Page::default());
    let rows = all["clusters"].as_array().unwrap();
    assert_eq!(rows[0]["session"]["outboxObjects"], 2);
    assert_eq!(rows[0]["session"]["oldestUnacknowledgedSeconds"], 7);
    assert_eq!(
        (&rows[0]["lanes"], &rows[0]["enrolled"]),
        (&json!(1), &json!("managed"))
    );
    assert_eq!(
        (&rows[1]["connected"], &rows[1]["session"]),
        (&json!(false), &Value::Null)
    );
    assert_eq!(rows[2]["heldDeletions"], 12);
    assert_eq!(rows[3]["enrolled"], Value::Null);
    assert!(!all.to_string().contains("shop"), "{all}");
}

#[test]
fn state_page_is_bounded() {
    let mut moment = moment();
    let claims = SessionReport {
        last_error: Some("e".repeat(100_000)),
        agent_version: Some("v".repeat(100_000)),
        misconduct: Some("m".repeat(100_000)),
        ..connected("2026-02-01T00:00:00Z")
    };
    let all = (0..5_000).map(|number| (format!("cluster-{number}"), claims.clone()));
    moment.reports = shared(all);
    let reply = moment.page(&page(&json!({"limit": 1_000_000}))).to_string();
    assert!(reply.len() < 1 << 20, "{} bytes", reply.len());
}

#[test]
fn pending_age_grows_only_while_pending() {
    let later = Duration::from_secs(3);
    let waiting = Figures {
        unacknowledged: Duration::from_secs(2),
        agreed: Some(Duration::from_mins(1)),
        ..Figures::default()
    };
    let then = waiting.after(later);
    assert_eq!(then.unacknowledged, Duration::from_secs(5));
    assert_eq!(
        (then.agreed, then.arrived),
        (Some(Duration::from_secs(63)), later)
    );
    assert_eq!(
        Figures::default().after(later).unacknowledged,
        Duration::ZERO
    );
}
