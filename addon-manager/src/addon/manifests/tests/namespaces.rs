//! Patterns of namespaces in what is rendered.

use super::*;

fn further(mode: Mode, entries: &[&str]) -> Vec<Value> {
    render(&Spoke {
        mode,
        allowed_namespaces: entries.iter().map(|it| (*it).to_owned()).collect(),
        ..spoke()
    })
}

#[test]
fn only_patterns_give_the_agent_rights_in_all_namespaces() {
    for (mode, entries, is_everywhere) in [
        (Mode::Managed, &["team-a"][..], false),
        (Mode::Managed, &["team-a", "squad-*"], true),
        (Mode::Managed, &["/^squad-/"], true),
        (Mode::Autonomous, &["squad-*"], false),
    ] {
        let objects = further(mode, entries);
        for kind in ["ClusterRole", "ClusterRoleBinding"] {
            let found = of_the_agent(&objects, kind).len();
            assert_eq!(found, usize::from(is_everywhere), "{entries:?}");
        }
    }
}

#[test]
fn pattern_grants_applications_alone_and_makes_no_namespace() {
    let objects = further(Mode::Managed, &["team-a", "squad-*"]);
    let role = of_the_agent(&objects, "ClusterRole")[0];
    let named = of_the_agent(&objects, "Role")[1];
    assert_eq!(named["metadata"]["namespace"], "team-a");
    assert_eq!(role["rules"], named["rules"], "the same rights");
    let binding = of_the_agent(&objects, "ClusterRoleBinding")[0];
    assert_eq!(binding["subjects"][0]["name"], "argocd-agent-addon-agent");
    assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
    assert_eq!(of_the_agent(&objects, "Role").len(), 2);
    assert_eq!(of_kind(&objects, "Namespace").len(), 3);
    let deployment = objects.last().unwrap();
    assert!(deployment.to_string().contains("squad-*,team-a"));
}
