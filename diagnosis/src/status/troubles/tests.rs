use super::*;
use crate::{
    status::Tally,
    testing::{behind, degraded, healthy, now, refused, standing},
};

#[test]
fn application_problem_matches_its_cluster_problem() {
    for (app, expected) in [
        (refused(), true),
        (healthy(), false),
        (degraded(), true),
        (behind(), true),
    ] {
        let standing = standing(&app);
        assert_eq!(standing.needs_a_look(now()), expected, "{app:#}");
        assert_eq!(Tally::of([&standing]).needs_a_look(now()), expected);
        let found = trouble(&app, Some("paris".to_owned()), now());
        assert_eq!(found.is_some(), expected, "{app:#}");
    }
}

#[test]
fn hub_local_applications_are_listed_for_add_on_conditions_only() {
    assert_eq!(trouble(&degraded(), None, now()), None);
    assert_eq!(trouble(&behind(), None, now()), None);
    assert!(trouble(&refused(), None, now()).is_some());
}

#[test]
fn any_finding_or_a_silent_hub_program_needs_attention() {
    assert!(!Troubles::default().is_bad());
    assert!(Troubles::new(Vec::new(), Some("no Pod runs".to_owned())).is_bad());
    let found = ["till", "shop"].map(|name| {
        let mut app = refused();
        app["metadata"]["name"] = name.into();
        trouble(&app, None, now()).unwrap()
    });
    let troubles = Troubles::new(found.into(), None);
    assert!(troubles.is_bad());
    let names = troubles.applications.iter().map(|it| it.name.as_str());
    assert!(names.eq(["shop", "till"]));
}
