use argocd::{global_projects::GlobalProjects, keys};
use protocol::payload::RequestUpdate;
use runtime::clock::Clock;
use serde_json::json;

use super::*;
use crate::{
    store::Memory,
    sync::hub::{Hub, Lookup},
    testing::{self, application, fleet, name, open_project, with},
};

/// A hub with Applications `one` and `two` of cluster `a`, fully listed.
fn hub() -> Arc<Hub> {
    let settings = Settings::usual(([127, 0, 0, 1], 0).into());
    let store = Arc::new(Memory::new());
    let (clock, metrics) = (Clock::system(), Metrics::default());
    let hub = Arc::new(Hub::new(&settings, store, clock, metrics));
    hub.set_fleet(&fleet(&["a", "ab"]));
    let project = open_project("default");
    hub.report(testing::applied(Watched::AppProject, project));
    for name in ["one", "two"] {
        applied(&hub, name, name);
    }
    for kind in Watched::ALL {
        hub.report(Report::Synced(kind));
    }
    hub
}

fn applied(hub: &Hub, name: &str, uid: &str) {
    let object = application("a", name, uid, 1);
    hub.report(testing::applied(Watched::Application, object));
}

fn key(name: &str) -> Key {
    Key {
        namespace: "a".to_owned(),
        name: name.to_owned(),
    }
}

fn went(hub: &Hub, name: &str, is_seen: bool) {
    hub.report(Report::Deleted {
        kind: Watched::Application,
        key: key(name),
        uid: name.to_owned(),
        is_seen,
    });
}

fn knows(hub: &Hub, name: &str) -> bool {
    hub.objects.lock().index.application(&key(name)).is_some()
}

#[test]
fn seen_deletion_is_sent_and_missing_object_is_compared() {
    let hub = hub();
    let (subscriber, other) = (hub.subscribe(&name("a")), hub.subscribe(&name("ab")));
    went(&hub, "one", false);
    went(&hub, "two", true);
    let notes = subscriber.mailbox.take();
    let gone = |name: &str| {
        let object: ObjectKey = key(name).object();
        notes.get(&object).and_then(|note| note.gone.clone())
    };
    assert_eq!((gone("one"), gone("two")), (None, Some("two".to_owned())));
    assert!(knows(&hub, "one"), "until the list is complete");
    assert!(!subscriber.mailbox.take_comparison());
    hub.report(Report::Synced(Watched::Application));
    assert!(!knows(&hub, "one"));
    assert!(subscriber.mailbox.take().is_empty());
    assert!(subscriber.mailbox.take_comparison() && !subscriber.mailbox.take_comparison());
    assert!(!other.mailbox.take_comparison(), "it has no copy");
}

/// The claim of a cluster about its copy of the Application `name` with this UID.
fn claim_of(hub: &Hub, cluster: &str, app: &str, uid: &str) -> Lookup {
    let claim = RequestUpdate {
        kind: "Application".to_owned(),
        namespace: "argocd".to_owned(),
        name: app.to_owned(),
        uid: uid.to_owned(),
        ..RequestUpdate::default()
    };
    hub.objects.claim(&name(cluster), "argocd", &claim)
}

#[test]
fn claimed_copy_of_an_undelivered_application_goes_with_it() {
    let ignored = json!({ "metadata": { "labels": { keys::IGNORE_SYNC: "true" } } });
    let refused = json!({ "spec": { "project": "nowhere" } });
    for (change, claimant, is_deleted) in [
        (&ignored, Some("a"), true),
        (&refused, Some("a"), true),
        (&ignored, Some("ab"), false),
        (&refused, None, false),
    ] {
        let hub = hub();
        let object = with(application("a", "three", "three", 1), change.clone());
        hub.report(testing::applied(Watched::Application, object));
        let subscriber = hub.subscribe(&name("a"));
        if let Some(claimant) = claimant {
            let found = claim_of(&hub, claimant, "three", "three");
            assert!(!matches!(found, Lookup::Wanted { .. }), "{found:?}");
        }
        went(&hub, "three", true);
        let notes = subscriber.mailbox.take();
        let gone = notes
            .get(&key("three").object())
            .and_then(|it| it.gone.clone());
        assert_eq!(
            gone.is_some(),
            is_deleted,
            "{change} claimed by {claimant:?}"
        );
    }
}

#[test]
fn a_deleting_application_adopts_no_copy_of_another() {
    let hub = hub();
    let found = claim_of(&hub, "a", "one", "former");
    assert!(matches!(found, Lookup::Wanted { .. }), "{found:?}");
    let deleting = json!({ "metadata": { "deletionTimestamp": "2026-02-01T00:00:00Z" } });
    let object = with(application("a", "one", "one", 2), deleting);
    hub.report(testing::applied(Watched::Application, object));
    assert_eq!(claim_of(&hub, "a", "one", "former"), Lookup::Unknown);
    let own = claim_of(&hub, "a", "one", "one");
    assert!(matches!(own, Lookup::Wanted { .. }), "{own:?}");
}

#[test]
fn recreated_object_is_not_missing_from_a_list() {
    let hub = hub();
    let subscriber = hub.subscribe(&name("a"));
    for name in ["one", "two"] {
        went(&hub, name, false);
    }
    applied(&hub, "one", "another");
    applied(&hub, "two", "two");
    hub.report(Report::Synced(Watched::Application));
    assert!(knows(&hub, "one") && knows(&hub, "two"));
    assert!(
        subscriber
            .mailbox
            .take()
            .values()
            .all(|note| note.gone.is_none())
    );
    assert!(!subscriber.mailbox.take_comparison());
}

#[test]
fn missing_project_deletes_no_copies() {
    let hub = hub();
    let subscriber = hub.subscribe(&name("a"));
    hub.report(Report::Deleted {
        kind: Watched::AppProject,
        key: Key::of(argocd::Meta::of(&open_project("default"))),
        uid: argocd::Meta::of(&open_project("default")).uid().to_owned(),
        is_seen: false,
    });
    hub.report(Report::Synced(Watched::AppProject));
    assert!(
        subscriber
            .mailbox
            .take()
            .values()
            .all(|note| note.gone.is_none())
    );
    assert!(subscriber.mailbox.take_comparison());
}

#[test]
fn lost_global_projects_delete_no_copies() {
    let hub = hub();
    let (guard, narrow) = (open_project("guard"), json!({ "destinations": [] }));
    let narrow = with(open_project("narrow"), json!({ "spec": narrow }));
    for project in [guard, narrow] {
        hub.report(testing::applied(Watched::AppProject, project));
    }
    let subscriber = hub.subscribe(&name("a"));
    let config = json!({ "data": { "globalProjects": "- projectName: guard" } });
    let globals = GlobalProjects::of(&config).unwrap();
    hub.report(Report::GlobalProjects(globals));
    let key = ObjectKey::new(Kind::AppProject, "argocd", "narrow");
    assert!(subscriber.mailbox.take()[&key].state);
    hub.report(Report::GlobalProjects(GlobalProjects::default()));
    let notes = subscriber.mailbox.take();
    assert!(notes.get(&key).is_none_or(|note| note.gone.is_none()));
    assert!(subscriber.mailbox.take_comparison());
}

#[test]
fn global_projects_without_effect_are_logged_once_they_are_certain() {
    let hub = hub();
    let config = json!({ "data": { "globalProjects": "- projectName: guard" } });
    let globals = GlobalProjects::of(&config).unwrap();
    let logged = || hub.objects.lock().ignored_globals.clone();
    hub.report(Report::Rewound(Watched::AppProject));
    hub.report(Report::GlobalProjects(globals));
    assert!(logged().is_empty(), "projects are not listed");
    hub.report(Report::Synced(Watched::AppProject));
    assert_eq!(logged(), ["there is no project \"guard\""]);
    let guard = open_project("guard");
    hub.report(testing::applied(Watched::AppProject, guard));
    assert!(logged().is_empty());
}
