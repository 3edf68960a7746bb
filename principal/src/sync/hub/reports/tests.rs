use std::{sync::Arc, time::Duration};

use super::*;
use crate::{
    metrics::Metrics,
    settings::Settings,
    store::{Memory, Report, Watched},
    sync::hub::{Hub, Subscription},
    testing::{application, applied, fleet, name, open_project, with},
};
use argocd::keys;
use futures::FutureExt as _;
use protocol::{ObjectKey, payload::ErrorReport};
use runtime::clock::Clock;
use serde_json::json;

mod bounds;

struct Setup {
    memory: Memory,
    hub: Arc<Hub>,
    subscriber: Subscription,
}

/// A hub in memory with one Application; its changes are not watched.
fn setup(app: &Value) -> Setup {
    setup_with(&Settings::usual(([127, 0, 0, 1], 0).into()), app)
}

fn setup_with(settings: &Settings, app: &Value) -> Setup {
    let memory = Memory::new();
    memory.put(Watched::Application, app.clone());
    let store = Arc::new(memory.clone());
    let hub = Arc::new(Hub::new(
        settings,
        store,
        Clock::system(),
        Metrics::default(),
    ));
    hub.set_fleet(&fleet(&["a", "ab"]));
    hub.report(applied(Watched::AppProject, open_project("default")));
    let known = memory.application("a", "app").unwrap();
    hub.report(applied(Watched::Application, known));
    let subscriber = hub.subscribe(&name("a"));
    Setup {
        memory,
        hub,
        subscriber,
    }
}

/// The message of a contest.
const HELM: &str = "last by field manager \"helm\"";

impl Setup {
    /// The cluster reports an error of its Application.
    async fn report(&self, message: &str, contest: Option<Contest>) {
        let report = ErrorReport {
            resource_name: "app".to_owned(),
            resource_namespace: "argocd".to_owned(),
            message: message.to_owned(),
            contest,
        };
        let error = Event::error(Kind::Application, &report);
        let verdict = self.hub.reports.apply(&sender("a"), &error).await;
        assert_eq!(verdict, Verdict::Done);
    }

    /// Whether this holds for its Application.
    fn shown(&self, holds: impl FnOnce(&Entry) -> bool) -> bool {
        let state = self.hub.objects.lock();
        holds(state.index.by_uid("1").unwrap().1)
    }
}

fn sender(cluster: &str) -> Sender {
    Sender {
        cluster: name(cluster),
        names_commands: true,
        is_autonomous: false,
    }
}

fn event(verb: Verb, change: Value) -> Event {
    let copy = with(
        json!({ "metadata": {
            "namespace": "argocd", "name": "app", "uid": "local",
            "annotations": { keys::SOURCE_UID: "1" },
        } }),
        change,
    );
    let key = ObjectKey::new(Kind::Application, "argocd", "app");
    Event::about(
        &key,
        verb,
        "local",
        "1",
        serde_json::to_vec(&copy).unwrap().into(),
    )
}

fn healthy() -> Event {
    event(
        Verb::StatusUpdate,
        json!({ "status": { "health": { "status": "Healthy" } } }),
    )
}

fn hub_key() -> ObjectKey {
    ObjectKey::new(Kind::Application, "a", "app")
}

#[tokio::test]
async fn write_retries_on_the_newer_object_after_a_conflict() {
    let setup = setup(&application("a", "app", "1", 1));
    let edited = with(
        setup.memory.application("a", "app").unwrap(),
        json!({ "spec": { "source": { "path": "edited" } } }),
    );
    setup.memory.put(Watched::Application, edited);
    let theirs = setup.memory.application("a", "app").unwrap();
    let (from, event) = (sender("a"), healthy());
    let watching = async { setup.hub.report(applied(Watched::Application, theirs)) };
    let (verdict, _) = futures::join!(setup.hub.reports.apply(&from, &event), watching);
    assert_eq!(verdict, Verdict::Done);
    let now = setup.memory.application("a", "app").unwrap();
    assert_eq!(now["spec"]["source"]["path"], "edited");
    assert_eq!(now["status"]["health"]["status"], "Healthy");
    let notes = setup.subscriber.mailbox.take();
    assert!(
        notes[&hub_key()].state,
        "the edit is sent without waiting for the watch"
    );
}

/// A report that needs a JSON patch: a merge patch cannot set null.
fn with_a_null() -> Event {
    let mut event = event(Verb::StatusUpdate, json!({}));
    let mut copy: Value = serde_json::from_slice(&event.payload).unwrap();
    copy["status"] = json!({ "future": { "unset": null } });
    event.payload = serde_json::to_vec(&copy).unwrap().into();
    event
}

#[tokio::test]
async fn json_patch_is_recomputed_after_a_conflict() {
    let old = json!({ "status": { "old": "x" } });
    let setup = setup(&with(application("a", "app", "1", 1), old));
    let edited = with(
        setup.memory.application("a", "app").unwrap(),
        json!({ "status": { "old": null } }),
    );
    setup.memory.put(Watched::Application, edited);
    let theirs = setup.memory.application("a", "app").unwrap();
    let (from, event) = (sender("a"), with_a_null());
    let watching = async { setup.hub.report(applied(Watched::Application, theirs)) };
    let (verdict, _) = futures::join!(setup.hub.reports.apply(&from, &event), watching);
    assert_eq!(verdict, Verdict::Done);
    let now = setup.memory.application("a", "app").unwrap();
    assert_eq!(now["status"], json!({ "future": { "unset": null } }));
}

#[tokio::test(start_paused = true)]
async fn operations_that_will_never_fit_are_refused() {
    let old = json!({ "status": { "old": "x" } });
    let setup = setup(&with(application("a", "app", "1", 1), old));
    let edited = with(
        setup.memory.application("a", "app").unwrap(),
        json!({ "status": { "old": null } }),
    );
    setup.memory.put(Watched::Application, edited);
    let verdict = setup.hub.reports.apply(&sender("a"), &with_a_null()).await;
    assert!(matches!(verdict, Verdict::Refused(_)));
}

#[tokio::test]
async fn refresh_missing_from_a_report_is_sent_again() {
    let asked = json!({ "metadata": { "annotations": { keys::REFRESH: "hard" } } });
    let setup = setup(&with(application("a", "app", "1", 1), asked));
    setup.subscriber.mailbox.take();
    assert_eq!(
        setup.hub.reports.apply(&sender("a"), &healthy()).await,
        Verdict::Done
    );
    assert!(setup.subscriber.mailbox.take()[&hub_key()].state);
    let again = setup.hub.subscribe(&name("a"));
    assert!(
        again.mailbox.take()[&hub_key()].state,
        "a new session gets it too"
    );
}

#[tokio::test(start_paused = true)]
async fn conflicting_write_is_retried_later_while_the_watch_is_down() {
    let setup = setup(&application("a", "app", "1", 1));
    setup.memory.put(
        Watched::Application,
        setup.memory.application("a", "app").unwrap(),
    );
    let verdict = setup.hub.reports.apply(&sender("a"), &healthy()).await;
    assert_eq!(
        verdict,
        Verdict::Retry {
            after: Duration::from_secs(2)
        }
    );
    assert_eq!(setup.memory.writes(), 0);
}

#[tokio::test]
async fn write_is_retried_later_during_an_outage() {
    let setup = setup(&application("a", "app", "1", 1));
    setup.memory.set_outage(true);
    let verdict = setup.hub.reports.apply(&sender("a"), &healthy()).await;
    assert_eq!(
        verdict,
        Verdict::Retry {
            after: Duration::from_secs(2)
        }
    );
}

#[tokio::test]
async fn status_of_a_deleted_application_is_dropped() {
    let setup = setup(&application("a", "app", "1", 1));
    setup.memory.delete(Watched::Application, "a", "app");
    assert_eq!(
        setup.hub.reports.apply(&sender("a"), &healthy()).await,
        Verdict::Done
    );
    assert_eq!(setup.memory.writes(), 0);
}

#[tokio::test]
async fn write_response_after_the_deletion_restores_nothing() {
    let setup = setup(&application("a", "app", "1", 1));
    let (from, status) = (sender("a"), healthy());
    let mut applying = std::pin::pin!(setup.hub.reports.apply(&from, &status));
    while setup.memory.writes() == 0 {
        assert!(applying.as_mut().now_or_never().is_none(), "not answered");
    }
    setup.memory.delete(Watched::Application, "a", "app");
    let key = Key::from_object(&hub_key()).unwrap();
    setup.hub.report(Report::Deleted {
        kind: Watched::Application,
        key: key.clone(),
        uid: "1".to_owned(),
        is_seen: true,
    });
    assert_eq!(applying.await, Verdict::Done);
    assert!(setup.hub.objects.lock().index.application(&key).is_none());
    let note = setup.subscriber.mailbox.take()[&hub_key()].clone();
    assert_eq!((note.gone.as_deref(), note.state), (Some("1"), false));
}

#[tokio::test]
async fn only_the_cluster_that_it_goes_to_may_speak_of_it() {
    let deleting = json!({ "metadata": {
        "finalizers": [keys::RESOURCES_FINALIZER],
        "deletionTimestamp": "2026-01-02T00:00:00Z",
    } });
    let setup = setup(&with(application("a", "app", "1", 1), deleting));
    let other = sender("ab");
    let report = ErrorReport {
        resource_name: "app".to_owned(),
        resource_namespace: "a".to_owned(),
        message: "forged".to_owned(),
        contest: None,
    };
    assert!(matches!(
        setup.hub.reports.apply(&other, &healthy()).await,
        Verdict::Refused(_)
    ));
    let error = Event::error(Kind::Application, &report);
    assert!(matches!(
        setup.hub.reports.apply(&other, &error).await,
        Verdict::Refused(_)
    ));
    setup
        .hub
        .reports
        .apply(&other, &event(Verb::Delete, json!({})))
        .await;
    setup
        .hub
        .objects
        .refused_by(&other.cluster, &hub_key(), "forged");
    assert_eq!(setup.memory.writes(), 0);
    let entry = setup
        .hub
        .objects
        .lock()
        .index
        .by_uid("1")
        .unwrap()
        .1
        .clone();
    assert_eq!(entry.report, None);
}

#[tokio::test]
async fn a_copy_without_our_stamp_is_known_by_its_name() {
    let deleting = json!({ "metadata": {
        "finalizers": [keys::RESOURCES_FINALIZER],
        "deletionTimestamp": "2026-01-02T00:00:00Z",
    } });
    let setup = setup(&with(application("a", "app", "1", 1), deleting));
    let unstamped = event(Verb::Delete, json!({ "metadata": { "annotations": null } }));
    assert_eq!(
        setup.hub.reports.apply(&sender("a"), &unstamped).await,
        Verdict::Done
    );
    assert_eq!(setup.memory.application("a", "app"), None);
}

#[tokio::test]
async fn a_copy_that_went_by_itself_is_asked_for_again() {
    let setup = setup(&application("a", "app", "1", 1));
    let verdict = setup
        .hub
        .reports
        .apply(&sender("a"), &event(Verb::Delete, json!({})))
        .await;
    assert!(matches!(verdict, Verdict::Refused(_)));
    assert!(setup.subscriber.mailbox.take()[&hub_key()].state);
    assert_eq!(setup.memory.writes(), 0);
}

#[tokio::test]
async fn a_report_that_is_too_long_is_cut_and_goes_with_the_next_status() {
    let setup = setup(&application("a", "app", "1", 1));
    setup.report(&"x".repeat(1 << 20), None).await;
    assert!(setup.shown(|entry| {
        entry
            .report
            .as_ref()
            .is_some_and(|it| it.len() < 2 * LONGEST_REPORT)
    }));
    setup.hub.reports.apply(&sender("a"), &healthy()).await;
    assert!(setup.shown(|entry| entry.report.is_none()));
}

#[tokio::test]
async fn newest_error_of_an_application_is_reported_once() {
    let setup = setup(&application("a", "app", "1", 1));
    let reports =
        |text: &str| setup.shown(|entry| entry.report.as_ref().is_some_and(|it| it.contains(text)));
    setup.report("first", None).await;
    assert!(reports("first"));
    let version = setup.hub.objects.complaints(&name("a"));
    setup.report("second", None).await;
    assert!(reports("second"));
    setup
        .hub
        .objects
        .refused_by(&name("a"), &hub_key(), "third");
    assert!(reports("third"));
    let changed = setup.hub.objects.complaints(&name("a"));
    assert_ne!(changed, version);
    setup
        .hub
        .objects
        .refused_by(&name("a"), &hub_key(), "third");
    let now = setup.hub.objects.complaints(&name("a"));
    assert_eq!(now, changed, "nothing new to report");
}

#[tokio::test]
async fn a_contest_stays_until_it_is_over_or_another_session_begins() {
    let setup = setup(&application("a", "app", "1", 1));
    let contest =
        || setup.shown(|entry| entry.contest.as_ref().is_some_and(|it| it.contains("helm")));
    setup.report(HELM, Some(Contest::On)).await;
    setup.hub.reports.apply(&sender("a"), &healthy()).await;
    assert!(contest());
    setup.report(HELM, Some(Contest::Over)).await;
    assert!(setup.shown(|entry| entry.contest.is_none()));
    setup.report(HELM, Some(Contest::On)).await;
    let _next = setup.hub.subscribe(&name("a"));
    assert!(
        setup.shown(|entry| entry.contest.is_none()),
        "the agent reports it again if it still finds it"
    );
}
