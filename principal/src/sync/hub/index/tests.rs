use super::*;
use crate::{
    domain::Placement,
    testing::{application, fleet, name, open_project, packed, with},
};
use argocd::keys;
use serde_json::json;

fn index(clusters: &[&str]) -> Index {
    let settings = RoutingSettings {
        argocd_namespace: "argocd".to_owned(),
        allowed_namespaces: vec!["team-*".to_owned()],
    };
    let mut index = Index::new(settings);
    index.set_fleet(&fleet(clusters));
    index.set_project("default", Some(open_project("default")));
    index
}

fn key(namespace: &str, name: &str) -> Key {
    Key {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

fn state(cluster: &str, namespace: &str, name: &str) -> Effect {
    Effect::State {
        cluster: crate::testing::name(cluster),
        key: key(namespace, name).object(),
    }
}

fn command(cluster: &str, namespace: &str, name: &str) -> Effect {
    Effect::Command {
        cluster: crate::testing::name(cluster),
        key: key(namespace, name).object(),
    }
}

fn gone(cluster: &str, namespace: &str, name: &str, uid: &str) -> Effect {
    let key = key(namespace, name).object();
    Effect::Gone {
        cluster: crate::testing::name(cluster),
        key,
        uid: uid.to_owned(),
    }
}

/// The effects that clusters receive.
fn stated(effects: Vec<Effect>) -> Vec<Effect> {
    effects
        .into_iter()
        .filter(|effect| !matches!(effect, Effect::Conditions(_)))
        .collect()
}

fn set(index: &mut Index, object: Value) -> Vec<Effect> {
    stated(index.set_application(packed(object), true))
}

fn condition<'a>(index: &'a Index, namespace: &str, name: &str) -> Option<&'a str> {
    match &index.application(&key(namespace, name))?.placement {
        Placement::Routed(_, blocked) => blocked.as_ref().map(|it| it.why.condition()),
        Placement::Conflict(_) => Some(keys::CONDITION_CONFLICT),
        Placement::Local | Placement::Ignored | Placement::Mirror(_) => None,
    }
}

fn to(cluster: &str) -> Value {
    json!({ "spec": { "destination": { "name": cluster } } })
}

#[test]
fn spec_change_is_sent_and_status_change_is_not() {
    let mut index = index(&["a"]);
    let app = application("a", "app", "1", 1);
    assert_eq!(set(&mut index, app.clone()), [state("a", "a", "app")]);
    let status = json!({ "metadata": { "resourceVersion": "2" }, "status": { "sync": {} } });
    let shown = with(app, status);
    assert_eq!(set(&mut index, shown.clone()), []);
    let edit =
        json!({ "metadata": { "resourceVersion": "3" }, "spec": { "source": { "path": "x" } } });
    assert_eq!(set(&mut index, with(shown, edit)), [state("a", "a", "app")]);
}

#[test]
fn an_older_version_changes_nothing() {
    let mut index = index(&["a"]);
    let newer = with(
        application("a", "app", "1", 9),
        json!({ "spec": { "project": "x" } }),
    );
    set(&mut index, newer);
    assert_eq!(
        index.set_application(packed(application("a", "app", "1", 8)), true),
        []
    );
    assert_eq!(index.application(&key("a", "app")).unwrap().version(), "9");
}

#[test]
fn deletion_is_sent_to_the_cluster_with_a_copy() {
    let mut index = index(&["a"]);
    set(&mut index, application("a", "app", "1", 1));
    assert_eq!(index.remove_application(&key("a", "app"), "another"), []);
    let effects = stated(index.remove_application(&key("a", "app"), "1"));
    assert_eq!(effects, [gone("a", "a", "app", "1")]);
    assert!(index.by_uid("1").is_none());
}

#[test]
fn a_new_uid_under_the_same_name_deletes_nothing() {
    let mut index = index(&["a"]);
    set(&mut index, application("a", "app", "1", 1));
    assert_eq!(
        set(&mut index, application("a", "app", "2", 2)),
        [state("a", "a", "app")]
    );
    assert!(index.by_uid("1").is_none());
    assert!(index.by_uid("2").is_some());
}

#[test]
fn moved_application_is_deleted_from_its_old_cluster() {
    let mut index = index(&["a", "b"]);
    set(
        &mut index,
        with(application("argocd", "app", "1", 1), to("a")),
    );
    let moved = with(application("argocd", "app", "1", 2), to("b"));
    let expected = [gone("a", "argocd", "app", "1"), state("b", "argocd", "app")];
    assert_eq!(set(&mut index, moved), expected);
    let home = with(application("argocd", "app", "1", 3), to("in-cluster"));
    assert_eq!(set(&mut index, home), [gone("b", "argocd", "app", "1")]);
}

#[test]
fn leaving_the_fleet_and_coming_back_deletes_nothing() {
    let mut index = index(&["a"]);
    set(&mut index, application("a", "app", "1", 1));
    set(
        &mut index,
        with(application("argocd", "other", "2", 2), to("a")),
    );
    assert_eq!(stated(index.set_fleet(&fleet(&[]))), []);
    let back = stated(index.set_fleet(&fleet(&["a"])));
    let project = Effect::State {
        cluster: name("a"),
        key: ObjectKey::new(Kind::AppProject, "argocd", "default"),
    };
    assert_eq!(
        back,
        [
            project,
            state("a", "a", "app"),
            state("a", "argocd", "other")
        ]
    );
}

#[test]
fn a_server_that_is_not_known_any_more_deletes_nothing() {
    let mut index = index(&["a"]);
    let server = "https://proxy:9090?agentName=a";
    let mut known = fleet(&["a"]);
    known.clusters.get_mut("a").unwrap().server = Some(server.to_owned());
    index.set_fleet(&known);
    let by_server = json!({ "spec": { "destination": { "name": null, "server": server } } });
    let app = with(application("argocd", "app", "1", 1), by_server);
    assert_eq!(set(&mut index, app.clone()), [state("a", "argocd", "app")]);
    assert_eq!(stated(index.set_fleet(&fleet(&["a"]))), []);
    let touched = with(app, json!({ "metadata": { "resourceVersion": "2" } }));
    assert_eq!(set(&mut index, touched), []);
}

#[test]
fn an_ignored_application_is_left_alone() {
    let mut index = index(&["a"]);
    let app = application("a", "app", "1", 1);
    set(&mut index, app.clone());
    let ignored = json!({ "metadata": {
        "resourceVersion": "2", "labels": { keys::IGNORE_SYNC: "true" },
    } });
    assert_eq!(set(&mut index, with(app, ignored)), []);
    assert_eq!(
        index.application(&key("a", "app")).unwrap().placement,
        Placement::Ignored
    );
}

#[test]
fn denied_application_is_blocked_until_the_project_admits() {
    let mut index = index(&["a"]);
    let app = with(
        application("a", "app", "1", 1),
        json!({ "spec": { "project": "team" } }),
    );
    assert_eq!(set(&mut index, app), []);
    assert_eq!(
        condition(&index, "a", "app"),
        Some(keys::CONDITION_NOT_ADMITTED)
    );
    let effects = stated(index.set_project("team", Some(open_project("team"))));
    let project = ObjectKey::new(Kind::AppProject, "argocd", "team");
    let project = Effect::State {
        cluster: name("a"),
        key: project,
    };
    assert_eq!(effects, [project, state("a", "a", "app")]);
    assert_eq!(condition(&index, "a", "app"), None);

    let closed = with(
        open_project("team"),
        json!({ "spec": { "destinations": [] } }),
    );
    let effects = stated(index.set_project("team", Some(closed)));
    assert!(effects.iter().all(
        |effect| !matches!(effect, Effect::Gone { key, .. } if key.kind == Kind::Application)
    ));
    assert_eq!(
        condition(&index, "a", "app"),
        Some(keys::CONDITION_NOT_ADMITTED)
    );
}

#[test]
fn a_deletion_goes_through_although_the_project_is_gone() {
    let mut index = index(&["a"]);
    let app = application("a", "app", "1", 1);
    set(&mut index, app.clone());
    index.set_project("default", None);
    assert_eq!(
        condition(&index, "a", "app"),
        Some(keys::CONDITION_NOT_ADMITTED)
    );
    let deleting = json!({ "metadata": {
        "resourceVersion": "2", "deletionTimestamp": "2026-01-02T00:00:00Z",
    } });
    assert_eq!(
        set(&mut index, with(app, deleting)),
        [state("a", "a", "app")]
    );
}

#[test]
fn project_is_sent_to_its_destination_clusters_only() {
    let mut index = index(&["a", "ab"]);
    let project = |name: &str| {
        let change = json!({ "spec": { "destinations": [{ "name": name, "namespace": "*" }] } });
        Some(with(open_project("team"), change))
    };
    let key = ObjectKey::new(Kind::AppProject, "argocd", "team");
    let state = |cluster: &str| Effect::State {
        cluster: name(cluster),
        key: key.clone(),
    };
    assert_eq!(
        stated(index.set_project("team", project("a"))),
        [state("a")]
    );
    assert_eq!(stated(index.set_project("team", project("a"))), []);
    let gone = |cluster: &str| Effect::Gone {
        cluster: name(cluster),
        key: key.clone(),
        uid: "project-team".to_owned(),
    };
    assert_eq!(
        stated(index.set_project("team", project("ab"))),
        [gone("a"), state("ab")]
    );
    assert_eq!(stated(index.set_project("team", None)), [gone("ab")]);
}

#[test]
fn an_application_that_is_not_delivered_has_no_error_of_a_cluster() {
    let mut index = index(&["a"]);
    let app = application("a", "app", "1", 1);
    set(&mut index, app.clone());
    let reported = index.set_report(&key("a", "app"), Some("refused".to_owned()));
    assert_eq!(reported, [Effect::Conditions(key("a", "app"))]);
    let ignored = json!({ "metadata": {
        "resourceVersion": "2", "labels": { keys::IGNORE_SYNC: "true" },
    } });
    set(&mut index, with(app, ignored));
    let entry = index.application(&key("a", "app")).unwrap();
    assert_eq!(entry.report, None);
}

#[test]
fn older_application_keeps_a_contested_name() {
    let mut index = index(&["a"]);
    let older = with(application("argocd", "app", "2", 1), to("a"));
    let later = json!({ "metadata": { "creationTimestamp": "2026-01-01T00:00:01Z" } });
    let younger = with(application("a", "app", "1", 2), later);
    assert_eq!(set(&mut index, younger.clone()), [state("a", "a", "app")]);
    assert_eq!(set(&mut index, older), [state("a", "argocd", "app")]);
    assert_eq!(
        condition(&index, "a", "app"),
        Some(keys::CONDITION_NAME_CONFLICT)
    );
    assert_eq!(condition(&index, "argocd", "app"), None);
    let effects = stated(index.remove_application(&key("argocd", "app"), "2"));
    assert_eq!(
        effects,
        [gone("a", "argocd", "app", "2"), state("a", "a", "app")]
    );
    assert_eq!(condition(&index, "a", "app"), None);
}

#[test]
fn a_name_in_another_namespace_is_another_name() {
    let mut index = index(&["a"]);
    set(&mut index, application("a", "app", "1", 1));
    let other = with(application("team-x", "app", "2", 2), to("a"));
    assert_eq!(set(&mut index, other), [state("a", "team-x", "app")]);
}

#[test]
fn an_operation_that_is_introduced_is_a_command_once() {
    let mut index = index(&["a"]);
    let app = application("a", "app", "1", 1);
    set(&mut index, app.clone());
    let operation = json!({ "sync": { "revision": "x" } });
    let asked = json!({ "metadata": { "resourceVersion": "2" }, "operation": operation });
    let asked = with(app, asked);
    assert_eq!(set(&mut index, asked.clone()), [command("a", "a", "app")]);
    let entry = index.application(&key("a", "app")).unwrap();
    assert_eq!(entry.operation_version(), Some("2"));

    let shown = with(
        asked,
        json!({ "metadata": { "resourceVersion": "3" }, "status": { "sync": {} } }),
    );
    assert_eq!(set(&mut index, shown.clone()), []);
    let entry = index.application(&key("a", "app")).unwrap();
    assert_eq!(
        entry.operation_version(),
        Some("2"),
        "the introducing version stays its name"
    );

    let ended = with(
        shown,
        json!({ "metadata": { "resourceVersion": "4" }, "operation": null }),
    );
    assert_eq!(set(&mut index, ended), []);
    assert!(!index.application(&key("a", "app")).unwrap().has_command());
}

#[test]
fn operation_found_at_start_gets_its_identity_later() {
    let mut index = index(&["a"]);
    let operation = json!({ "operation": { "sync": {} } });
    let found = with(application("a", "app", "1", 7), operation);
    assert_eq!(
        stated(index.set_application(packed(found), false)),
        [state("a", "a", "app")]
    );
    let entry = index.application(&key("a", "app")).unwrap();
    assert_eq!(entry.operation_version(), None);
    index
        .application_mut(&key("a", "app"))
        .unwrap()
        .name_operation();
    let entry = index.application(&key("a", "app")).unwrap();
    assert_eq!(entry.operation_version(), Some("7"));
}

#[test]
fn refresh_is_sent_with_the_state() {
    let mut index = index(&["a"]);
    let app = application("a", "app", "1", 1);
    set(&mut index, app.clone());
    let refresh = json!({ "metadata": {
        "resourceVersion": "2", "annotations": { keys::REFRESH: "hard" },
    } });
    assert_eq!(
        set(&mut index, with(app, refresh)),
        [state("a", "a", "app")]
    );
    assert_eq!(
        index.application(&key("a", "app")).unwrap().refresh(),
        Some("1_2")
    );
}

#[test]
fn expected_objects_are_those_delivered_to_the_cluster() {
    let mut index = index(&["a", "ab"]);
    set(&mut index, application("a", "app", "1", 1));
    set(&mut index, application("ab", "app", "2", 2));
    set(
        &mut index,
        with(application("argocd", "other", "3", 3), to("ab")),
    );
    let delivered = index.delivered_to(&name("a"));
    let project = ObjectKey::new(Kind::AppProject, "argocd", "default");
    assert_eq!(delivered, [project, key("a", "app").object()]);
}
