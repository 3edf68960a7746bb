use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
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

fn reason(said: &Said) -> Option<(Status, &str)> {
    said.verdict
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
fn nothing_is_said_of_a_new_agent_for_a_minute() {
    let said = available(&running(), at(59));
    assert_eq!(said.verdict, None);
    assert!(said.recheck.unwrap() > Duration::from_secs(1));
    let said = available(&running(), at(60));
    assert_eq!(reason(&said), Some((Status::False, AGENT_NEVER_CONNECTED)));
}

#[test]
fn a_gap_under_a_minute_does_not_flip_it() {
    let (gone, was) = (session(false, 100), live("True", AGENT_CONNECTED));
    let facts = Facts {
        session: Some(&gone),
        live: Some(&was),
        ..running()
    };
    let said = available(&facts, at(159));
    assert_eq!(reason(&said), Some((Status::True, AGENT_CONNECTED)));
    assert_eq!(said.verdict.unwrap().message, "as it was");
    let said = available(&facts, at(160));
    assert_eq!(reason(&said), Some((Status::False, AGENT_DISCONNECTED)));
    let message = said.verdict.unwrap().message;
    for part in [&at(100).to_string(), "connection reset", NEXT_STEP] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_restart_of_the_principal_is_not_held_against_the_agents() {
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
    let said = available(&facts, at(1060));
    assert_eq!(reason(&said), Some((Status::False, AGENT_DISCONNECTED)));

    let refused = SessionReport {
        last_seen: None,
        ..session(false, 1001)
    };
    let facts = Facts {
        session: Some(&refused),
        ..facts
    };
    let message = available(&facts, at(1100)).verdict.unwrap().message;
    for part in ["connection reset", NEXT_STEP] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn nobody_is_said_to_have_never_connected_who_may_have_before_the_principal_started() {
    let no_pod = |serving_since| Facts {
        serving_since,
        ready: Some(false),
        ..running()
    };
    for (serving_since, expected) in [
        (at(-10), "it has never connected"),
        (at(10), "not seen since this principal started"),
    ] {
        let said = available(&no_pod(Some(serving_since)), at(100));
        let message = said.verdict.unwrap().message;
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn what_the_hub_wrote_of_a_lost_cluster_is_not_repeated() {
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
    let said = available(&facts, at(160));
    assert_eq!(reason(&said), Some((Status::False, AGENT_UNAVAILABLE)));
}

#[test]
fn a_mode_change_is_held_and_says_why_and_how_to_go_on() {
    for (applications, why) in [
        (Some(3), "of which this cluster has 3"),
        (None, "a cluster can write its own labels"),
    ] {
        let held_mode = Some(HeldMode {
            recorded: Mode::Managed,
            asked: Mode::Autonomous,
            applications,
        });
        let verdict = degraded(
            &Needs {
                held_mode,
                ..Needs::default()
            },
            at(0),
        );
        assert_eq!(verdict.reason, "ModeChangeHeld");
        let annotation = "argocd-agent.open-cluster-management.io/confirm-mode=autonomous";
        for part in [annotation, why] {
            assert!(verdict.message.contains(part), "{}", verdict.message);
        }
    }
}

#[test]
fn a_secret_of_somebody_else_in_the_place_of_ours_needs_a_person() {
    let verdict = degraded(
        &Needs {
            secret_error: Some("delete or rename it"),
            ..Needs::default()
        },
        at(0),
    );
    let said = (verdict.status, verdict.reason.as_str());
    assert_eq!(said, (Status::True, "ClusterSecretConflict"));
    assert_eq!(verdict.message, "delete or rename it");
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
fn only_what_the_cluster_says_of_the_present_content_counts() {
    assert_eq!(applied(&[]), None);
    assert_eq!(applied(&[work("True", 2)]), Some(Ok(())));
    assert_eq!(applied(&[work("True", 1)]), None);
    assert_eq!(
        applied(&[work("True", 2), work("False", 2)]),
        Some(Err("why".to_owned()))
    );
}

#[test]
fn what_is_not_shown_of_an_autonomous_cluster_is_told_with_the_reason() {
    let unmirrored = Unmirrored {
        count: 7,
        names: vec!["Application app: the hub has an Application c/app".to_owned()],
    };
    let verdict = degraded(
        &Needs {
            unmirrored: Some(&unmirrored),
            ..Needs::default()
        },
        at(0),
    );
    assert_eq!(verdict.reason, NOT_MIRRORED);
    for part in ["7 objects", "c/app", "and 6 more"] {
        assert!(verdict.message.contains(part), "{}", verdict.message);
    }
}

#[test]
fn a_held_deletion_names_what_would_go_and_how_to_let_it_go() {
    let held = HeldDeletion {
        names: vec![
            "Application argocd/a".to_owned(),
            "Application argocd/b".to_owned(),
        ],
        count: 30,
        mirrors: false,
        digest: "1234".to_owned(),
    };
    let verdict = degraded(
        &Needs {
            held_deletion: Some(&held),
            ..Needs::default()
        },
        at(0),
    );
    assert_eq!(
        (verdict.status, verdict.reason.as_str()),
        (Status::True, MASS_DELETE_HELD)
    );
    for part in [
        "Application argocd/a, Application argocd/b, and 28 more",
        "argocd-agent.open-cluster-management.io/confirm-delete=1234",
    ] {
        assert!(verdict.message.contains(part), "{}", verdict.message);
    }
}

#[test]
fn a_cluster_without_argo_cd_is_told_with_the_next_step() {
    let verdict = |argocd| {
        degraded(
            &Needs {
                argocd,
                ..Needs::default()
            },
            at(0),
        )
    };
    let missing = verdict(Some(ArgoCd::Missing));
    let said = (missing.status, missing.reason.as_str());
    assert_eq!(said, (Status::True, ARGOCD_MISSING));
    assert!(missing.message.contains("install Argo CD"));
    for argocd in [None, Some(ArgoCd::Installed), Some(ArgoCd::Other)] {
        assert_eq!(verdict(argocd).status, Status::False);
    }
}

#[test]
fn of_several_causes_the_most_urgent_is_the_reason_and_all_are_told() {
    let held = HeldDeletion {
        names: vec!["Application argocd/a".to_owned()],
        count: 1,
        mirrors: false,
        digest: "1234".to_owned(),
    };
    let mut needs = Needs {
        secret_error: Some("delete or rename it"),
        held_deletion: Some(&held),
        held_mode: Some(HeldMode {
            recorded: Mode::Managed,
            asked: Mode::Autonomous,
            applications: Some(3),
        }),
        ..Needs::default()
    };
    let verdict = degraded(&needs, at(0));
    assert_eq!(verdict.reason, MASS_DELETE_HELD);
    for part in [
        "confirm-delete=1234",
        "besides, ModeChangeHeld: the cluster's label asks",
        "besides, ClusterSecretConflict: delete or rename it",
    ] {
        assert!(verdict.message.contains(part), "{}", verdict.message);
    }
    needs.render_error = Some("LOG_LEVEL");
    needs.argocd = Some(ArgoCd::Missing);
    let verdict = degraded(&needs, at(0));
    assert_eq!(verdict.reason, "ConfigurationInvalid");
    assert!(
        verdict
            .message
            .starts_with("LOG_LEVEL; besides, ArgoCDMissing:")
    );
    assert!(verdict.message.contains("besides, MassDeleteHeld:"));
}

#[test]
fn when_all_is_well_degraded_costs_no_write_of_its_own() {
    let verdict = degraded(&Needs::default(), at(0));
    assert!(verdict.calm && verdict.status == Status::False);
}

proptest! {
    #[test]
    fn a_verdict_that_waits_is_asked_for_again(
        now in 0i64..400, since in 0i64..400, connected: bool, ready: Option<bool>, known: bool,
    ) {
        let session = session(connected, since);
        let facts = Facts { ready, session: known.then_some(&session), ..running() };
        let said = available(&facts, at(now));
        prop_assert!(said.verdict.is_some() || said.recheck.is_some());
        if let Some(recheck) = said.recheck {
            let later = at(now) + SignedDuration::try_from(recheck).unwrap();
            prop_assert!(available(&facts, later).recheck.is_none());
        }
    }
}

fn certificate(from: i64, to: i64) -> ShownCertificate {
    ShownCertificate {
        not_before: at(from),
        not_after: at(to),
        authority: None,
    }
}

#[test]
fn what_a_cluster_refuses_and_an_agent_that_misbehaves_need_a_person() {
    let refused = Refused {
        count: 5,
        names: vec!["Application/c/app".to_owned()],
    };
    let needs = Needs {
        refused: Some(&refused),
        misconduct: Some("it sends what cannot be read"),
        ..Needs::default()
    };
    let verdict = degraded(&needs, at(0));
    assert_eq!(
        (verdict.status, verdict.reason.as_str()),
        (Status::True, "AgentMisbehaves")
    );
    for said in [
        "cannot be read",
        "ObjectsRefused",
        "Application/c/app, and 4 more",
    ] {
        assert!(verdict.message.contains(said), "{}", verdict.message);
    }
}

#[test]
fn a_certificate_that_was_not_renewed_in_time_is_told_with_its_end_and_where_to_look() {
    let shown = certificate(0, 1000);
    let needs = Needs {
        certificate: Some(&shown),
        ..Needs::default()
    };
    assert_eq!(degraded(&needs, at(840)).reason, "AsExpected");
    let late = degraded(&needs, at(860));
    assert_eq!(late.reason, CERTIFICATE_EXPIRING);
    assert!(
        late.message.contains("ClusterCertificateRotated"),
        "{}",
        late.message
    );
    let hub = Certificates {
        overdue: vec!["the certificate in the Secret argocd-agent-ca ends at T".to_owned()],
        ..Certificates::default()
    };
    let needs = Needs {
        hub: Some(&hub),
        ..Needs::default()
    };
    assert_eq!(degraded(&needs, at(0)).reason, CERTIFICATE_EXPIRING);
}

#[test]
fn who_holds_up_a_rotation_is_told_after_a_while_and_nobody_else() {
    let hub = Certificates {
        rotation: Some(crate::issuer::rotation::Progress {
            stage: Stage::Retiring,
            since: at(0),
            waits_for: ["a".to_owned()].into(),
        }),
        ..Certificates::default()
    };
    let needs = |cluster| Needs {
        hub: Some(&hub),
        cluster,
        ..Needs::default()
    };
    assert_eq!(degraded(&needs("a"), at(599)).reason, "AsExpected");
    assert!(rotation_recheck(&needs("a"), at(599)).is_some());
    let waits = degraded(&needs("a"), at(600));
    assert_eq!(waits.reason, ROTATION_WAITS);
    assert!(
        waits.message.contains(crate::keys::REVOKED),
        "{}",
        waits.message
    );
    assert_eq!(rotation_recheck(&needs("a"), at(600)), None);
    assert_eq!(degraded(&needs("b"), at(600)).reason, "AsExpected");
    assert_eq!(rotation_recheck(&needs("b"), at(0)), None);
}

#[test]
fn a_revocation_outweighs_everything_else() {
    let needs = Needs {
        revoked: true,
        render_error: Some("x"),
        ..Needs::default()
    };
    let told = degraded(&needs, at(0));
    assert_eq!(told.reason, REVOKED);
    assert!(told.message.contains(crate::keys::REVOKED));
}

#[test]
fn writes_that_fail_for_long_need_a_person() {
    let stuck = Stuck {
        count: 3,
        example: "Application/c/app: forbidden".to_owned(),
    };
    let needs = Needs {
        stuck: Some(&stuck),
        ..Needs::default()
    };
    let verdict = degraded(&needs, at(0));
    assert_eq!(
        (verdict.status, verdict.reason.as_str()),
        (Status::True, "HubWritesFailing")
    );
    assert!(verdict.message.contains("Application/c/app: forbidden"));
}
