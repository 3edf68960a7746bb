use std::{
    future,
    sync::atomic::{AtomicUsize, Ordering},
    task::Poll,
};

use argocd::keys;
use protocol::{Kind, ObjectKey};
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::timeout};
use tonic::Status;

use super::{super::tests, *};
use crate::{
    admission::registry::End,
    settings::Limits,
    store::{Memory, Watched},
    sync::session::{pace::PAUSE, shared::Sessions},
    testing::application,
};

/// Long enough for a write in memory.
const MOMENT: Duration = Duration::from_millis(1);

/// A session of cluster `a` with Applications `busy` and `other` on a hub in memory.
struct Flooded {
    memory: Memory,
    sessions: Arc<Sessions>,
    driver: Driver,
    reads: mpsc::Receiver<Result<protocol::wire::eventstreamapi::Event, Status>>,
    stated: u32,
}

impl Flooded {
    async fn begin() -> Self {
        let memory = Memory::new();
        let store = Arc::new(memory.clone());
        let sessions = tests::sessions_on(store, Limits::default());
        let (outbound, reads) = mpsc::channel(10_000);
        for name in ["busy", "other"] {
            memory.put(
                Watched::Application,
                application("a", name, &format!("uid-{name}"), 1),
            );
        }
        let driver = tests::driver(&sessions, &[], outbound).await;
        let flooded = Self {
            memory,
            sessions,
            driver,
            reads,
            stated: 0,
        };
        flooded.watch("busy");
        flooded.watch("other");
        flooded
    }

    fn live(&self, name: &str) -> Value {
        self.memory.application("a", name).unwrap()
    }

    /// The watch reports its current state.
    fn watch(&self, name: &str) {
        let reply = crate::testing::applied(Watched::Application, self.live(name));
        self.sessions.hub.objects.report(reply);
    }

    /// The agent sends an event about its copy.
    fn notify(&mut self, verb: Verb, name: &str) {
        self.notify_with(verb, name, 0);
    }

    /// The same, with this many resources in the status.
    fn notify_with(&mut self, verb: Verb, name: &str, resources: usize) {
        self.stated += 1;
        let key = ObjectKey::new(Kind::Application, "argocd", name);
        let copy = json!({
            "metadata": {
                "namespace": "argocd", "name": name, "uid": "local",
                "annotations": { keys::SOURCE_UID: self.live(name)["metadata"]["uid"] },
            },
            "status": {
                "health": { "message": self.stated.to_string() },
                "resources": vec![json!({ "kind": "a" }); resources],
            },
        });
        let body = serde_json::to_vec(&copy).unwrap().into();
        let event = Event::about(&key, verb, "local", &self.stated.to_string(), body);
        let now = self.driver.started.elapsed();
        let frame = event.into_cloud_event("agent://agent-managed");
        self.driver.machine.receive(frame, now).unwrap();
    }

    async fn turn_for(&mut self, time: Duration) {
        let turning = async {
            loop {
                self.driver.turn().await.unwrap();
            }
        };
        drop(timeout(time, turning).await);
    }

    /// The agent sends `times` statuses of `busy`, one each 10 ms.
    async fn flood(&mut self, times: u32) {
        for _ in 0..times {
            self.notify(Verb::StatusUpdate, "busy");
            self.turn_for(10 * MOMENT).await;
        }
    }

    /// Sends a last status of `busy`, which is throttled.
    async fn send_last(&mut self) {
        self.flood(30).await;
        self.notify(Verb::StatusUpdate, "busy");
        self.turn_for(MOMENT).await;
        assert!(!self.shows("busy"), "it was written at once");
    }

    /// Whether the hub shows the last sent status, if it was of this Application.
    fn shows(&self, name: &str) -> bool {
        self.live(name)["status"]["health"]["message"].as_str() == Some(&self.stated.to_string())
    }
}

#[tokio::test(start_paused = true)]
async fn flood_is_throttled_and_last_value_is_written() {
    let mut flooded = Flooded::begin().await;
    flooded.flood(1).await;
    assert!(flooded.shows("busy"), "the first change waits");
    let idle = flooded.memory.all_writes().idle;
    flooded.flood(999).await;
    flooded.turn_for(PAUSE).await;
    assert!(flooded.shows("busy"));
    // A reserve, and ten seconds on a hub with spare writes.
    let writes = flooded.memory.writes();
    assert!((190..=222).contains(&writes), "{writes}");
    assert_eq!(flooded.memory.all_writes().idle, idle);
    let stats = flooded
        .driver
        .machine
        .stats(flooded.driver.started.elapsed());
    assert_eq!((stats.inbox_objects, stats.working), (0, 0));
    assert!(!flooded.driver.pace.is_throttling());
}

#[tokio::test(start_paused = true)]
async fn flood_on_a_hub_without_spare_writes_is_written_twice_a_second() {
    let mut flooded = Flooded::begin().await;
    let (sessions, cluster) = (Arc::clone(&flooded.sessions), crate::testing::name("a"));
    for _ in 0..1000 {
        while sessions.hub.take_spare_write(&cluster, 0, Instant::now()) {}
        flooded.flood(1).await;
    }
    let writes = flooded.memory.writes();
    assert!((20..=40).contains(&writes), "{writes}");
    flooded.turn_for(PAUSE).await;
    assert!(flooded.shows("busy"));
}

#[tokio::test(start_paused = true)]
async fn other_objects_are_not_throttled_during_a_flood() {
    let mut flooded = Flooded::begin().await;
    for _ in 0..20 {
        flooded.send_last().await;
        flooded.turn_for(PAUSE).await;
        flooded.flood(20).await;
        flooded.notify(Verb::StatusUpdate, "other");
        flooded.turn_for(MOMENT).await;
        assert!(flooded.shows("other"));
    }
}

#[tokio::test(start_paused = true)]
async fn awaited_report_is_not_throttled() {
    let mut flooded = Flooded::begin().await;
    flooded.send_last().await;
    let refresh = json!({"metadata": {"annotations": { keys::REFRESH: "normal" }}});
    flooded
        .memory
        .edit(Watched::Application, "a", "busy", refresh);
    flooded.watch("busy");
    flooded.notify(Verb::StatusUpdate, "busy");
    flooded.turn_for(MOMENT).await;
    assert!(flooded.shows("busy"));
    assert!(!flooded.driver.pace.is_throttling());
}

#[tokio::test(start_paused = true)]
async fn deletion_is_not_delayed_by_a_throttled_status() {
    let mut flooded = Flooded::begin().await;
    let finalizer = json!({"metadata": {"finalizers": [keys::RESOURCES_FINALIZER]}});
    flooded
        .memory
        .edit(Watched::Application, "a", "busy", finalizer);
    flooded.watch("busy");
    flooded.send_last().await;
    flooded.memory.delete(Watched::Application, "a", "busy");
    flooded.watch("busy");
    flooded.notify(Verb::Delete, "busy");
    flooded.turn_for(MOMENT).await;
    assert_eq!(flooded.memory.application("a", "busy"), None);
    assert!(!flooded.driver.pace.is_throttling());
}

#[tokio::test(start_paused = true)]
async fn last_value_is_written_after_a_disconnect_and_at_a_stop() {
    for stops in [false, true] {
        let mut flooded = Flooded::begin().await;
        flooded.send_last().await;
        let begun = Instant::now();
        let registry = flooded.sessions.gate.registry.clone();
        let message = flooded.stated.to_string();
        let memory = flooded.memory.clone();
        let Flooded { driver, reads, .. } = flooded;
        if stops {
            registry.end_where(|_, _, _| Some(End::Stopping));
        } else {
            drop(reads);
        }
        driver.run().await;
        let live = memory.application("a", "busy").unwrap();
        assert_eq!(live["status"]["health"]["message"], message);
        assert!(begun.elapsed() < PAUSE / 2, "it waited for its time");
    }
}

/// The next session compares everything, and must not see writes of the superseded one.
#[tokio::test(start_paused = true)]
async fn superseded_session_writes_nothing_more() {
    let mut flooded = Flooded::begin().await;
    flooded.send_last().await;
    let memory = flooded.memory.clone();
    let writes = memory.writes();
    flooded
        .sessions
        .gate
        .registry
        .end_where(|_, _, _| Some(End::Superseded));
    flooded.driver.run().await;
    assert_eq!(memory.writes(), writes);
}

/// Resources of a status that nearly has the most memory.
const MOST_RESOURCES: usize = 40_000;

#[tokio::test(start_paused = true)]
async fn large_statuses_wait_and_small_ones_do_not() {
    let mut flooded = Flooded::begin().await;
    for _ in 0..60 {
        flooded.notify_with(Verb::StatusUpdate, "busy", MOST_RESOURCES);
        flooded.turn_for(1000 * MOMENT).await;
    }
    let writes = flooded.memory.writes();
    // The reserve and a minute of its refill: 76 MiB, 32 for each.
    assert!((2..=3).contains(&writes), "{writes}");
    flooded.notify(Verb::StatusUpdate, "other");
    flooded.turn_for(MOMENT).await;
    assert!(flooded.shows("other"));
    flooded.notify_with(Verb::StatusUpdate, "busy", MOST_RESOURCES);
    flooded.turn_for(180_000 * MOMENT).await;
    assert!(
        flooded.shows("busy"),
        "the newest one is written when its turn comes"
    );
}

/// Otherwise an agent that reconnects in a loop would have them all written.
#[tokio::test(start_paused = true)]
async fn large_status_without_a_reserve_is_not_written_after_a_disconnect() {
    let mut flooded = Flooded::begin().await;
    for _ in 0..4 {
        flooded.notify_with(Verb::StatusUpdate, "busy", MOST_RESOURCES);
        flooded.turn_for(MOMENT).await;
    }
    assert!(!flooded.shows("busy"), "it was written at once");
    let Flooded {
        driver,
        reads,
        memory,
        ..
    } = flooded;
    let writes = memory.writes();
    drop(reads);
    driver.run().await;
    assert_eq!(memory.writes(), writes);
}

#[tokio::test(start_paused = true)]
async fn sums_of_large_statuses_let_other_tasks_run() {
    let mut flooded = Flooded::begin().await;
    let resources = vec![json!({ "kind": "a" }); MOST_RESOURCES];
    for name in ["busy", "other"] {
        let status = json!({ "status": { "resources": resources } });
        flooded.memory.edit(Watched::Application, "a", name, status);
        flooded.watch(name);
    }
    let others = AtomicUsize::new(0);
    let other = future::poll_fn(|_| {
        others.fetch_add(1, Ordering::Relaxed);
        Poll::<()>::Pending
    });
    let is_whole = tokio::select! {
        biased;
        is_whole = flooded.driver.sum_up() => is_whole,
        () = other => false,
    };
    assert!(is_whole);
    assert_eq!(others.load(Ordering::Relaxed), 2, "after each");
    let (driver, cluster) = (&mut flooded.driver, crate::testing::name("a"));
    assert!(driver.hub.objects.without_sums(&cluster).is_empty());
    let registry = &flooded.sessions.gate.registry;
    registry.end_where(|_, _, _| Some(End::Superseded));
    assert!(!driver.sum_up().await);
}

#[tokio::test(start_paused = true)]
async fn repeated_objects_of_an_autonomous_cluster_are_throttled() {
    let mut driver = Flooded::begin().await.driver;
    driver.from.is_autonomous = true;
    for verb in [Verb::Create, Verb::SpecUpdate] {
        let key = ObjectKey::new(Kind::Application, "argocd", format!("{verb:?}"));
        let event = Event::about(&key, verb, "local", "1", "{}".into());
        let throttle = |_: &u32| driver.throttle(&event, 0, Duration::ZERO).is_some();
        let throttled = (0..100).filter(throttle).count();
        assert!(throttled > 80, "{verb:?}: {throttled} of 100");
    }
}
