use ocm::condition::Status;
use principal::ArgoCd;

use super::*;
use crate::addon::argocd_install;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

#[test]
fn a_blocked_mode_change_is_reported_with_cause_and_next_step() {
    for (applications, why) in [
        (Some(3), "of the 3 Applications of this cluster"),
        (None, "a cluster can write its own labels"),
    ] {
        let verdict = degraded([mode_change(&BlockedMode {
            recorded: Mode::Managed,
            asked: Mode::Autonomous,
            applications,
        })]);
        assert_eq!(verdict.reason, "ModeChangeHeld");
        let annotation = "argocd-agent.open-cluster-management.io/confirm-mode=autonomous";
        for part in [annotation, why] {
            assert!(verdict.message.contains(part), "{}", verdict.message);
        }
    }
}

#[test]
fn a_conflicting_cluster_secret_is_degraded() {
    let verdict = degraded([finding(CLUSTER_SECRET_CONFLICT, "delete or rename it")]);
    let stated = (verdict.status, verdict.reason.as_str());
    assert_eq!(stated, (Status::True, "ClusterSecretConflict"));
    assert_eq!(verdict.message, "delete or rename it");
}

#[test]
fn unmirrored_objects_are_reported_with_their_cause() {
    let unmirrored = Unmirrored {
        count: 7,
        names: vec!["Application app: the hub has an Application c/app".to_owned()],
    };
    let verdict = degraded(reported(&SessionReport {
        unmirrored: Some(unmirrored),
        ..SessionReport::default()
    }));
    assert_eq!(verdict.reason, NOT_MIRRORED);
    for part in ["7 objects", "c/app", "and 6 more"] {
        assert!(verdict.message.contains(part), "{}", verdict.message);
    }
}

#[test]
fn session_that_ended_short_of_memory_is_reported_with_next_step() {
    let verdict = degraded(reported(&SessionReport {
        shed: Some(Shed { mib: 40, at: at(0) }),
        ..SessionReport::default()
    }));
    assert_eq!(verdict.reason, "HubShortOfMemory");
    for part in [
        "40 MiB",
        "reconnects after a minute",
        "resources.limits.memory",
    ] {
        assert!(verdict.message.contains(part), "{}", verdict.message);
    }
}

#[test]
fn blocked_deletion_lists_objects_and_the_confirmation() {
    let blocked = BlockedDeletion {
        names: vec![
            "Application argocd/a".to_owned(),
            "Application argocd/b".to_owned(),
        ],
        count: 30,
        mirrors: false,
        digest: "1234".to_owned(),
    };
    let verdict = degraded(reported(&SessionReport {
        blocked_deletion: Some(blocked),
        ..SessionReport::default()
    }));
    assert_eq!(
        (verdict.status, verdict.reason.as_str()),
        (Status::True, MASS_DELETE_BLOCKED)
    );
    for part in [
        "Application argocd/a, Application argocd/b, and 28 more",
        "argocd-agent.open-cluster-management.io/confirm-delete=1234",
    ] {
        assert!(verdict.message.contains(part), "{}", verdict.message);
    }
}

#[test]
fn missing_argo_cd_is_reported_with_the_next_step() {
    let verdict = |argocd| {
        let facts = ArgoCdFacts {
            argocd,
            ..ArgoCdFacts::default()
        };
        degraded(facts.finding())
    };
    let missing = verdict(Some(ArgoCd::Missing));
    let stated = (missing.status, missing.reason.as_str());
    assert_eq!(stated, (Status::True, ARGOCD_MISSING));
    assert!(missing.message.contains("install Argo CD"));
    for argocd in [None, Some(ArgoCd::Installed), Some(ArgoCd::Other)] {
        assert_eq!(verdict(argocd).status, Status::False);
    }
}

#[test]
fn a_blocked_installation_replaces_the_missing_argo_cd() {
    let missing_part = argocd_install::Need::Pattern("install Argo CD on the hub".to_owned());
    for (need, reason) in [
        (missing_part, HUB_ARGOCD_UNREADABLE),
        (argocd_install::Need::NotOurs, ARGOCD_NOT_OURS),
    ] {
        let instead = ArgoCdFacts {
            argocd: Some(ArgoCd::Missing),
            installation: Some(&need),
            ..ArgoCdFacts::default()
        };
        let stated = degraded(instead.finding());
        assert_eq!(stated.reason, reason, "the cause, not its consequence");
        assert!(
            !stated.message.contains(ARGOCD_MISSING),
            "{}",
            stated.message
        );
    }
}

#[test]
fn the_most_urgent_cause_is_the_reason_and_all_are_in_the_message() {
    let blocked = BlockedDeletion {
        names: vec!["Application argocd/a".to_owned()],
        count: 1,
        mirrors: false,
        digest: "1234".to_owned(),
    };
    let mut findings = vec![
        finding(CLUSTER_SECRET_CONFLICT, "delete or rename it"),
        mode_change(&BlockedMode {
            recorded: Mode::Managed,
            asked: Mode::Autonomous,
            applications: Some(3),
        }),
        mass_delete(&blocked),
    ];
    let verdict = degraded(findings.clone());
    assert_eq!(verdict.reason, MASS_DELETE_BLOCKED);
    for part in [
        "confirm-delete=1234",
        "also ModeChangeHeld: the cluster's label requests",
        "also ClusterSecretConflict: delete or rename it",
    ] {
        assert!(verdict.message.contains(part), "{}", verdict.message);
    }
    let missing = ArgoCdFacts {
        argocd: Some(ArgoCd::Missing),
        ..ArgoCdFacts::default()
    };
    findings.extend(missing.finding());
    findings.push(finding(CONFIGURATION_INVALID, "LOG_LEVEL"));
    let verdict = degraded(findings);
    assert_eq!(verdict.reason, "ConfigurationInvalid");
    assert!(
        verdict
            .message
            .starts_with("LOG_LEVEL; also ArgoCDMissing:")
    );
    assert!(verdict.message.contains("also MassDeleteHeld:"));
}

#[test]
fn unknown_variables_are_reported_and_alone_do_not_degrade() {
    let unknown = unknown_variables(&Unknown {
        count: 1000,
        names: vec!["ALOWED_NAMESPACES (did you mean ALLOWED_NAMESPACES?)".to_owned()],
    });
    let alone = degraded([unknown.clone()]);
    let stated = (alone.status, alone.reason.as_str());
    assert_eq!(stated, (Status::False, "ConfigurationUnknown"));
    for part in ["did you mean ALLOWED_NAMESPACES?", "and 999 more"] {
        assert!(alone.message.contains(part), "{}", alone.message);
    }
    let missing = finding(CLUSTER_PROJECT_MISSING, "upgrade the chart");
    let both = degraded([unknown, missing]);
    let stated = (both.status, both.reason.as_str());
    assert_eq!(stated, (Status::True, CLUSTER_PROJECT_MISSING));
    let also = "upgrade the chart; also ConfigurationUnknown: variables of the";
    assert!(both.message.starts_with(also), "{}", both.message);
}

#[test]
fn a_healthy_cluster_costs_no_write_for_degraded() {
    let verdict = degraded([]);
    assert!(verdict.deferrable && verdict.status == Status::False);
}

fn certificate(from: i64, to: i64) -> ShownCertificate {
    ShownCertificate {
        not_before: at(from),
        not_after: at(to),
        authority: None,
    }
}

#[test]
fn refused_objects_and_protocol_violations_are_degraded() {
    let refused = Refused {
        count: 5,
        names: vec!["Application/c/app".to_owned()],
    };
    let verdict = degraded(reported(&SessionReport {
        refused: Some(refused),
        misconduct: Some("it sends invalid messages".to_owned()),
        ..SessionReport::default()
    }));
    assert_eq!(
        (verdict.status, verdict.reason.as_str()),
        (Status::True, "AgentMisbehaves")
    );
    for stated in [
        "invalid messages",
        "ObjectsRefused",
        "Application/c/app, and 4 more",
    ] {
        assert!(verdict.message.contains(stated), "{}", verdict.message);
    }
}

#[test]
fn overdue_certificate_is_reported_with_expiry_and_next_step() {
    let shown = certificate(0, 1000);
    let verdict = |shown, hub: &Certificates, second| {
        let facts = CertificateFacts {
            cluster: "a",
            shown,
            hub,
        };
        degraded(facts.findings(at(second)))
    };
    let well = Certificates::default();
    assert_eq!(verdict(Some(&shown), &well, 840).reason, "AsExpected");
    let late = verdict(Some(&shown), &well, 860);
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
    assert_eq!(verdict(None, &hub, 0).reason, CERTIFICATE_EXPIRING);
}

#[test]
fn all_certificate_problems_are_reported() {
    let shown = certificate(0, 1000);
    let hub = Certificates {
        rotation: Some(Progress {
            stage: Stage::Introduced,
            since: at(0),
            waits_for: ["a".to_owned()].into(),
        }),
        troubles: vec!["Secret x is not ours to renew".to_owned()],
        overdue: vec!["the certificate in the Secret y ends at T".to_owned()],
    };
    let facts = CertificateFacts {
        cluster: "a",
        shown: Some(&shown),
        hub: &hub,
    };
    let project = [finding(CLUSTER_PROJECT_MISSING, "upgrade the chart")].into_iter();
    let verdict = degraded(project.chain(facts.findings(at(900))));
    assert_eq!(verdict.reason, CERTIFICATE_EXPIRING);
    for part in [
        "the agent's certificate expires",
        "the Secret y ends at T",
        "also CertificateNotInOrder: Secret x",
        "also CertificateRotationWaits: ",
        "also ClusterProjectMissing: upgrade the chart",
    ] {
        assert!(verdict.message.contains(part), "{}", verdict.message);
    }
}

#[test]
fn only_agents_that_block_a_rotation_are_reported() {
    let hub = Certificates {
        rotation: Some(Progress {
            stage: Stage::Retiring,
            since: at(0),
            waits_for: ["a".to_owned()].into(),
        }),
        ..Certificates::default()
    };
    let facts = |cluster| CertificateFacts {
        cluster,
        shown: None,
        hub: &hub,
    };
    let verdict = |cluster, second| degraded(facts(cluster).findings(at(second)));
    assert_eq!(verdict("a", 599).reason, "AsExpected");
    assert!(facts("a").recheck(at(599)).is_some());
    let waits = verdict("a", 600);
    assert_eq!(waits.reason, ROTATION_WAITS);
    assert!(
        waits.message.contains(crate::keys::REVOKED),
        "{}",
        waits.message
    );
    assert_eq!(facts("a").recheck(at(600)), None);
    assert_eq!(verdict("b", 600).reason, "AsExpected");
    assert_eq!(facts("b").recheck(at(0)), None);
}

#[test]
fn revocation_is_the_first_reason() {
    let verdict = degraded([finding(CONFIGURATION_INVALID, "x"), revoked()]);
    assert_eq!(verdict.reason, REVOKED);
    assert!(verdict.message.contains(crate::keys::REVOKED));
}

#[test]
fn writes_that_fail_for_long_are_degraded() {
    let stuck = Stuck {
        count: 3,
        example: "Application/c/app: forbidden".to_owned(),
    };
    let verdict = degraded(reported(&SessionReport {
        stuck: Some(stuck),
        ..SessionReport::default()
    }));
    assert_eq!(
        (verdict.status, verdict.reason.as_str()),
        (Status::True, "HubWritesFailing")
    );
    assert!(verdict.message.contains("Application/c/app: forbidden"));
}

#[test]
fn the_urgency_of_each_reason_is_listed_once() {
    let mut reasons = URGENCY.to_vec();
    reasons.sort_unstable();
    reasons.dedup();
    assert_eq!(reasons.len(), URGENCY.len());
}
