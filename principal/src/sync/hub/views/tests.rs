use argocd::{Meta, global_projects::GlobalProjects};
use runtime::clock::Clock;
use serde_json::json;

use super::*;
use crate::{
    metrics::Metrics,
    settings::Settings,
    store::{Memory, Report, Watched},
    sync::hub::Hub,
    testing::{application, applied, fleet, open_project, with},
};

/// A hub before its objects are listed.
fn unread() -> Hub {
    let settings = Settings::usual(([127, 0, 0, 1], 0).into());
    let (store, clock) = (Arc::new(Memory::new()), Clock::system());
    let hub = Hub::new(&settings, store, clock, Metrics::default());
    hub.set_fleet(&fleet(&["a"]));
    hub.report(applied(Watched::AppProject, open_project("default")));
    hub
}

fn pages(hub: &Hub) -> Views {
    Views::new(Arc::clone(&hub.objects))
}

fn list(hub: &Hub) {
    for kind in Watched::ALL {
        hub.report(Report::Synced(kind));
    }
}

fn set(hub: &Hub, namespace: &str, name: &str, version: u64) {
    let uid = format!("{namespace}-{name}");
    let object = application(namespace, name, &uid, version);
    let status = json!({ "status": { "sync": { "revision": version.to_string() } } });
    hub.report(applied(Watched::Application, with(object, status)));
}

fn remove(hub: &Hub, namespace: &str, name: &str) {
    hub.report(Report::Deleted {
        kind: Watched::Application,
        key: key(namespace, name),
        uid: format!("{namespace}-{name}"),
        is_seen: true,
    });
}

fn key(namespace: &str, name: &str) -> Key {
    Key {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

fn names(objects: &[Value]) -> Vec<String> {
    let name = |object| {
        let meta = Meta::of(object);
        format!("{}/{}", meta.namespace(), meta.name())
    };
    objects.iter().map(name).collect()
}

#[test]
fn changes_are_unknown_until_the_hub_is_read() {
    let hub = unread();
    set(&hub, "a", "one", 1);
    assert_eq!(pages(&hub).changes(Cursor::default(), 10), None);
    list(&hub);
    let all = pages(&hub).changes(Cursor::default(), 10).unwrap();
    assert!(all.from_start && !all.more);
    assert_eq!(names(&all.applications), ["a/one"]);
}

#[test]
fn reader_follows_changes_and_removals() {
    let hub = unread();
    list(&hub);
    for name in ["one", "two", "three"] {
        set(&hub, "a", name, 1);
    }
    let first = pages(&hub).changes(Cursor::default(), 2).unwrap();
    assert_eq!((first.applications.len(), first.more), (2, true));
    let second = pages(&hub).changes(first.cursor, 2).unwrap();
    assert_eq!((second.applications.len(), second.more), (1, false));
    set(&hub, "a", "two", 2);
    set(&hub, "a", "one", 1);
    remove(&hub, "a", "three");
    let next = pages(&hub).changes(second.cursor, 10).unwrap();
    assert!(!next.from_start);
    assert_eq!(
        names(&next.applications),
        ["a/two"],
        "an old version is no change"
    );
    assert_eq!(next.applications[0]["status"]["sync"]["revision"], "2");
    assert_eq!(next.removed, [("a".to_owned(), "three".to_owned())]);
}

#[test]
fn restored_hub_makes_the_reader_start_over() {
    let hub = unread();
    list(&hub);
    for name in ["one", "two"] {
        set(&hub, "a", name, 5);
    }
    let before = pages(&hub).changes(Cursor::default(), 10).unwrap().cursor;
    hub.report(Report::Rewound(Watched::Application));
    assert_eq!(pages(&hub).changes(before, 10), None);
    set(&hub, "a", "one", 3);
    hub.report(Report::Deleted {
        kind: Watched::Application,
        key: key("a", "two"),
        uid: "a-two".to_owned(),
        is_seen: false,
    });
    hub.report(Report::Synced(Watched::Application));
    let after = pages(&hub).changes(before, 10).unwrap();
    assert!(after.from_start);
    assert_eq!(names(&after.applications), ["a/one"]);
    assert_eq!(after.applications[0]["metadata"]["resourceVersion"], "3");
}

#[test]
fn page_is_bounded_for_any_limit() {
    let hub = unread();
    list(&hub);
    for number in 0..=MOST_AT_ONCE {
        set(&hub, "a", &format!("app-{number}"), 1);
    }
    let page = pages(&hub).changes(Cursor::default(), usize::MAX).unwrap();
    assert_eq!((page.applications.len(), page.more), (MOST_AT_ONCE, true));
}

#[test]
fn application_is_found_by_its_name_with_its_whole_status() {
    let hub = unread();
    for namespace in ["a", "argocd", "team"] {
        set(&hub, namespace, "one", 4);
    }
    set(&hub, "a", "other", 4);
    let one = pages(&hub).application(&key("argocd", "one")).unwrap();
    assert_eq!(one["status"]["sync"]["revision"], "4");
    assert_eq!(pages(&hub).application(&key("argocd", "none")), None);
    let all = pages(&hub).namesakes("one", 10);
    assert_eq!(names(&all), ["a/one", "argocd/one", "team/one"]);
    assert_eq!(pages(&hub).namesakes("one", 2).len(), 2);
}

#[test]
fn project_has_the_lists_of_its_global_projects() {
    let hub = unread();
    let denied = json!([{ "group": "", "kind": "Secret" }]);
    let spec = json!({ "spec": { "namespaceResourceBlacklist": denied } });
    hub.report(applied(
        Watched::AppProject,
        with(open_project("guard"), spec),
    ));
    let setting = "- projectName: guard\n  labelSelector: {matchLabels: {tier: gold}}\n";
    let config = json!({ "data": { "globalProjects": setting } });
    hub.report(Report::GlobalProjects(GlobalProjects::of(&config).unwrap()));
    let gold = json!({ "metadata": { "labels": { "tier": "gold" } } });
    hub.report(applied(
        Watched::AppProject,
        with(open_project("team"), gold),
    ));
    let team = pages(&hub).project("team").unwrap();
    assert_eq!(team["spec"]["namespaceResourceBlacklist"], denied);
    assert_eq!(pages(&hub).project("unknown"), None);
}

#[test]
fn only_changes_after_the_first_list_are_deliveries() {
    let hub = unread();
    set(&hub, "a", "one", 1);
    list(&hub);
    assert!(pages(&hub).deliveries(&key("a", "one")).is_empty());
    set(&hub, "a", "one", 2);
    assert!(
        pages(&hub).deliveries(&key("a", "one")).is_empty(),
        "only the status changed"
    );
    let object = application("a", "one", "a-one", 3);
    let edit = json!({ "spec": { "source": { "path": "other" } } });
    hub.report(applied(Watched::Application, with(object, edit)));
    let versions = |namespace, name| {
        let all = pages(&hub).deliveries(&key(namespace, name)).into_iter();
        all.map(|it| it.version).collect::<Vec<String>>()
    };
    assert_eq!(versions("a", "one"), ["3"]);
    set(&hub, "elsewhere", "local", 1);
    assert!(
        versions("elsewhere", "local").is_empty(),
        "it goes to no cluster"
    );
    remove(&hub, "a", "one");
    assert!(versions("a", "one").is_empty());
}
