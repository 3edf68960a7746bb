use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use principal::Mode;
use proptest::prelude::*;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn session(connected: bool, since: i64) -> SessionReport {
    SessionReport {
        connected,
        since: at(since),
        last_seen: Some(at(since)),
        last_error: (!connected).then(|| "connection reset".to_owned()),
        mode: Some(Mode::Managed),
        ..SessionReport::default()
    }
}

fn running() -> Facts<'static> {
    Facts {
        deployed_at: Some(at(0)),
        applied: Some(Ok(())),
        ready: Some(true),
        ..Facts::default()
    }
}

fn reason(stated: &AvailableVerdict) -> Option<(Status, &str)> {
    stated
        .verdict
        .as_ref()
        .map(|verdict| (verdict.status, verdict.reason.as_str()))
}

fn live(status: &str, reason: &str) -> Condition {
    Condition {
        type_: AVAILABLE.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: "as it was".to_owned(),
        last_transition_time: Time(at(0)),
        observed_generation: None,
    }
}

#[test]
fn a_valid_agent_version_is_in_the_message() {
    let works = "the agent is connected and running";
    for (version, expected) in [
        (None, works.to_owned()),
        (Some("0.1.0+ab-c"), format!("{works}, version 0.1.0+ab-c")),
        (Some("a, version b"), works.to_owned()),
        (Some(""), works.to_owned()),
    ] {
        let session = SessionReport {
            agent_version: version.map(str::to_owned),
            ..session(true, 3)
        };
        let facts = Facts {
            session: Some(&session),
            ..running()
        };
        let verdict = available(&facts, at(3)).verdict.unwrap();
        assert_eq!(verdict.message, expected);
    }
}

#[test]
fn connected_and_running_is_available_at_once() {
    let session = session(true, 3);
    let facts = Facts {
        session: Some(&session),
        ..running()
    };
    assert_eq!(
        reason(&available(&facts, at(3))),
        Some((Status::True, AGENT_CONNECTED))
    );
}

#[test]
fn a_new_agent_has_no_condition_for_a_minute() {
    let stated = available(&running(), at(59));
    assert_eq!(stated.verdict, None);
    assert!(stated.recheck.unwrap() > Duration::from_secs(1));
    let stated = available(&running(), at(60));
    assert_eq!(
        reason(&stated),
        Some((Status::False, AGENT_NEVER_CONNECTED))
    );
}

#[test]
fn a_stuck_deletion_of_the_old_work_is_reported_after_a_minute() {
    let facts = Facts {
        going_since: Some(at(0)),
        ..Facts::default()
    };
    let stated = available(&facts, at(59));
    assert_eq!(stated.verdict, None);
    assert!(stated.recheck.is_some());
    // An agent of the earlier work may still be there.
    let session = session(true, -300);
    let still = Facts {
        session: Some(&session),
        ..facts
    };
    let stated = available(&still, at(60));
    assert_eq!(reason(&stated), Some((Status::False, AGENT_NOT_DEPLOYED)));
    let message = stated.verdict.unwrap().message;
    assert!(message.contains("work agent"), "{message}");
}

#[test]
fn a_gap_under_a_minute_does_not_flip_it() {
    let (gone, was) = (session(false, 100), live("True", AGENT_CONNECTED));
    let facts = Facts {
        session: Some(&gone),
        live: Some(&was),
        ..running()
    };
    let stated = available(&facts, at(159));
    assert_eq!(reason(&stated), Some((Status::True, AGENT_CONNECTED)));
    assert_eq!(stated.verdict.unwrap().message, "as it was");
    let stated = available(&facts, at(160));
    assert_eq!(reason(&stated), Some((Status::False, AGENT_DISCONNECTED)));
    let message = stated.verdict.unwrap().message;
    for part in [
        &at(100).to_string(),
        "connection reset",
        next_step(None).as_str(),
    ] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_restart_of_the_principal_gives_agents_a_grace_period() {
    let was = live("True", AGENT_CONNECTED);
    let facts = Facts {
        serving_since: Some(at(1000)),
        live: Some(&was),
        ..running()
    };
    assert_eq!(
        reason(&available(&facts, at(1030))),
        Some((Status::True, AGENT_CONNECTED))
    );
    let stated = available(&facts, at(1060));
    assert_eq!(reason(&stated), Some((Status::False, AGENT_DISCONNECTED)));

    let refused = SessionReport {
        last_seen: None,
        ..session(false, 1001)
    };
    let facts = Facts {
        session: Some(&refused),
        ..facts
    };
    let message = available(&facts, at(1100)).verdict.unwrap().message;
    for part in ["connection reset", next_step(None).as_str()] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn never_connected_requires_a_session_history() {
    let no_pod = |serving_since| Facts {
        serving_since,
        ready: Some(false),
        ..running()
    };
    for (serving_since, expected) in [
        (at(-10), "it has never connected"),
        (at(10), "not seen since this principal started"),
    ] {
        let stated = available(&no_pod(Some(serving_since)), at(100));
        let message = stated.verdict.unwrap().message;
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn the_hubs_condition_of_a_lost_cluster_is_not_repeated() {
    let (gone, lost) = (
        session(false, 100),
        live("Unknown", "ManagedClusterLeaseUpdateStopped"),
    );
    let facts = Facts {
        session: Some(&gone),
        live: Some(&lost),
        ..running()
    };
    assert_eq!(available(&facts, at(110)).verdict, None);
}

#[test]
fn each_kind_of_absence_has_its_reason() {
    let refused = Facts {
        applied: Some(Err("forbidden".to_owned())),
        ..running()
    };
    let silent = Facts {
        applied: None,
        ..running()
    };
    let no_pod = Facts {
        ready: Some(false),
        ..running()
    };
    let not_rendered = Facts {
        render_error: Some("set it"),
        ..Facts::default()
    };
    for (facts, expected) in [
        (refused, AGENT_NOT_DEPLOYED),
        (silent, AGENT_NOT_DEPLOYED),
        (no_pod, AGENT_UNAVAILABLE),
        (not_rendered, AGENT_NOT_DEPLOYED),
    ] {
        assert_eq!(
            reason(&available(&facts, at(100))),
            Some((Status::False, expected))
        );
    }
}

#[test]
fn a_pod_that_the_cluster_has_not_reported_yet_is_waited_for() {
    let session = session(true, 100);
    let facts = Facts {
        session: Some(&session),
        ready: Some(false),
        ..running()
    };
    assert_eq!(available(&facts, at(110)).verdict, None);
    let stated = available(&facts, at(160));
    assert_eq!(reason(&stated), Some((Status::False, AGENT_UNAVAILABLE)));
}

fn work(status: &str, observed: i64) -> WorkReport {
    let mut work = WorkReport {
        generation: 2,
        ..WorkReport::default()
    };
    work.status.conditions = vec![Condition {
        type_: condition::work::APPLIED.to_owned(),
        status: status.to_owned(),
        reason: String::new(),
        message: "why".to_owned(),
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
        observed_generation: Some(observed),
    }];
    work
}

#[test]
fn only_reports_on_the_current_generation_count() {
    assert_eq!(applied(&[]), None);
    assert_eq!(applied(&[work("True", 2)]), Some(Ok(())));
    assert_eq!(applied(&[work("True", 1)]), None);
    assert_eq!(
        applied(&[work("True", 2), work("False", 2)]),
        Some(Err("why".to_owned()))
    );
}

proptest! {
    #[test]
    fn a_pending_verdict_is_evaluated_again(
        now in 0i64..400, since in 0i64..400, connected: bool, ready: Option<bool>, known: bool,
    ) {
        let session = session(connected, since);
        let facts = Facts { ready, session: known.then_some(&session), ..running() };
        let stated = available(&facts, at(now));
        prop_assert!(stated.verdict.is_some() || stated.recheck.is_some());
        if let Some(recheck) = stated.recheck {
            let later = at(now) + SignedDuration::try_from(recheck).unwrap();
            prop_assert!(available(&facts, later).recheck.is_none());
        }
    }
}

#[test]
fn a_restart_keeps_the_condition_of_absent_agents() {
    let gone = session(false, 100);
    let before = Facts {
        session: Some(&gone),
        live: Some(&live("True", AGENT_CONNECTED)),
        ..running()
    };
    let disconnected = available(&before, at(200)).verdict.unwrap();
    let never = available(&running(), at(200)).verdict.unwrap();
    let no_pod = Facts {
        ready: Some(false),
        ..running()
    };
    let not_ready = available(&no_pod, at(200)).verdict.unwrap();
    for (stated, then) in [
        (disconnected, running()),
        (never, running()),
        (not_ready, no_pod),
    ] {
        let was = stated.onto(&[], at(200));
        let restarted = Facts {
            session: None,
            serving_since: Some(at(1000)),
            live: Some(&was),
            ..then
        };
        assert_eq!(available(&restarted, at(1100)).verdict, Some(stated));
    }
    // A different reason is reported.
    let was = live("False", AGENT_UNAVAILABLE);
    let restarted = Facts {
        serving_since: Some(at(1000)),
        live: Some(&was),
        ..running()
    };
    let stated = available(&restarted, at(1100));
    assert_eq!(
        reason(&stated),
        Some((Status::False, AGENT_NEVER_CONNECTED))
    );
}

#[test]
fn a_missing_agent_is_reported_with_its_dialled_address() {
    let facts = |dials| Facts {
        dials: Some(dials),
        ..running()
    };
    let stated = |facts: &Facts<'_>| available(facts, at(120)).verdict.unwrap().message;
    let first = stated(&facts("old.example.org:443"));
    assert!(
        first.ends_with("that it can reach the principal's address (old.example.org:443)"),
        "{first}"
    );
    // The previous message stays only while it is true.
    let live = Condition {
        message: first.clone(),
        ..live("False", AGENT_NEVER_CONNECTED)
    };
    let again = |dials| {
        stated(&Facts {
            live: Some(&live),
            deployed_at: Some(at(1)),
            ..facts(dials)
        })
    };
    assert_eq!(again("old.example.org:443"), first);
    assert!(again("new.example.org:443").contains("(new.example.org:443)"));
}
