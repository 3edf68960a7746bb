use super::*;

const DECISIONS: [Option<Decision>; 4] = [
    None,
    Some(Decision::Brought),
    Some(Decision::BroughtWithoutDefinitions),
    Some(Decision::Found),
];
const RUNS: [Option<Runs>; 5] = [
    None,
    Some(Runs::Nothing),
    Some(Runs::Ours),
    Some(Runs::Foreign),
    Some(Runs::Other),
];
const INSTALLS: [Install; 3] = [Install::Auto, Install::Always, Install::Never];

fn lack() -> Lack {
    Pattern::of(&Hub::with(Vec::new(), &[])).unwrap_err()
}

/// Every question that there is, with its answer.
fn all(mut check: impl FnMut(&Question<'_>, &Verdict)) {
    let lack = lack();
    for install in INSTALLS {
        for recorded in DECISIONS {
            for recalled in DECISIONS {
                for runs in RUNS {
                    for serves in [false, true] {
                        for lack in [None, Some(&lack)] {
                            let question = Question {
                                install,
                                recorded,
                                recalled,
                                seen: Seen { runs, serves },
                                lack,
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
    serves: bool,
) -> Verdict {
    decide(&Question {
        install,
        recorded,
        recalled: None,
        seen: Seen { runs, serves },
        lack: None,
    })
}

#[test]
fn a_word_that_is_written_down_is_read_again() {
    for decision in DECISIONS.into_iter().flatten() {
        assert_eq!(Decision::read(decision.as_str()), Some(decision));
    }
    assert_eq!(Decision::read("anything"), None);
}

#[test]
fn an_empty_cluster_gets_one_once_that_is_written_down() {
    let first = asked(Install::Auto, None, Some(Runs::Nothing), false);
    let expected = Verdict {
        decision: Some(Decision::Brought),
        records: true,
        ..Verdict::default()
    };
    assert_eq!(first, expected);
    let then = asked(Install::Auto, first.decision, Some(Runs::Nothing), false);
    assert!(then.brings && !then.records);
    // Definitions of somebody else's are not written over, unless a person says that all of it is ours.
    let beside = asked(Install::Auto, None, Some(Runs::Nothing), true);
    assert_eq!(beside.decision, Some(Decision::BroughtWithoutDefinitions));
    let ours = asked(Install::Always, None, Some(Runs::Nothing), true);
    assert_eq!(ours.decision, Some(Decision::Brought));
}

#[test]
fn nothing_is_brought_that_is_not_written_down_or_not_wanted() {
    all(|question, verdict| {
        let written = question.recorded.is_some_and(Decision::brings);
        assert!(!verdict.brings || written, "{question:?}");
        assert!(!verdict.brings || !verdict.records, "{question:?}");
        if question.install == Install::Never {
            assert!(
                !verdict.brings && !verdict.records && verdict.need.is_none(),
                "{question:?}"
            );
        }
    });
}

#[test]
fn what_was_decided_stays_whatever_the_spoke_says_or_the_hub_lacks() {
    all(|question, verdict| {
        let known = question.recorded.or(question.recalled);
        if question.install == Install::Auto && known.is_some() {
            assert_eq!(verdict.decision, known, "{question:?}");
        }
        if question.install != Install::Never && question.recorded.is_some_and(Decision::brings) {
            assert!(verdict.brings, "{question:?}");
        }
    });
}

#[test]
fn an_argo_cd_of_somebody_else_is_left_alone() {
    all(|question, verdict| {
        let foreign = question.seen.runs == Some(Runs::Foreign);
        let known = question.recorded.or(question.recalled);
        if foreign && !known.is_some_and(Decision::brings) {
            let brings = verdict.decision.is_some_and(Decision::brings);
            assert!(!brings && !verdict.brings, "{question:?}");
        }
    });
    let told = asked(Install::Always, None, Some(Runs::Foreign), true);
    assert_eq!(told.need, Some(Need::NotOurs));
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
            serves: false,
        },
        lack: None,
    };
    let gone = decide(&question(Install::Auto, None, Runs::Nothing));
    assert_eq!((gone.decision, gone.records), (Some(Decision::Found), true));
    let written = decide(&question(Install::Auto, gone.decision, Runs::Nothing));
    assert!(!written.records && !written.brings);
    // A person may have ours brought in its place.
    let asked = decide(&question(Install::Always, gone.decision, Runs::Nothing));
    assert_eq!(
        (asked.decision, asked.records),
        (Some(Decision::Brought), true)
    );
}

#[test]
fn without_a_pattern_nothing_begins_and_a_person_is_told() {
    all(|question, verdict| {
        if question.lack.is_some() && question.recorded.or(question.recalled).is_none() {
            assert!(!verdict.records && !verdict.brings, "{question:?}");
            let empty = matches!(question.seen.runs, Some(Runs::Nothing | Runs::Ours));
            let told = matches!(verdict.need, Some(Need::Pattern(_)));
            assert_eq!(
                told,
                empty && question.install != Install::Never,
                "{question:?}"
            );
        }
    });
}

#[test]
fn before_the_agent_has_said_anything_nothing_is_decided() {
    for install in INSTALLS {
        for runs in [None, Some(Runs::Other)] {
            assert_eq!(asked(install, None, runs, false), Verdict::default());
        }
    }
}
