use runtime::trace::Notes;

use super::*;
use crate::{
    domain::Key,
    domain::{ObjectOwner, RemoteApplication},
    live::ApplicationDirectory as _,
    store::{Memory, Report, Watched},
    testing::{application, applied, fleet, name, open_project, with},
};
use argocd::keys;
use protocol::{Facet, ObjectKey, Source as _, Verb};
use serde_json::{Value, json};

fn hub() -> Arc<Hub> {
    let settings = Settings::usual(([127, 0, 0, 1], 0).into());
    let store = Arc::new(Memory::new());
    let hub = Arc::new(Hub::new(
        &settings,
        store,
        Clock::system(),
        Metrics::default(),
    ));
    hub.set_fleet(&fleet(&["a", "ab"]));
    hub.report(applied(Watched::AppProject, open_project("default")));
    assert!(hub.objects.set_principal_uid(&"us".into()));
    hub
}

fn key(namespace: &str) -> ObjectKey {
    Key {
        namespace: namespace.to_owned(),
        name: "app".to_owned(),
    }
    .object()
}

#[test]
fn subscription_lists_objects_and_reports_changes() {
    let hub = hub();
    hub.report(applied(
        Watched::Application,
        application("a", "app", "1", 1),
    ));
    let subscriber = hub.subscribe(&name("a"));
    assert!(subscriber.delivered.contains(&key("a")));
    assert!(subscriber.mailbox.take().is_empty());
    let edited = with(
        application("a", "app", "1", 2),
        json!({ "spec": { "project": "other" } }),
    );
    hub.report(applied(Watched::AppProject, open_project("other")));
    hub.report(applied(Watched::Application, edited));
    hub.report(applied(
        Watched::Application,
        application("ab", "app", "2", 3),
    ));
    let arrived = subscriber.mailbox.take();
    assert!(arrived[&key("a")].state);
    assert!(
        !arrived.contains_key(&key("ab")),
        "nothing of another cluster"
    );
}

#[test]
fn dropping_an_old_subscription_keeps_the_newer_one() {
    let hub = hub();
    let older = hub.subscribe(&name("a"));
    let newer = hub.subscribe(&name("a"));
    drop(older);
    hub.report(applied(
        Watched::Application,
        application("a", "app", "1", 1),
    ));
    assert!(newer.mailbox.take()[&key("a")].state);
}

#[test]
fn no_collector_means_no_trace_context() {
    let hub = hub();
    let subscriber = hub.subscribe(&name("a"));
    hub.report(applied(
        Watched::Application,
        application("a", "app", "1", 1),
    ));
    assert!(subscriber.mailbox.take()[&key("a")].state);
    assert!(subscriber.mailbox.traces().is_empty());
    assert_eq!(subscriber.delete(&key("a"), "1").trace(), None);
}

#[test]
fn hub_is_ready_after_all_kinds_are_listed() {
    let hub = hub();
    let reply: Vec<bool> = Watched::ALL
        .map(|kind| hub.report(Report::Synced(kind)))
        .to_vec();
    assert_eq!(reply, [false, false, false, false, false, true]);
}

#[test]
fn a_cluster_gets_the_body_of_its_own_objects_only() {
    let hub = hub();
    hub.report(applied(
        Watched::Application,
        application("a", "app", "1", 7),
    ));
    let (a, ab) = (name("a"), name("ab"));
    let stated = EventEncoder {
        objects: &hub.objects,
        cluster: &a,
        is_go: false,
        traces: &Notes::default(),
    }
    .encode(&key("a"), Facet::State, false)
    .unwrap();
    assert_eq!(
        (stated.verb, stated.event_id.as_str()),
        (Verb::Create, "app_1_7")
    );
    assert_eq!(stated.principal_uid.as_deref(), Some("us"));
    let update = EventEncoder {
        objects: &hub.objects,
        cluster: &a,
        is_go: false,
        traces: &Notes::default(),
    }
    .encode(&key("a"), Facet::State, true)
    .unwrap();
    assert_eq!(update.verb, Verb::SpecUpdate);
    let other = EventEncoder {
        objects: &hub.objects,
        cluster: &ab,
        is_go: false,
        traces: &Notes::default(),
    };
    for facet in [Facet::State, Facet::Status, Facet::Command] {
        assert_eq!(other.encode(&key("a"), facet, false), None);
    }
}

#[test]
fn a_command_is_named_by_the_version_that_introduced_it() {
    let hub = hub();
    hub.report(Report::Synced(Watched::Application));
    let app = application("a", "app", "1", 1);
    hub.report(applied(Watched::Application, app.clone()));
    let subscriber = hub.subscribe(&name("a"));
    let asked = json!({ "metadata": { "resourceVersion": "2" }, "operation": { "sync": {} } });
    hub.report(applied(
        Watched::Application,
        with(app.clone(), asked.clone()),
    ));
    assert!(subscriber.mailbox.take()[&key("a")].command);
    let touched = json!({ "metadata": { "resourceVersion": "3", "labels": { "x": "y" } } });
    hub.report(applied(
        Watched::Application,
        with(with(app, asked), touched),
    ));
    let a = name("a");
    let stated = EventEncoder {
        objects: &hub.objects,
        cluster: &a,
        is_go: false,
        traces: &Notes::default(),
    }
    .encode(&key("a"), Facet::Command, true)
    .unwrap();
    assert_eq!(
        (stated.verb, stated.event_id.as_str()),
        (Verb::SetOperation, "app_1_2_operation")
    );
    drop(subscriber);
    let again = hub.subscribe(&name("a"));
    assert!(
        again.mailbox.take()[&key("a")].command,
        "the next session gets it too"
    );
}

#[test]
fn of_a_cluster_that_is_not_enrolled_nothing_is_unknown() {
    let hub = hub();
    let claim = protocol::payload::RequestUpdate {
        kind: "Application".to_owned(),
        name: "app".to_owned(),
        uid: "uid-of-no-object".to_owned(),
        ..Default::default()
    };
    let look = |cluster: &str| hub.objects.lookup(&name(cluster), "argocd", &claim);
    assert_eq!(look("a"), Lookup::Unknown);
    assert_eq!(look("c"), Lookup::LeaveAlone);
    let synced = || hub.objects.is_authority_for(&name("a"));
    assert!(!synced());
    for kind in Watched::ALL {
        assert!(!synced(), "the {kind}s are not read");
        hub.report(Report::Synced(kind));
    }
    assert!(synced() && !hub.objects.is_authority_for(&name("c")));
}

#[test]
fn state_lookup_uses_the_name_on_the_spoke() {
    let hub = hub();
    let mut both = fleet(&["a", "ab"]);
    both.clusters.insert(
        "own".to_owned(),
        crate::testing::enrolment(crate::fleet::Mode::Autonomous),
    );
    hub.set_fleet(&both);
    let named = |name: &str| json!({ "spec": { "destination": { "name": name } } });
    let mirrored = json!({ "metadata": { "annotations": {
        keys::MIRRORED_FROM: "own", keys::SOURCE_UID: "theirs",
    } } });
    for object in [
        application("a", "app", "1", 1),
        with(application("argocd", "moved", "2", 1), named("ab")),
        // Younger than the one of its name in the cluster's namespace.
        with(
            application("argocd", "app", "3", 1),
            json!({
                "metadata": { "creationTimestamp": "2026-02-01T00:00:00Z" },
                "spec": { "destination": { "name": "a" } },
            }),
        ),
        application("argocd", "local", "4", 1),
        with(application("own", "app", "5", 1), mirrored),
    ] {
        hub.report(applied(Watched::Application, object));
    }
    let there = |cluster: &str, app: &str, uid: &str| {
        ObjectOwner::Cluster(RemoteApplication {
            cluster: name(cluster),
            namespace: None,
            name: app.to_owned(),
            uid: uid.to_owned(),
            namespace_here: if app == "moved" { "argocd" } else { cluster }.to_owned(),
            source_uid: (cluster == "own").then(|| "theirs".to_owned()),
        })
    };
    assert_eq!(hub.objects.owner(Some("a"), "app"), there("a", "app", "1"));
    assert_eq!(hub.objects.owner(None, "moved"), there("ab", "moved", "2"));
    assert_eq!(
        hub.objects.owner(Some("argocd"), "moved"),
        hub.objects.owner(None, "moved")
    );
    assert_eq!(
        hub.objects.owner(None, "app"),
        ObjectOwner::NoOne,
        "another has its name"
    );
    assert_eq!(hub.objects.owner(None, "local"), ObjectOwner::Hub);
    assert_eq!(hub.objects.owner(Some("a"), "unknown"), ObjectOwner::Hub);
    assert_eq!(
        hub.objects.owner(Some("own"), "app"),
        there("own", "app", "5")
    );
    // A cluster that left the fleet owns nothing any more.
    hub.set_fleet(&fleet(&["ab"]));
    assert_eq!(hub.objects.owner(Some("a"), "app"), ObjectOwner::Hub);
}

/// Argo CD's server would look on the hub for the objects in the tree of such an Application.
#[test]
fn in_cluster_state_needs_a_project_that_admits_the_hub() {
    let hub = hub();
    hub.set_fleet(&fleet(&["a"]));
    let server =
        json!({ "spec": { "destination": { "name": null, "server": keys::IN_CLUSTER_SERVER } } });
    let named = json!({ "spec": { "destination": { "name": "a" } } });
    for object in [
        application("a", "by-name", "1", 1),
        with(application("a", "by-server", "2", 1), server),
        with(application("a", "named", "3", 1), named),
    ] {
        hub.report(applied(Watched::Application, object));
    }
    let has_state = || {
        ["by-name", "by-server", "named"]
            .map(|name| matches!(hub.objects.owner(Some("a"), name), ObjectOwner::Cluster(_)))
    };
    assert_eq!(has_state(), [true; 3], "the project admits everything");
    let destinations = json!([{ "name": "a", "namespace": "*" }]);
    let of_the_cluster = json!({
        "metadata": { "resourceVersion": "2" },
        "spec": { "destinations": destinations },
    });
    let project = with(open_project("default"), of_the_cluster);
    hub.report(applied(Watched::AppProject, project));
    assert_eq!(has_state(), [false, false, true]);
    let gone = hub.objects.owner(Some("a"), "by-name");
    assert_eq!(
        gone,
        ObjectOwner::NoOne,
        "the hub's redis has no say either"
    );
}

/// The copy on the cluster may be another one, and Argo CD itself shows nothing of an Application that is not admitted.
#[test]
fn state_needs_a_project_that_admits_the_application() {
    let hub = hub();
    hub.set_fleet(&fleet(&["a"]));
    let named = json!({ "spec": { "destination": { "name": "a" } } });
    let deleting = json!({ "metadata": {
        "deletionTimestamp": "2026-01-02T00:00:00Z", "finalizers": ["x"],
    } });
    let kept = with(application("a", "kept", "1", 1), named.clone());
    let leaving = with(with(application("a", "leaving", "2", 1), named), deleting);
    for object in [kept, leaving] {
        hub.report(applied(Watched::Application, object));
    }
    let is_shown = || {
        ["kept", "leaving"]
            .map(|name| matches!(hub.objects.owner(Some("a"), name), ObjectOwner::Cluster(_)))
    };
    assert_eq!(is_shown(), [true, true]);
    let elsewhere = json!([{ "name": "a", "namespace": "elsewhere" }]);
    let elsewhere = json!({
        "metadata": { "resourceVersion": "2" },
        "spec": { "destinations": elsewhere },
    });
    let project = with(open_project("default"), elsewhere);
    hub.report(applied(Watched::AppProject, project));
    assert_eq!(is_shown(), [false, false]);
}

/// Reports all objects and the end of each list.
fn report_all(hub: &Hub, applications: Vec<Value>) {
    for application in applications {
        hub.report(applied(Watched::Application, application));
    }
    for kind in Watched::ALL {
        hub.report(Report::Synced(kind));
    }
}

#[test]
fn rollback_ends_sessions_and_accepts_older_versions() {
    let hub = hub();
    let wanting = |path: &str, version| {
        let spec = json!({ "spec": { "source": { "path": path } } });
        with(application("a", "app", "1", version), spec)
    };
    report_all(
        &hub,
        vec![wanting("new", 20), application("a", "later", "2", 19)],
    );
    let (subscriber, other) = (hub.subscribe(&name("a")), hub.subscribe(&name("ab")));
    subscriber.mailbox.take();

    assert!(!hub.report(Report::Rewound(Watched::Application)));
    assert!(subscriber.mailbox.is_over() && other.mailbox.is_over());
    assert!(
        !hub.objects.is_authority_for(&name("a")),
        "half a list decides nothing"
    );
    assert!(
        hub.subscribe(&name("a")).mailbox.is_over(),
        "admitted before the rollback was known"
    );
    hub.report(applied(Watched::Application, wanting("old", 10)));
    hub.report(Report::Deleted {
        kind: Watched::Application,
        key: Key {
            namespace: "a".to_owned(),
            name: "later".to_owned(),
        },
        uid: "2".to_owned(),
        is_seen: false,
    });
    assert!(hub.report(Report::Synced(Watched::Application)));
    assert!(
        subscriber.mailbox.take().is_empty(),
        "the watch saw no deletion"
    );

    let subscriber = hub.subscribe(&name("a"));
    assert!(!subscriber.mailbox.is_over());
    assert!(subscriber.delivered.contains(&key("a")));
    let state = hub.objects.lock();
    let entry = state
        .index
        .application(&Key::from_object(&key("a")).unwrap());
    let path = |entry: &index::Entry| entry.head()["spec"]["source"]["path"].clone();
    assert_eq!(entry.map(path), Some(json!("old")));
    assert_eq!(state.index.routed_to(&name("a")).count(), 1);
}

#[test]
fn a_sync_that_the_hub_has_forgotten_is_not_asked_for_a_second_time() {
    let hub = hub();
    let asking = |version| {
        let operation = json!({ "operation": { "sync": { "revision": "v1" } } });
        with(application("a", "app", "1", version), operation)
    };
    report_all(&hub, vec![application("a", "app", "1", 9)]);
    hub.report(applied(Watched::Application, asking(10)));
    let subscriber = hub.subscribe(&name("a"));
    assert!(subscriber.mailbox.take()[&key("a")].command);
    // It was taken, ran, and is over; then the hub is restored to a state with the request, under a later version.
    hub.report(applied(
        Watched::Application,
        application("a", "app", "1", 20),
    ));

    hub.report(Report::Rewound(Watched::Application));
    hub.report(applied(Watched::Application, asking(12)));
    hub.report(Report::Synced(Watched::Application));
    let subscriber = hub.subscribe(&name("a"));
    assert!(
        subscriber
            .mailbox
            .take()
            .get(&key("a"))
            .is_none_or(|note| !note.command),
        "the cluster's next report decides"
    );
}

#[test]
fn a_hub_that_knows_this_principal_under_another_identity_is_noticed() {
    let hub = hub();
    assert!(hub.objects.set_principal_uid(&"us".into()));
    assert!(!hub.objects.set_principal_uid(&"others".into()));
}
