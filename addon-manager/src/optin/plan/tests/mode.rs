//! Which mode is recorded, and when it changes.

use super::*;

#[test]
fn opt_in_again_with_another_mode_reports_the_recorded_mode() {
    for (before, expected) in [
        (Mode::Managed, Some(Mode::Managed)),
        (Mode::Autonomous, None),
    ] {
        let relabelled = World {
            former: [("c".to_owned(), before)].into(),
            ..world(cluster(Some("autonomous")), None)
        };
        let steps = plan(&relabelled, &own());
        assert!(
            matches!(&steps[..], [Step { action: Action::Make { mode: Mode::Autonomous, former, .. }, .. }] if *former == expected),
            "{steps:?}"
        );
    }
}

#[test]
fn a_bad_label_is_refused_and_creates_nothing() {
    let steps = plan(&world(cluster(Some("Managed")), None), &own());
    assert!(
        matches!(
            &steps[..],
            [Step {
                action: Action::Refuse {
                    reason: "UnknownMode",
                    ..
                },
                ..
            }]
        ),
        "{steps:?}"
    );
}

#[test]
fn the_mode_is_recorded_from_label_then_configuration_then_managed() {
    let made = Addon {
        made_for_label: true,
        ..addon(None)
    };
    let labelled = world(cluster(Some("autonomous")), Some(made));
    assert_eq!(plan(&labelled, &own()), record(Mode::Autonomous));

    let config = Some(("ns".to_owned(), "adc".to_owned()));
    let configured = world(
        cluster(None),
        Some(Addon {
            config,
            ..addon(None)
        }),
    );
    let from_config = Source::Config("ns".to_owned(), "adc".to_owned());
    let steps = plan(&configured, &own());
    assert!(
        matches!(&steps[..], [Step { action: Action::Record { mode, .. }, .. }] if *mode == from_config)
    );

    assert_eq!(
        plan(&world(cluster(None), Some(addon(None))), &own()),
        record(Mode::Managed)
    );
    let too_early = Addon {
        configured: false,
        ..addon(None)
    };
    assert_eq!(plan(&world(cluster(None), Some(too_early)), &own()), []);
}

#[test]
fn recreated_add_on_names_the_former_mode() {
    let recreated = World {
        former: [("c".to_owned(), Mode::Autonomous)].into(),
        ..world(cluster(Some("managed")), Some(addon(None)))
    };
    let expected = step(Action::Record {
        mode: Source::Known(Mode::Managed),
        former: Some(Mode::Autonomous),
    });
    assert_eq!(plan(&recreated, &own()), [expected]);
}

#[test]
fn label_never_changes_the_mode_of_a_manual_add_on() {
    let stored = world(cluster(Some("autonomous")), Some(addon(Some("managed"))));
    assert_eq!(plan(&stored, &own()), []);
    assert_eq!(
        blocked_change(stored.clusters.get("c"), &stored.addons["c"]),
        Some(Mode::Autonomous)
    );

    let confirmed = Addon {
        confirmed: Some("autonomous".to_owned()),
        ..addon(Some("managed"))
    };
    let steps = plan(&world(cluster(Some("autonomous")), Some(confirmed)), &own());
    assert_eq!(steps, record(Mode::Autonomous));
}

#[test]
fn label_does_not_choose_the_first_mode_of_a_manual_add_on() {
    let mut labelled = world(cluster(Some("autonomous")), Some(addon(None)));
    assert_eq!(plan(&labelled, &own()), record(Mode::Managed));

    let unresolved = Addon {
        configured: false,
        ..addon(None)
    };
    let waiting = world(cluster(Some("autonomous")), Some(unresolved));
    assert_eq!(plan(&waiting, &own()), []);

    // As for a change, the label counts where a Placement chooses the clusters.
    labelled.install = Some(Install {
        by_placements: true,
        ..MANUAL
    });
    assert_eq!(plan(&labelled, &own()), record(Mode::Autonomous));
}

#[test]
fn label_changes_mode_if_empty_or_confirmed() {
    let made = Addon {
        made_for_label: true,
        ..addon(Some("managed"))
    };
    let change = [step(Action::Change(Mode::Autonomous))];
    let asked = world(cluster(Some("autonomous")), Some(made.clone()));
    assert_eq!(plan(&asked, &own()), change);

    let mut placed = world(cluster(Some("autonomous")), Some(addon(Some("managed"))));
    placed.install = Some(Install {
        by_placements: true,
        ..MANUAL
    });
    assert_eq!(plan(&placed, &own()), change);

    let confirmed = Addon {
        confirmed: Some("autonomous".to_owned()),
        ..made
    };
    let steps = plan(&world(cluster(Some("autonomous")), Some(confirmed)), &own());
    assert_eq!(steps, record(Mode::Autonomous));
}
