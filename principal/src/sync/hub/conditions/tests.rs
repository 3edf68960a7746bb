use super::*;
use crate::{
    domain::Sender,
    fleet::Mode,
    metrics::Metrics,
    settings::Settings,
    store::{Memory, Watched},
    sync::hub::Hub,
    testing::{application, enrolment, fleet, open_project, with},
};
use protocol::{
    Event, Kind,
    payload::{Contest, ErrorReport},
};
use tokio::sync::watch;

mod old_deletions;

struct Setup {
    memory: Memory,
    hub: Arc<Hub>,
    clock: Clock,
    token: CancellationToken,
    _active: watch::Sender<bool>,
    keeping: tokio::task::JoinHandle<()>,
}

/// A hub in memory whose objects are watched and whose conditions are kept.
fn setup(objects: Vec<Value>) -> Setup {
    let memory = Memory::new();
    memory.put(Watched::AppProject, open_project("default"));
    for object in objects {
        memory.put(Watched::Application, object);
    }
    let clock = Clock::standing_at("2026-01-01T12:00:00Z".parse().unwrap());
    let settings = Settings::usual(([127, 0, 0, 1], 0).into());
    let store = Arc::new(memory.clone());
    let hub = Arc::new(Hub::new(
        &settings,
        store,
        clock.clone(),
        Metrics::default(),
    ));
    hub.set_fleet(&fleet(&["a"]));
    let token = CancellationToken::new();
    let (active, active_now) = watch::channel(true);
    let (ready, ready_now) = watch::channel(false);
    let reporter = {
        let hub = Arc::clone(&hub);
        Arc::new(move |report| {
            ready.send_replace(hub.report(report));
        })
    };
    let watching = hub.writer.store.watch(reporter, token.clone());
    let serving = Serving {
        active: active_now,
        ready: ready_now,
    };
    let keeping = {
        let (hub, token) = (Arc::clone(&hub), token.clone());
        async move { hub.conditions.keep(serving, token).await }
    };
    let both = async move {
        futures::join!(watching, keeping);
    };
    #[expect(
        clippy::disallowed_methods,
        reason = "the test holds the handle and waits for its end"
    )]
    let keeping = tokio::spawn(both);
    Setup {
        memory,
        hub,
        clock,
        token,
        _active: active,
        keeping,
    }
}

fn conditions(memory: &Memory, namespace: &str, name: &str) -> Vec<(String, String)> {
    let application = memory.application(namespace, name).unwrap_or_default();
    let list = application
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .map(|c| {
            (
                c["type"].as_str().unwrap().to_owned(),
                c["message"].as_str().unwrap().to_owned(),
            )
        })
        .collect()
}

fn kinds(memory: &Memory, namespace: &str, name: &str) -> Vec<String> {
    conditions(memory, namespace, name)
        .into_iter()
        .map(|(kind, _)| kind)
        .collect()
}

impl Setup {
    async fn until(&self, what: &str, fits: impl Fn(&Memory) -> bool) {
        let waiting = self.memory.wait_for(fits);
        assert!(
            tokio::time::timeout(Duration::from_mins(1), waiting)
                .await
                .is_ok(),
            "{what}"
        );
    }

    async fn stop(self) {
        self.token.cancel();
        self.keeping.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn conflict_condition_is_set_and_cleared() {
    let theirs = json!({ "type": "SyncError", "message": "from the spoke" });
    let elsewhere = json!({
        "spec": { "destination": { "name": "b" } },
        "status": { "conditions": [theirs] },
    });
    let app = with(application("a", "app", "1", 1), elsewhere);
    let setup = setup(vec![app.clone()]);
    setup
        .until("condition set", |memory| {
            kinds(memory, "a", "app") == ["SyncError", keys::CONDITION_CONFLICT]
        })
        .await;
    let reply = setup.memory.application("a", "app").unwrap();
    assert_eq!(
        reply["status"]["conditions"][1]["lastTransitionTime"],
        "2026-01-01T12:00:00Z"
    );
    let mended = with(reply, json!({ "spec": { "destination": { "name": "a" } } }));
    setup.memory.put(Watched::Application, mended);
    setup
        .until("condition cleared", |memory| {
            kinds(memory, "a", "app") == ["SyncError"]
        })
        .await;
    setup.stop().await;
}

#[tokio::test(start_paused = true)]
async fn unchanged_conditions_are_not_written() {
    let elsewhere = json!({ "spec": { "destination": { "name": "b" } } });
    let bad = with(application("a", "bad", "2", 1), elsewhere);
    let setup = setup(vec![application("a", "good", "1", 1), bad]);
    setup
        .until("condition set", |memory| {
            kinds(memory, "a", "bad") == [keys::CONDITION_CONFLICT]
        })
        .await;
    setup.clock.set("2026-01-01T13:00:00Z".parse().unwrap());
    let touched = with(
        setup.memory.application("a", "bad").unwrap(),
        json!({ "metadata": { "labels": { "touched": "yes" } } }),
    );
    setup.memory.put(Watched::Application, touched);
    // A third object, whose condition shows that the change before it was processed.
    let third = with(
        application("a", "third", "3", 1),
        json!({ "spec": { "project": "none" } }),
    );
    setup.memory.put(Watched::Application, third);
    setup
        .until("condition set", |memory| {
            kinds(memory, "a", "third") == [keys::CONDITION_NOT_ADMITTED]
        })
        .await;
    assert_eq!(setup.memory.writes(), 2);
    setup.stop().await;
}

#[tokio::test(start_paused = true)]
async fn deletion_has_a_condition_until_its_cluster_connects() {
    let deleting = json!({ "metadata": {
        "finalizers": [keys::RESOURCES_FINALIZER],
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    } });
    let setup = setup(vec![with(application("a", "app", "1", 1), deleting)]);
    setup
        .until("condition set", |memory| {
            kinds(memory, "a", "app") == [DISCONNECTED]
        })
        .await;
    let there = setup.hub.subscribe(&crate::testing::name("a"));
    setup
        .until("condition cleared", |memory| {
            kinds(memory, "a", "app").is_empty()
        })
        .await;
    drop(there);
    setup
        .until("condition set again", |memory| {
            kinds(memory, "a", "app") == [DISCONNECTED]
        })
        .await;
    setup.stop().await;
}

#[tokio::test(start_paused = true)]
async fn deletion_that_no_cluster_can_complete_is_released() {
    let deleting = json!({
        "metadata": {
            "finalizers": [keys::RESOURCES_FINALIZER],
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": { "destination": { "name": "b" } },
    });
    let setup = setup(vec![with(application("a", "app", "1", 1), deleting)]);
    setup
        .until("gone", |memory| memory.application("a", "app").is_none())
        .await;
    setup.stop().await;
}

#[tokio::test(start_paused = true)]
async fn autonomous_deletion_is_finished_on_the_hub() {
    let deleting = |name: &str, destination: Value| {
        let change = json!({
            "metadata": {
                "finalizers": [keys::RESOURCES_FINALIZER],
                "deletionTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": { "destination": destination },
        });
        with(application("argocd", name, name, 1), change)
    };
    let apart = json!({ "name": "a", "server": "https://elsewhere" });
    let setup = setup(vec![
        deleting("apart", apart),
        deleting("local", json!({ "name": "in-cluster" })),
    ]);
    let mut fleet = fleet(&["a"]);
    let own = enrolment(Mode::Autonomous);
    fleet.clusters.insert("own".to_owned(), own);
    setup.hub.set_fleet(&fleet);
    let owned = deleting("owned", json!({ "name": "own" }));
    setup.memory.put(Watched::Application, owned);
    setup
        .until("gone, and condition set", |memory| {
            memory.application("argocd", "owned").is_none()
                && kinds(memory, "argocd", "apart") == [keys::CONDITION_CONFLICT]
        })
        .await;
    assert!(setup.memory.application("argocd", "local").is_some());
    setup.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_hub_delays_conditions_and_loses_none() {
    let elsewhere = json!({ "spec": { "destination": { "name": "b" } } });
    let setup = setup(vec![]);
    setup.memory.set_outage(true);
    setup.memory.put(
        Watched::Application,
        with(application("a", "app", "1", 1), elsewhere),
    );
    tokio::task::yield_now().await;
    setup.memory.set_outage(false);
    setup
        .until("condition set", |memory| {
            kinds(memory, "a", "app") == [keys::CONDITION_CONFLICT]
        })
        .await;
    setup.stop().await;
}

#[tokio::test(start_paused = true)]
async fn failing_condition_writes_delay_no_other_application() {
    let elsewhere = json!({ "spec": { "destination": { "name": "b" } } });
    let setup = setup(vec![with(
        application("a", "bad", "1", 1),
        elsewhere.clone(),
    )]);
    setup.memory.fail_patches_of("bad");
    // By now its back-off is long.
    tokio::time::sleep(Duration::from_mins(5)).await;
    for name in ["one", "two", "three"] {
        let begun = Instant::now();
        let app = with(application("a", name, name, 1), elsewhere.clone());
        setup.memory.put(Watched::Application, app);
        setup
            .until("condition set", |memory| {
                kinds(memory, "a", name) == [keys::CONDITION_CONFLICT]
            })
            .await;
        assert!(begun.elapsed() < Duration::from_secs(1), "{name}");
    }
    setup.stop().await;
}

fn asks_for_refresh(memory: &Memory) -> bool {
    let application = memory.application("a", "app").unwrap_or_default();
    wants_refresh(&application)
}

#[tokio::test(start_paused = true)]
async fn a_refresh_that_no_cluster_will_do_is_answered_at_once() {
    let asked = json!({ "metadata": { "annotations": { keys::REFRESH: "normal" } } });
    let setup = setup(vec![with(application("a", "app", "1", 1), asked.clone())]);
    setup
        .until("answered", |memory| {
            !asks_for_refresh(memory) && kinds(memory, "a", "app") == [DISCONNECTED]
        })
        .await;
    assert_eq!(setup.memory.writes(), 1);
    let there = setup.hub.subscribe(&crate::testing::name("a"));
    setup
        .until("condition cleared", |memory| {
            kinds(memory, "a", "app").is_empty()
        })
        .await;
    let again = with(setup.memory.application("a", "app").unwrap(), asked.clone());
    setup.memory.put(Watched::Application, again);
    // Another object, whose condition shows that the change before it was processed.
    let retained = json!({ "spec": { "project": "none" } });
    let retained = with(with(application("a", "held", "2", 1), retained), asked);
    setup.memory.put(Watched::Application, retained);
    setup
        .until("condition set", |memory| {
            kinds(memory, "a", "held") == [keys::CONDITION_NOT_ADMITTED]
        })
        .await;
    let retained = setup.memory.application("a", "held").unwrap();
    assert!(
        !wants_refresh(&retained),
        "no cluster refreshes an Application that is not delivered"
    );
    assert!(
        asks_for_refresh(&setup.memory),
        "the cluster is connected and will do it"
    );
    drop(there);
    // A restarted agent is back by then, and does it.
    tokio::time::sleep(GRACE / 2).await;
    assert!(
        asks_for_refresh(&setup.memory),
        "the session ended a moment ago"
    );
    setup
        .until("answered again", |memory| !asks_for_refresh(memory))
        .await;
    setup.stop().await;
}

/// The agent of a cluster reports a contest of an Application.
async fn report_contest(setup: &Setup, cluster: &str, name: &str, contest: Contest) {
    let report = ErrorReport {
        resource_name: name.to_owned(),
        resource_namespace: cluster.to_owned(),
        message: "last by field manager \"helm\"".to_owned(),
        contest: Some(contest),
    };
    let from = Sender {
        cluster: crate::testing::name(cluster),
        names_commands: true,
        is_autonomous: false,
    };
    let error = Event::error(Kind::Application, &report);
    setup.hub.reports.apply(&from, &error).await;
}

/// The agent of cluster `a` reports a contest so many times, and each time its end.
async fn alternate(setup: &Setup, name: &str, times: u32, pause: Duration) {
    for _ in 0..times {
        for contest in [Contest::On, Contest::Over] {
            report_contest(setup, "a", name, contest).await;
            tokio::time::sleep(pause).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn alternating_reports_are_written_at_a_bounded_rate() {
    let setup = setup(vec![application("a", "app", "1", 1)]);
    tokio::time::sleep(Duration::from_secs(20)).await;
    let before = setup.memory.writes();
    alternate(&setup, "app", 500, Duration::from_millis(10)).await;
    let written = setup.memory.writes() - before;
    assert!((10..=32).contains(&written), "{written}");
    report_contest(&setup, "a", "app", Contest::On).await;
    setup
        .until("the last value is written", |memory| {
            kinds(memory, "a", "app") == [keys::CONDITION_CONTESTED]
        })
        .await;
    setup.stop().await;
}

/// Each write makes the hub's API decode the whole object again.
#[tokio::test(start_paused = true)]
async fn conditions_of_a_large_application_are_paced_by_its_size() {
    let mut large = application("a", "large", "1", 1);
    large["status"]["resources"] = vec![json!({ "kind": "a" }); 40_000].into();
    let setup = setup(vec![large, application("a", "small", "2", 1)]);
    tokio::time::sleep(Duration::from_secs(20)).await;
    let before = setup.memory.writes();
    alternate(&setup, "large", 30, Duration::from_secs(1)).await;
    // The reserve and a minute of its refill: 76 MiB, 30 for each.
    let written = setup.memory.writes() - before;
    assert!((2..=4).contains(&written), "{written}");
    report_contest(&setup, "a", "small", Contest::On).await;
    let before = Instant::now();
    let shows = |memory: &Memory| kinds(memory, "a", "small") == [keys::CONDITION_CONTESTED];
    setup.until("small ones do not wait", shows).await;
    assert!(before.elapsed() < Duration::from_secs(1));
    setup.stop().await;
}

#[tokio::test(start_paused = true)]
async fn many_conditions_of_one_cluster_do_not_delay_another() {
    let names: Vec<String> = (0..100).map(|number| format!("app-{number}")).collect();
    let mut objects: Vec<Value> = names
        .iter()
        .map(|name| application("a", name, name, 1))
        .collect();
    objects.push(application("ab", "app", "other", 1));
    let setup = setup(objects);
    setup.hub.set_fleet(&fleet(&["a", "ab"]));
    tokio::time::sleep(Duration::from_secs(20)).await;
    let before = setup.memory.writes();
    for name in &names {
        report_contest(&setup, "a", name, Contest::On).await;
    }
    report_contest(&setup, "ab", "app", Contest::On).await;
    while kinds(&setup.memory, "ab", "app").is_empty() {
        tokio::task::yield_now().await;
    }
    let written = setup.memory.writes() - before;
    assert!(written <= 3, "{written}");
    setup.stop().await;
}
