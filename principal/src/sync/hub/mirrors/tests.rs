use argocd::keys;
use futures::FutureExt as _;
use protocol::{Event, Verb, Verdict};
use runtime::clock::Clock;
use serde_json::json;

use super::*;
use crate::{
    fleet::Mode,
    metrics::Metrics,
    settings::Settings,
    store::{Memory, Report, Watched},
    sync::hub::Hub,
    testing::{application, applied, enrolment, fleet, name, open_project},
};

/// A hub in memory whose changes are not watched, with the autonomous cluster `own`.
fn setup() -> (Memory, Hub, Sender) {
    let (memory, settings) = (Memory::new(), Settings::usual(([127, 0, 0, 1], 0).into()));
    let store = Arc::new(memory.clone());
    let hub = Hub::new(&settings, store, Clock::system(), Metrics::default());
    let mut enrolled = fleet(&[]);
    let own = ("own".to_owned(), enrolment(Mode::Autonomous));
    enrolled.clusters.extend([own]);
    hub.set_fleet(&enrolled);
    let from = Sender {
        cluster: name("own"),
        names_commands: true,
        is_autonomous: true,
    };
    (memory, hub, from)
}

fn emits(path: &str) -> Event {
    let mut source = application("argocd", "app", "theirs", 1);
    source["spec"]["source"]["path"] = path.into();
    let key = ObjectKey::new(Kind::Application, "argocd", "app");
    let body = source.to_string().into();
    Event::about(&key, Verb::Create, "theirs", "1", body)
}

fn place() -> Key {
    Key {
        namespace: "own".to_owned(),
        name: "app".to_owned(),
    }
}

/// A user deletes the mirror, and the watch reports it.
fn lose(memory: &Memory, hub: &Hub) {
    let live = memory.application("own", "app").unwrap();
    let uid = Meta::of(&live).uid().to_owned();
    memory.delete(Watched::Application, "own", "app");
    hub.report(Report::Deleted {
        kind: Watched::Application,
        key: place(),
        uid,
        is_seen: true,
    });
}

/// Applies the event; the mirror is deleted between the write and its response.
async fn lost_before_the_answer(memory: &Memory, hub: &Hub, from: &Sender, event: &Event) {
    let before = memory.writes();
    let mut applying = std::pin::pin!(hub.reports.apply(from, event));
    while memory.writes() == before {
        assert!(applying.as_mut().now_or_never().is_none(), "not answered");
    }
    lose(memory, hub);
    assert_eq!(applying.await, Verdict::Done);
}

#[tokio::test]
async fn a_mirror_that_goes_before_its_create_is_answered_is_made_again() {
    let (memory, hub, from) = setup();
    lost_before_the_answer(&memory, &hub, &from, &emits("one")).await;
    assert!(hub.objects.lock().index.application(&place()).is_none());
    assert!(hub.objects.lock().mirrors.making.is_empty());
    let mirrors_to_reconcile = hub.objects.mirrors.next().await;
    assert!(hub.mirrors.settle(&mirrors_to_reconcile).await.unwrap());
    let again = memory.application("own", "app").unwrap();
    assert_eq!(
        Meta::of(&again).annotation(keys::MIRRORED_FROM),
        Some("own")
    );
}

#[tokio::test]
async fn a_mirror_that_goes_before_a_patch_is_answered_is_made_again() {
    let (memory, hub, from) = setup();
    assert_eq!(hub.reports.apply(&from, &emits("one")).await, Verdict::Done);
    lost_before_the_answer(&memory, &hub, &from, &emits("two")).await;
    assert!(hub.objects.lock().index.application(&place()).is_none());
    let mirrors_to_reconcile = hub.objects.mirrors.next().await;
    assert!(hub.mirrors.settle(&mirrors_to_reconcile).await.unwrap());
    let again = memory.application("own", "app").unwrap();
    assert_eq!(again.pointer("/spec/source/path"), Some(&json!("two")));
}

#[tokio::test]
async fn mirror_deleted_before_watch_event_is_recreated() {
    let (memory, hub, from) = setup();
    assert_eq!(hub.reports.apply(&from, &emits("one")).await, Verdict::Done);
    memory.delete(Watched::Application, "own", "app");
    hub.report(Report::Synced(Watched::AppProject));
    assert!(hub.objects.lock().index.application(&place()).is_some());
    hub.report(Report::Synced(Watched::Application));
    assert!(hub.objects.lock().index.application(&place()).is_none());
    let mirrors_to_reconcile = hub.objects.mirrors.next().await;
    assert!(hub.mirrors.settle(&mirrors_to_reconcile).await.unwrap());
    let again = memory.application("own", "app").unwrap();
    // Reported by the watch, it would now be missed in a later list without it.
    hub.report(applied(Watched::Application, again));
    assert!(hub.objects.lock().mirrors.unreported.is_empty());
    hub.report(Report::Synced(Watched::Application));
    assert!(hub.objects.lock().index.application(&place()).is_some());
}

/// The cluster replaces its object, and a user deletes the new mirror before the watch has reported it.
async fn successor_lost(is_seen: bool) {
    let (memory, hub, from) = setup();
    assert_eq!(hub.reports.apply(&from, &emits("one")).await, Verdict::Done);
    let first = memory.application("own", "app").unwrap();
    hub.report(applied(Watched::Application, first.clone()));
    memory.delete(Watched::Application, "own", "app");
    let uid = Meta::of(&first).uid();
    let key = ObjectKey::new(Kind::Application, "own", "app");
    hub.objects.lock().index.remove(&key, uid);
    assert_eq!(hub.reports.apply(&from, &emits("two")).await, Verdict::Done);
    memory.delete(Watched::Application, "own", "app");
    hub.report(Report::Deleted {
        kind: Watched::Application,
        key: place(),
        uid: uid.to_owned(),
        is_seen,
    });
    assert!(hub.objects.lock().index.application(&place()).is_some());
    hub.report(Report::Synced(Watched::Application));
    assert!(hub.objects.lock().index.application(&place()).is_none());
    let mirrors_to_reconcile = hub.objects.mirrors.next().await;
    assert!(hub.mirrors.settle(&mirrors_to_reconcile).await.unwrap());
    assert!(memory.application("own", "app").is_some());
}

#[tokio::test]
async fn lost_successor_of_a_mirror_is_noticed_by_the_list_that_misses_both() {
    successor_lost(false).await;
}

#[tokio::test]
async fn lost_successor_of_a_mirror_is_noticed() {
    successor_lost(true).await;
}

#[tokio::test]
async fn owner_of_a_name_takes_over_a_mirror_that_was_never_created() {
    let (memory, hub, _own) = setup();
    let key = ObjectKey::new(Kind::AppProject, "argocd", "own-b-c");
    let size = Size {
        text: 10,
        memory: 10,
    };
    // The create of the first cluster failed, and it retries.
    let begun = hub
        .objects
        .lock()
        .mirrors
        .begin(&key, &name("own"), "first", size);
    assert_eq!(begun, Ok(()));
    let mut enrolled = fleet(&[]);
    for cluster in ["own", "own-b"] {
        let enrolment = enrolment(Mode::Autonomous);
        enrolled.clusters.insert(cluster.to_owned(), enrolment);
    }
    hub.set_fleet(&enrolled);
    let owner = Sender {
        cluster: name("own-b"),
        names_commands: true,
        is_autonomous: true,
    };
    let mut source = open_project("c");
    source["metadata"]["uid"] = "second".into();
    let reported = ObjectKey::new(Kind::AppProject, "argocd", "c");
    let body = source.to_string().into();
    let event = Event::about(&reported, Verb::Create, "second", "1", body);
    assert_eq!(hub.reports.apply(&owner, &event).await, Verdict::Done);
    assert!(memory.project("argocd", "own-b-c").is_some());
}

#[tokio::test]
async fn a_mirror_that_the_hub_rejects_is_reported() {
    let (memory, hub, from) = setup();
    memory.reject_creation_of("app");
    let verdict = hub.reports.apply(&from, &emits("one")).await;
    assert!(matches!(verdict, Verdict::Refused(_)), "{verdict:?}");
    assert_eq!(memory.application("own", "app"), None);
    // The principal goes on: nothing is left locked.
    assert!(hub.objects.lock().index.application(&place()).is_none());
    assert!(hub.mirrors.unmirrored(&from.cluster).is_some());
}
