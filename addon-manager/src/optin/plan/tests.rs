use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::{hub::Install, keys};

mod leaving;
mod mode;

const MANUAL: Install = Install {
    by_placements: false,
    by_template: false,
};

fn own() -> Own {
    Own {
        argocd_namespace: "argocd".to_owned(),
        own_namespace: "ours".to_owned(),
        ..Own::default()
    }
}

fn cluster(label: Option<&str>) -> Cluster {
    let labels = label.map(|value| (keys::MODE.to_owned(), value.to_owned()));
    Cluster {
        uid: "cluster-uid".to_owned(),
        accepted: true,
        labels: labels.into_iter().collect(),
        ..Cluster::default()
    }
}

fn addon(recorded: Option<&str>) -> Addon {
    Addon {
        uid: "uid".to_owned(),
        adopted: true,
        configured: true,
        recorded: recorded.map(str::to_owned),
        ..Addon::default()
    }
}

fn world(cluster: Cluster, addon: Option<Addon>) -> World {
    World {
        clusters: [("c".to_owned(), cluster)].into(),
        addons: addon
            .map(|addon| ("c".to_owned(), addon))
            .into_iter()
            .collect(),
        install: Some(MANUAL),
        ..World::default()
    }
}

fn step(action: Action) -> Step {
    let (cluster, uid) = ("c".to_owned(), "uid".to_owned());
    Step {
        cluster,
        uid,
        action,
    }
}

fn record(mode: Mode) -> Vec<Step> {
    vec![step(Action::Record {
        mode: Source::Known(mode),
        former: None,
    })]
}

#[test]
fn a_label_makes_the_add_on_in_its_mode() {
    for (word, mode) in [("managed", Mode::Managed), ("autonomous", Mode::Autonomous)] {
        let steps = plan(&world(cluster(Some(word)), None), &own());
        assert_eq!(
            steps,
            [Step {
                uid: "cluster-uid".to_owned(),
                ..step(Action::Make {
                    mode,
                    again: false,
                    former: None,
                })
            }]
        );
    }
}

#[test]
fn an_add_on_deleted_under_its_label_is_recreated() {
    let left = World {
        left: ["c".to_owned()].into(),
        ..world(cluster(Some("managed")), None)
    };
    let steps = plan(&left, &own());
    assert!(matches!(
        &steps[..],
        [Step {
            action: Action::Make { again: true, .. },
            ..
        }]
    ));
}

#[test]
fn without_the_label_only_our_own_add_on_is_deleted() {
    let by_hand = world(cluster(None), Some(addon(Some("managed"))));
    assert_eq!(plan(&by_hand, &own()), []);
    let made = Addon {
        made_for_label: true,
        ..addon(Some("managed"))
    };
    let steps = plan(&world(cluster(None), Some(made)), &own());
    let leave = Leave {
        since: None,
        reachable: true,
        installed: false,
    };
    assert_eq!(steps, [step(Action::Leave(leave))]);
}

#[test]
fn hub_cluster_loses_its_own_add_on() {
    let own = Own {
        cluster_uid: Some("hub-uid".to_owned()),
        ..own()
    };
    let mut hub = cluster(Some("managed"));
    hub.claims
        .insert("id.k8s.io".to_owned(), "hub-uid".to_owned());
    let made = Addon {
        made_for_label: true,
        ..addon(Some("managed"))
    };
    let steps = plan(&world(hub.clone(), Some(made)), &own);
    assert!(
        matches!(
            &steps[..],
            [
                Step {
                    action: Action::Refuse { .. },
                    ..
                },
                Step {
                    action: Action::Delete,
                    ..
                }
            ]
        ),
        "{steps:?}"
    );
    let by_hand = plan(&world(hub, Some(addon(Some("managed")))), &own);
    assert!(
        matches!(
            &by_hand[..],
            [Step {
                action: Action::Refuse { .. },
                ..
            }]
        ),
        "{by_hand:?}"
    );
}

#[test]
fn with_placements_nothing_is_made_or_deleted() {
    let made = Addon {
        made_for_label: true,
        ..addon(Some("managed"))
    };
    for mut world in [
        world(cluster(Some("managed")), None),
        world(cluster(None), Some(made)),
    ] {
        world.install = Some(Install {
            by_placements: true,
            ..MANUAL
        });
        assert_eq!(plan(&world, &own()), []);
    }
}

#[test]
fn an_add_on_of_a_template_is_left_alone() {
    let mut template = world(cluster(Some("managed")), None);
    template.install = Some(Install {
        by_template: true,
        ..MANUAL
    });
    assert_eq!(plan(&template, &own()), []);
    let single = Addon {
        by_template: true,
        made_for_label: true,
        ..addon(None)
    };
    assert_eq!(plan(&world(cluster(None), Some(single)), &own()), []);
}

#[test]
fn a_cluster_that_is_not_admitted_is_not_served() {
    let refused = Cluster {
        accepted: false,
        ..cluster(Some("managed"))
    };
    let leaving = Cluster {
        deleting: true,
        ..cluster(Some("managed"))
    };
    for cluster in [refused, leaving] {
        assert_eq!(plan(&world(cluster, None), &own()), []);
    }
}

#[test]
fn removed_annotations_are_restored_before_anything_else() {
    let missing = BTreeMap::from([(keys::REVOKED, "stolen".to_owned())]);
    let wiped = Addon {
        missing: missing.clone(),
        version: "7".to_owned(),
        confirmed: Some("autonomous".to_owned()),
        ..addon(Some("managed"))
    };
    let steps = plan(&world(cluster(Some("autonomous")), Some(wiped)), &own());
    let expected = step(Action::Restore {
        annotations: missing,
        version: "7".to_owned(),
    });
    assert_eq!(steps, [expected]);
}

#[test]
fn unidentified_cluster_is_left_alone() {
    let waiting = Addon {
        unidentified: true,
        ..addon(None)
    };
    assert_eq!(
        plan(&world(cluster(Some("managed")), Some(waiting)), &own()),
        []
    );
}

/// A user may confirm before the manager has recorded a mode, for example in a manifest of the add-on.
#[test]
fn mode_that_is_confirmed_from_the_start_is_recorded_at_once() {
    let confirmed = Addon {
        confirmed: Some("autonomous".to_owned()),
        configured: true,
        ..addon(None)
    };
    let mut world = world(cluster(Some("autonomous")), Some(confirmed));
    world.former.insert("c".to_owned(), Mode::Managed);
    let expected = Action::Record {
        mode: Source::Known(Mode::Autonomous),
        former: None,
    };
    let actions: Vec<_> = plan(&world, &own())
        .into_iter()
        .map(|it| it.action)
        .collect();
    assert_eq!(actions, [expected]);
}

/// Carries out the steps on the world as OCM, the API and we would.
fn execute(mut world: World, steps: Vec<Step>) -> World {
    for Step {
        cluster, action, ..
    } in steps
    {
        match action {
            Action::Make { mode, .. } => {
                let made = Addon {
                    made_for_label: true,
                    ..addon(Some(mode.as_str()))
                };
                world.addons.insert(cluster, made);
            }
            Action::Delete | Action::Leave(_) => {
                world.addons.remove(&cluster);
                world.left.insert(cluster);
            }
            Action::Record { mode, .. } => {
                let mode = match mode {
                    Source::Known(mode) => mode,
                    Source::Config(..) => Mode::Managed,
                };
                world.addons.get_mut(&cluster).unwrap().recorded = Some(mode.as_str().to_owned());
            }
            Action::Change(mode) => {
                world.addons.get_mut(&cluster).unwrap().recorded = Some(mode.as_str().to_owned());
            }
            Action::Stay => {
                world.addons.get_mut(&cluster).unwrap().keeping_since = None;
            }
            Action::Refuse { .. } | Action::Restore { .. } => {}
        }
    }
    world
}

fn word() -> impl Strategy<Value = Option<String>> {
    proptest::option::of(prop_oneof!["managed", "autonomous", "x"])
}

prop_compose! {
    fn any_addon()(
        deleting: bool, adopted: bool, made_for_label: bool, configured: bool, by_template: bool,
        recorded in word(), confirmed in word(),
    ) -> Addon {
        Addon {
            uid: "uid".to_owned(), deleting, adopted, recorded, made_for_label, confirmed,
            config: None, configured, by_template,
            ..Addon::default()
        }
    }
}

prop_compose! {
    fn any_world()(
        accepted: bool, deleting: bool, label in word(), by_placements: bool, by_template: bool,
        addon in proptest::option::of(any_addon()), left: bool,
    ) -> World {
        let cluster = Cluster { accepted, deleting, ..cluster(label.as_deref()) };
        let left: BTreeSet<String> = left.then(|| "c".to_owned()).into_iter().collect();
        let install = Some(Install { by_placements, by_template });
        World { install, left, ..world(cluster, addon) }
    }
}

proptest! {
    #[test]
    fn a_second_plan_is_empty_except_for_refusals(before in any_world()) {
        let after = execute(before.clone(), plan(&before, &own()));
        let again = plan(&after, &own());
        let refuses = |step: &Step| matches!(step.action, Action::Refuse { .. });
        prop_assert!(again.iter().all(refuses), "{again:?}");
    }

    #[test]
    fn add_ons_of_others_are_never_deleted(world in any_world()) {
        let is_removal = |it: &Step| matches!(it.action, Action::Delete | Action::Leave(_));
        let deletes = |steps: Vec<Step>| steps.iter().any(is_removal);
        if world.addons.values().all(|addon| !addon.made_for_label) {
            prop_assert!(!deletes(plan(&world, &own())));
        }
    }
}
