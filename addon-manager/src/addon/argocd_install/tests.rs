use super::*;

const DECISIONS: [Option<Decision>; 4] = [
    None,
    Some(Decision::Installed),
    Some(Decision::InstalledWithoutDefinitions),
    Some(Decision::Found),
];
const RUNS: [Option<Runs>; 6] = [
    None,
    Some(Runs::Nothing),
    Some(Runs::Ours),
    Some(Runs::Foreign),
    Some(Runs::Elsewhere),
    Some(Runs::Other),
];
const INSTALLS: [Install; 3] = [Install::Auto, Install::Always, Install::Never];

fn missing_part() -> Missing {
    Pattern::of(&Hub::with(Vec::new(), &[])).unwrap_err()
}

/// Checks all possible questions with their verdicts.
fn all(mut check: impl FnMut(&Question<'_>, &Verdict)) {
    let missing_part = missing_part();
    for install in INSTALLS {
        for recorded in DECISIONS {
            for recalled in DECISIONS {
                for runs in RUNS {
                    for has_others_kinds in [false, true] {
                        for missing_part in [None, Some(&missing_part)] {
                            let question = Question {
                                install,
                                recorded,
                                recalled,
                                seen: Seen {
                                    runs,
                                    has_others_kinds,
                                },
                                missing_part,
                            };
                            check(&question, &decide(&question));
                        }
                    }
                }
            }
        }
    }
}

fn asked(
    install: Install,
    recorded: Option<Decision>,
    runs: Option<Runs>,
    has_others_kinds: bool,
) -> Verdict {
    decide(&Question {
        install,
        recorded,
        recalled: None,
        seen: Seen {
            runs,
            has_others_kinds,
        },
        missing_part: None,
    })
}

#[test]
fn a_recorded_decision_round_trips() {
    for decision in DECISIONS.into_iter().flatten() {
        assert_eq!(Decision::read(decision.as_str()), Some(decision));
    }
    assert_eq!(Decision::read("anything"), None);
}

#[test]
fn argo_cd_is_installed_on_an_empty_cluster_once_recorded() {
    let first = asked(Install::Auto, None, Some(Runs::Nothing), false);
    let expected = Verdict {
        decision: Some(Decision::Installed),
        records: true,
        ..Verdict::default()
    };
    assert_eq!(first, expected);
    let then = asked(Install::Auto, first.decision, Some(Runs::Nothing), false);
    assert!(then.installs_argocd && !then.records);
    // CRDs of another owner are not overwritten, unless the user sets INSTALL_ARGOCD to true.
    let beside = asked(Install::Auto, None, Some(Runs::Nothing), true);
    assert_eq!(beside.decision, Some(Decision::InstalledWithoutDefinitions));
    let ours = asked(Install::Always, None, Some(Runs::Nothing), true);
    assert_eq!(ours.decision, Some(Decision::Installed));
}

#[test]
fn argo_cd_is_installed_only_after_the_decision_is_recorded() {
    all(|question, verdict| {
        let written = question.recorded.is_some_and(Decision::installs_argocd);
        assert!(!verdict.installs_argocd || written, "{question:?}");
        assert!(!verdict.installs_argocd || !verdict.records, "{question:?}");
        if question.install == Install::Never {
            assert!(
                !verdict.installs_argocd && !verdict.records && verdict.need.is_none(),
                "{question:?}"
            );
        }
    });
}

#[test]
fn recorded_argo_cd_decision_is_stable() {
    all(|question, verdict| {
        let known = question.recorded.or(question.recalled);
        if question.install == Install::Auto && known.is_some() {
            assert_eq!(verdict.decision, known, "{question:?}");
        }
        if question.install != Install::Never
            && question.recorded.is_some_and(Decision::installs_argocd)
        {
            assert!(verdict.installs_argocd, "{question:?}");
        }
    });
}

#[test]
fn a_foreign_argo_cd_is_left_alone() {
    all(|question, verdict| {
        let foreign = question.seen.runs == Some(Runs::Foreign);
        let known = question.recorded.or(question.recalled);
        if foreign && !known.is_some_and(Decision::installs_argocd) {
            let installs_argocd = verdict.decision.is_some_and(Decision::installs_argocd);
            assert!(!installs_argocd && !verdict.installs_argocd, "{question:?}");
        }
    });
    let conflict = asked(Install::Always, None, Some(Runs::Foreign), true);
    assert_eq!(conflict.need, Some(Need::NotOurs));
    let quiet = asked(Install::Auto, None, Some(Runs::Foreign), true);
    assert_eq!((quiet.need, quiet.records), (None, false), "costs no write");
}

#[test]
fn one_that_was_found_and_goes_is_written_down_and_not_replaced() {
    let question = |install, recorded, runs| Question {
        install,
        recorded,
        recalled: Some(Decision::Found),
        seen: Seen {
            runs: Some(runs),
            has_others_kinds: false,
        },
        missing_part: None,
    };
    let gone = decide(&question(Install::Auto, None, Runs::Nothing));
    assert_eq!((gone.decision, gone.records), (Some(Decision::Found), true));
    let written = decide(&question(Install::Auto, gone.decision, Runs::Nothing));
    assert!(!written.records && !written.installs_argocd);
    // A user may ask for ours in its place.
    let asked = decide(&question(Install::Always, gone.decision, Runs::Nothing));
    assert_eq!(
        (asked.decision, asked.records),
        (Some(Decision::Installed), true)
    );
}

#[test]
fn missing_hub_argo_cd_blocks_the_install_with_a_condition() {
    all(|question, verdict| {
        if question.missing_part.is_some() && question.recorded.or(question.recalled).is_none() {
            assert!(!verdict.records && !verdict.installs_argocd, "{question:?}");
            let empty = match question.seen.runs {
                Some(Runs::Nothing | Runs::Ours) => true,
                Some(Runs::Elsewhere) => question.install == Install::Always,
                None | Some(Runs::Foreign | Runs::Other) => false,
            };
            let reported = matches!(verdict.need, Some(Need::Pattern(_)));
            assert_eq!(
                reported,
                empty && question.install != Install::Never,
                "{question:?}"
            );
        }
    });
}

#[test]
fn no_decision_before_the_agent_reports() {
    for install in INSTALLS {
        for runs in [None, Some(Runs::Other)] {
            assert_eq!(asked(install, None, runs, false), Verdict::default());
        }
    }
}

#[test]
fn own_crds_are_adopted_again_and_foreign_ones_are_not() {
    let session = |argocd, argocd_kinds_installed| SessionReport {
        argocd: Some(argocd),
        argocd_runs: Some(Runs::Nothing),
        argocd_kinds_installed,
        ..SessionReport::default()
    };
    for (session, expected) in [
        (session(ArgoCd::Missing, false), Decision::Installed),
        (session(ArgoCd::Installed, true), Decision::Installed),
        (
            session(ArgoCd::Installed, false),
            Decision::InstalledWithoutDefinitions,
        ),
    ] {
        let seen = Seen::of(Some(&session));
        let verdict = asked(Install::Auto, None, seen.runs, seen.has_others_kinds);
        assert_eq!(verdict.decision, Some(expected), "{session:?}");
        // Once a decision without CRDs is recorded, no report of the cluster changes it.
        let written = Some(Decision::InstalledWithoutDefinitions);
        let later = asked(Install::Auto, written, seen.runs, seen.has_others_kinds);
        assert_eq!((later.decision, later.installs_argocd), (written, true));
    }
}

#[test]
fn a_skipped_installation_has_a_cause() {
    all(|question, verdict| {
        let withheld = withheld(question.install, verdict, question.seen);
        let installs = verdict.decision.is_some_and(Decision::installs_argocd);
        let elsewhere = question.seen.runs == Some(Runs::Elsewhere);
        let none_here = elsewhere || question.seen.runs == Some(Runs::Nothing);
        if !none_here || verdict.installs_argocd || verdict.need.is_some() {
            assert_eq!(withheld, None, "{question:?}");
        } else if question.install == Install::Never {
            assert_eq!(withheld, Some(Skipped::Unwanted), "{question:?}");
        } else if elsewhere {
            let expected = (!installs).then_some(Skipped::Elsewhere);
            assert_eq!(withheld, expected, "{question:?}");
        } else {
            let gone = verdict.decision == Some(Decision::Found);
            assert_eq!(withheld, gone.then_some(Skipped::Gone), "{question:?}");
        }
    });
}

#[test]
fn auto_installs_no_second_argo_cd_beside_one_elsewhere() {
    all(|question, verdict| {
        let elsewhere = question.seen.runs == Some(Runs::Elsewhere);
        let known = question.recorded.or(question.recalled);
        if elsewhere
            && question.install == Install::Auto
            && !known.is_some_and(Decision::installs_argocd)
        {
            let installs = verdict.decision.is_some_and(Decision::installs_argocd);
            assert!(!installs && !verdict.installs_argocd, "{question:?}");
        }
    });
    let seen = Seen {
        runs: Some(Runs::Elsewhere),
        has_others_kinds: true,
    };
    let waiting = asked(Install::Auto, None, seen.runs, true);
    assert_eq!(waiting, Verdict::default(), "it may become Nothing");
    let cause = withheld(Install::Auto, &waiting, seen);
    assert_eq!(cause, Some(Skipped::Elsewhere));
    let gone = asked(Install::Auto, None, Some(Runs::Nothing), true);
    assert_eq!(gone.decision, Some(Decision::InstalledWithoutDefinitions));
    // The user asks for ours beside it.
    let beside = asked(Install::Always, None, seen.runs, true);
    assert_eq!(beside.decision, Some(Decision::Installed));
}

/// Renders a cluster whose decision is `Installed`, for a hub with this image.
fn rendered(image: &str, config: &AddOnDeploymentConfigSpec, session: &SessionReport) -> String {
    let server = pattern::tests::deployment("server", "argocd-server", image);
    let hub = Hub::with(vec![server], &pattern::tests::crds());
    let installation = Installer::new(
        watch::channel(hub).1,
        watch::Sender::new(Records::default()),
    );
    let cluster = ClusterName::new("spoke").unwrap();
    let request = Request {
        cluster: &cluster,
        uid: "uid",
        recorded: Some(Decision::Installed),
        place: None,
        session: Some(session),
        config,
        spoke: &objects::tests::spoke(),
        is_openshift: false,
    };
    let rendered = installation.unwrap().render(&request).unwrap();
    serde_json::to_string(&rendered.manifests).unwrap()
}

#[test]
fn image_registries_apply_to_every_version() {
    let config = AddOnDeploymentConfigSpec {
        registries: serde_json::from_value(serde_json::json!([
            { "source": "quay.io/argoproj", "mirror": "mirror.example/argo" },
            { "source": "public.ecr.aws/docker", "mirror": "mirror.example/docker" },
        ]))
        .unwrap(),
        ..AddOnDeploymentConfigSpec::default()
    };
    let calm = SessionReport::default();
    for version in ["argocd:v2.4.0", "argocd:v9.0.0-rc1", "argocd@sha256:00"] {
        let text = rendered(&format!("quay.io/argoproj/{version}"), &config, &calm);
        let mirrored = format!("mirror.example/argo/{version}");
        assert_eq!(text.matches(&mirrored).count(), 3, "{version}");
        assert!(text.contains("mirror.example/docker/library/redis"));
        assert!(!text.contains("quay.io") && !text.contains("public.ecr.aws"));
    }
}

#[test]
fn an_installed_argo_cd_is_not_moved_to_another_namespace() {
    let server = pattern::tests::deployment("server", "argocd-server", "argocd:v3");
    let hub = Hub::with(vec![server], &pattern::tests::crds());
    let (records, mut noted) = watch::channel(Records::default());
    let installation = Installer::new(watch::channel(hub).1, records).unwrap();
    let cluster = ClusterName::new("spoke").unwrap();
    let session = SessionReport {
        argocd_runs: Some(Runs::Nothing),
        ..SessionReport::default()
    };
    let config = AddOnDeploymentConfigSpec::default();
    let spoke = objects::tests::spoke();
    let elsewhere = Spoke {
        argocd_namespace: "elsewhere".to_owned(),
        ..objects::tests::spoke()
    };
    let request = |recorded, place, spoke| Request {
        cluster: &cluster,
        uid: "uid",
        recorded,
        place,
        session: Some(&session),
        config: &config,
        spoke,
        is_openshift: false,
    };
    let first = installation.render(&request(None, None, &spoke)).unwrap();
    assert!(first.manifests.is_empty());
    let record = noted.borrow_and_update()[&cluster].clone();
    let here = spoke.argocd_namespace.clone();
    assert_eq!(record.place.as_ref(), Some(&here));

    let written = Some(record.decision);
    let there = installation.render(&request(written, Some(&here), &spoke));
    assert!(!there.unwrap().manifests.is_empty());
    let moved = installation.render(&request(written, Some(&here), &elsewhere));
    let error = moved.unwrap_err().to_string();
    assert!(
        error.contains(&here) && error.contains("elsewhere"),
        "{error}"
    );
}

#[test]
fn a_false_report_does_not_change_the_rendered_argo_cd() {
    let config = AddOnDeploymentConfigSpec::default();
    let image = "quay.io/argoproj/argocd:v3";
    let calm = rendered(image, &config, &SessionReport::default());
    for runs in RUNS {
        for argocd in [None, Some(ArgoCd::Installed), Some(ArgoCd::Missing)] {
            for argocd_kinds_installed in [false, true] {
                let lie = SessionReport {
                    argocd,
                    argocd_runs: runs,
                    argocd_kinds_installed,
                    ..SessionReport::default()
                };
                assert!(rendered(image, &config, &lie) == calm, "{lie:?}");
            }
        }
    }
}
