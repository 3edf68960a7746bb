use argocd::routing::RoutingSettings;
use protocol::ObjectKey;
use serde_json::{Value, json};

use super::*;
use crate::{
    domain::Key,
    sync::hub::index::{Effect, Index},
    testing::{application, fleet, name, open_project, packed, with},
};

const SETTING: &str = "- projectName: guard\n  labelSelector: {matchLabels: {tier: gold}}\n";

fn setting(text: &str) -> GlobalProjects {
    let config = json!({ "data": { "globalProjects": text } });
    GlobalProjects::of(&config).unwrap()
}

/// A project that no cluster gets.
fn guard(spec: &Value) -> Value {
    let open = with(open_project("guard"), json!({ "spec": null }));
    with(open, json!({ "spec": spec }))
}

/// A project that the setting selects.
fn gold(name: &str) -> Value {
    let label = json!({ "metadata": { "labels": { "tier": "gold" } } });
    with(open_project(name), label)
}

fn denying(kind: &str) -> Value {
    json!({ "clusterResourceBlacklist": [{ "group": "", "kind": kind }] })
}

/// Projects `gold`, which is selected, and `plain`, which is not, on clusters `a` and `ab`.
fn index() -> Index {
    let mut index = Index::new(RoutingSettings {
        argocd_namespace: "argocd".to_owned(),
        allowed_namespaces: vec![],
    });
    index.set_fleet(&fleet(&["a", "ab"]));
    index.set_project("gold", Some(gold("gold")));
    index.set_project("plain", Some(open_project("plain")));
    index.set_project("guard", Some(guard(&denying("Namespace"))));
    index
}

/// The projects that clusters receive (`+`) or lose (`-`).
fn sent(effects: &[Effect]) -> Vec<String> {
    let words = effects.iter().filter_map(|effect| match effect {
        Effect::State { cluster, key } if key.kind == Kind::AppProject => {
            Some(format!("+{cluster} {}", key.name))
        }
        Effect::Gone { cluster, key, .. } if key.kind == Kind::AppProject => {
            Some(format!("-{cluster} {}", key.name))
        }
        Effect::State { .. }
        | Effect::Gone { .. }
        | Effect::Command { .. }
        | Effect::Conditions(_) => None,
    });
    words.collect()
}

/// The kinds that a project denies as cluster `a` gets it.
fn denied(index: &Index, project: &str) -> Value {
    let key = ObjectKey::new(Kind::AppProject, "argocd", project);
    let compiled = index.provision(&name("a"), &key).unwrap();
    compiled["spec"]["clusterResourceBlacklist"][0]["kind"].clone()
}

#[test]
fn global_project_and_its_changes_reach_the_clusters() {
    let mut index = index();
    let effects = index.set_globals(setting(SETTING));
    assert_eq!(sent(&effects), ["+a gold", "+ab gold"]);
    assert_eq!(denied(&index, "gold"), "Namespace");
    assert_eq!(denied(&index, "plain"), Value::Null);

    let effects = index.set_project("guard", Some(guard(&denying("ClusterRole"))));
    assert_eq!(sent(&effects), ["+a gold", "+ab gold"]);
    assert_eq!(denied(&index, "gold"), "ClusterRole");

    let effects = index.set_project("plain", Some(open_project("plain")));
    assert!(sent(&effects).is_empty(), "nothing changed");
    let effects = index.set_project("plain", Some(gold("plain")));
    assert_eq!(sent(&effects), ["+a plain", "+ab plain"]);
    assert_eq!(denied(&index, "plain"), "ClusterRole");

    let effects = index.set_project("guard", None);
    let all = ["+a gold", "+a plain", "+ab gold", "+ab plain"];
    assert_eq!(sent(&effects), all);
    assert_eq!(denied(&index, "gold"), Value::Null);
    let effects = index.set_project("guard", Some(guard(&denying("ClusterRole"))));
    assert_eq!(sent(&effects), all);
    assert_eq!(sent(&index.set_globals(GlobalProjects::default())), all);
    assert_eq!(denied(&index, "gold"), Value::Null);
}

#[test]
fn objects_may_arrive_in_any_order() {
    let mut index = index();
    index.set_project("guard", None);
    index.set_project("gold", Some(open_project("gold")));
    index.set_globals(setting(SETTING));
    index.set_project("gold", Some(gold("gold")));
    assert_eq!(denied(&index, "gold"), Value::Null);
    let effects = index.set_project("guard", Some(guard(&denying("Namespace"))));
    assert_eq!(sent(&effects), ["+a gold", "+ab gold"]);
    assert_eq!(denied(&index, "gold"), "Namespace");
}

#[test]
fn same_setting_changes_nothing() {
    let mut index = index();
    index.set_globals(setting(SETTING));
    assert!(index.set_globals(setting(SETTING)).is_empty());
    let reworded =
        "# the same\n- labelSelector:\n    matchLabels:\n      tier: gold\n  projectName: guard\n";
    assert!(index.set_globals(setting(reworded)).is_empty());
    index.set_project("gold", None);
    assert!(index.set_globals(GlobalProjects::default()).is_empty());
}

#[test]
fn application_is_judged_by_its_project_with_the_global_one() {
    let mut index = index();
    let gold = json!({ "spec": { "project": "gold" } });
    let app = with(application("a", "app", "1", 1), gold);
    index.set_application(packed(app), true);
    let key = Key {
        namespace: "a".to_owned(),
        name: "app".to_owned(),
    };
    let is_delivered = |index: &Index| {
        let entry = index.application(&key).unwrap();
        entry.placement.delivered_to().is_some()
    };
    assert!(is_delivered(&index));
    index.set_globals(setting(SETTING));
    assert!(is_delivered(&index));
    let all_but_one = json!({ "destinations": [{ "name": "!a", "namespace": "*" }] });
    let effects = index.set_project("guard", Some(guard(&all_but_one)));
    assert!(!is_delivered(&index));
    assert!(effects.contains(&Effect::Conditions(key.clone())));
    assert_eq!(sent(&effects), ["-a gold", "+ab gold", "+ab guard"]);
    let effects = index.set_globals(GlobalProjects::default());
    assert!(is_delivered(&index));
    assert_eq!(sent(&effects), ["+a gold"], "the other is the same");
}
