use std::{
    convert::Infallible,
    sync::atomic::{AtomicUsize, Ordering},
    task::Poll,
};

use argocd::keys;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures::{StreamExt as _, future, stream};
use http_body_util::StreamBody;
use hyper::body::Frame as Chunk;
use live::events::{self, Observed};
use prost::Message as _;
use protocol::{Event, Kind, ObjectKey, Target, Verb};
use runtime::{clock::Clock, parts::Parts};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::codec::Codec as _;

use super::*;
use crate::{
    admission::{
        admit::{Admission, Budget},
        identity::Method,
        registry::Registry,
        tokens::{Announced, Holder},
    },
    domain::Key,
    metrics::Metrics,
    settings::{Limits, Settings},
    store::{Packed, Reporter, Store, Watched, WriteError},
    sync::session::{Intake, shed},
    testing::{Authority, SIGNING_KEY, application, applied, enrolment, fleet, name, open_project},
};

/// More turns than any state needs in a minute without input.
const TOO_MANY: usize = 1000;

/// A hub on which a write to `stuck…` never ends, and every other fails.
#[derive(Debug, Default)]
struct Slow {
    /// Begun writes that never end.
    stuck: AtomicUsize,
}

#[async_trait::async_trait]
impl Store for Slow {
    fn watch(&self, _: Reporter, _: CancellationToken) -> BoxFuture<'static, ()> {
        future::pending().boxed()
    }

    async fn create(&self, _: Watched, _: &Value) -> Result<Packed, WriteError> {
        future::pending().await
    }

    async fn delete(&self, _: Watched, _: &Key, _: &str, _: &str) -> Result<(), WriteError> {
        future::pending().await
    }

    async fn patch(
        &self,
        _: Watched,
        application: &Key,
        _: &str,
        _: argocd::Patch,
    ) -> Result<Packed, WriteError> {
        if application.name.starts_with("stuck") {
            self.stuck.fetch_add(1, Ordering::Relaxed);
            future::pending().await
        } else {
            Err(WriteError::Unavailable("busy".into()))
        }
    }

    async fn events(&self, _: &Observed) -> Result<Vec<Value>, WriteError> {
        future::pending().await
    }

    async fn note(&self, _: &Observed, _: &events::Write) -> Result<(), WriteError> {
        future::pending().await
    }

    async fn principal_uid(&self) -> Result<String, WriteError> {
        Ok("us".to_owned())
    }
}

/// The frame with a status of the copy of this Application.
fn status(application: &str) -> Bytes {
    status_of(application, 0)
}

/// Like [`status`], with a message of so many bytes.
fn status_of(application: &str, bytes: usize) -> Bytes {
    let key = ObjectKey::new(Kind::Application, "argocd", application);
    let copy = json!({
        "metadata": {
            "namespace": "argocd", "name": application, "uid": "local",
            "annotations": { keys::SOURCE_UID: format!("uid-{application}") },
        },
        "status": { "health": { "status": "Healthy", "message": "x".repeat(bytes) } },
    });
    let body = serde_json::to_vec(&copy).unwrap().into();
    let event = Event::about(&key, Verb::StatusUpdate, "local", "1", body);
    let frame = Frame {
        event: Some(event.into_cloud_event("agent://agent-managed")),
    };
    let mut bytes = BytesMut::new();
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(frame.encoded_len()).unwrap());
    frame.encode(&mut bytes).unwrap();
    bytes.freeze()
}

/// A stream with these frames that never ends.
fn emitting(frames: Vec<Bytes>) -> Streaming<Frame> {
    let chunks = frames
        .into_iter()
        .map(|frame| Ok::<_, Infallible>(Chunk::data(frame)));
    let body = StreamBody::new(stream::iter(chunks).chain(stream::pending()));
    let decoder = tonic_prost::ProstCodec::<Frame, Frame>::default().decoder();
    Streaming::new_request(decoder, body, None, None)
}

fn sessions(applications: &[String], limits: Limits) -> Arc<Sessions> {
    sessions_with(Arc::default(), applications, limits)
}

fn sessions_with(hub: Arc<Slow>, applications: &[String], limits: Limits) -> Arc<Sessions> {
    let sessions = sessions_on(hub, limits);
    for name in applications {
        let object = application("a", name, &format!("uid-{name}"), 1);
        let report = applied(Watched::Application, object);
        sessions.hub.objects.report(report);
    }
    sessions
}

/// Sessions with a hub that has a project and a cluster `a`.
pub(in crate::sync::session) fn sessions_on(
    store: Arc<dyn Store>,
    limits: Limits,
) -> Arc<Sessions> {
    let (clock, metrics) = (Clock::system(), Metrics::default());
    let settings = Settings::usual(([127, 0, 0, 1], 0).into());
    let hub = Hub::new(&settings, store, clock.clone(), metrics.clone());
    let enrolled = fleet(&["a"]);
    hub.set_fleet(&enrolled);
    hub.objects
        .report(applied(Watched::AppProject, open_project("default")));
    let (registry, _) = Registry::new(clock.clone());
    let gate = Admission {
        identity: Method::ocm(),
        capabilities: Capabilities::ours(),
        argocd_namespace: settings.argocd_namespace,
        fleet: watch::channel(Arc::new(enrolled)).1,
        jwt_key: watch::channel(Arc::new(SIGNING_KEY.clone())).1,
        active: watch::channel(true).1,
        principal_uid: watch::channel(Some(Arc::from("us"))).1,
        registry,
        metrics: metrics.clone(),
        clock: clock.clone(),
        budget: Budget::default(),
        refusal_budget: crate::admission::admit::RefusalBudget::default(),
        proxies: [].into(),
        nonces: crate::admission::admit::Nonces::new(),
        material: watch::channel(Arc::default()).1,
        revoked: watch::channel(Some(Arc::default())).1,
        passwords: None,
        registrar: None,
        proved: parking_lot::Mutex::default(),
    };
    Arc::new(Sessions {
        gate: Arc::new(gate),
        hub: Arc::new(hub),
        intake: Intake::default(),
        tunnels: crate::live::tunnel::Tunnels::default(),
        go_requests: crate::live::go_compat::GoRequests::default(),
        limits,
        metrics,
        clock,
        spawner: Parts::new(CancellationToken::new()).spawner(),
    })
}

/// The driver of a session of cluster `a`, whose agent sends only these statuses.
pub(super) async fn driver(
    sessions: &Arc<Sessions>,
    statuses: &[&str],
    outbound: mpsc::Sender<Result<Frame, Status>>,
) -> Driver {
    let frames = statuses.iter().map(|name| status(name)).collect();
    driver_of(sessions, emitting(frames), outbound).await
}

async fn driver_of(
    sessions: &Arc<Sessions>,
    inbound: Streaming<Frame>,
    outbound: mpsc::Sender<Result<Frame, Status>>,
) -> Driver {
    let certificate = Arc::new(Authority::new().agent("a").peer_certificate());
    let admitted = Admitted {
        holder: Holder {
            cluster: name("a"),
            mode: Mode::Managed,
            announced: Announced {
                version: "1".to_owned(),
                namespace: "argocd".to_owned(),
                capabilities: Capabilities::ours().to_words(),
            },
        },
        enrolment: enrolment(Mode::Managed),
        peer_credentials: Arc::new(Credentials::of_certificate(&certificate)),
    };
    let registry = &sessions.gate.registry;
    let mode = admitted.holder.mode;
    let session_slot = registry
        .acquire_slot(&name("a"), mode, &admitted.peer_credentials)
        .await;
    let session_slot = session_slot.unwrap();
    Driver::new(sessions, session_slot, &admitted, inbound, outbound)
}

/// The turns of a session in a minute in which the peer sends only `statuses` and reads nothing.
async fn turns_in_a_minute(applications: &[String], statuses: &[&str], hands: usize) -> usize {
    let limits = Limits {
        writes_per_session: hands,
        ..Limits::default()
    };
    let sessions = sessions(applications, limits);
    let (outbound, _unread) = mpsc::channel(4);
    let mut driver = driver(&sessions, statuses, outbound).await;
    let mut turns = 0;
    let turning = async {
        while turns < TOO_MANY {
            driver.turn().await.unwrap();
            turns += 1;
        }
    };
    drop(tokio::time::timeout(Duration::from_mins(1), turning).await);
    turns
}

/// Ten minutes with an agent that reads everything and never sends anything.
#[tokio::test(start_paused = true)]
async fn missing_acknowledgements_are_reported_and_use_bounded_memory() {
    let many: Vec<String> = (0..2000).map(|number| format!("app-{number}")).collect();
    let sessions = sessions(&many, Limits::default());
    let (outbound, mut reads) = mpsc::channel(64);
    let mut driver = driver(&sessions, &[], outbound).await;
    let mut frames = 0_usize;
    let turning = async {
        loop {
            driver.turn().await.unwrap();
            while reads.try_recv().is_ok() {
                frames += 1;
            }
        }
    };
    drop(tokio::time::timeout(Duration::from_mins(10), turning).await);
    let stats = driver.machine.stats(driver.started.elapsed());
    let window = MachineLimits::default().window;
    assert!(stats.in_flight <= window, "{stats:?}");
    assert!(stats.outbox_objects <= many.len() + 1, "{stats:?}");
    assert!(frames < 12 * window, "{frames} frames are a storm");
    let report = sessions.gate.registry.reports.known(&name("a")).0.unwrap();
    assert!(
        report
            .misconduct
            .as_ref()
            .is_some_and(|it| it.contains("acknowledged")),
        "no report"
    );
}

#[tokio::test(start_paused = true)]
async fn session_waits_while_its_peer_does_not_read() {
    let many: Vec<String> = (0..20).map(|number| format!("app-{number}")).collect();
    let turns = turns_in_a_minute(&many, &[], 8).await;
    assert!((2..200).contains(&turns), "{turns} turns");
}

#[tokio::test(start_paused = true)]
async fn session_waits_while_all_its_writes_are_busy() {
    let both = ["busy".to_owned(), "stuck".to_owned()];
    let turns = turns_in_a_minute(&both, &["busy", "stuck"], 1).await;
    assert!((2..200).contains(&turns), "{turns} turns");
}

/// The hub accepts nothing for ten minutes, and the agent has sent more than the inbox can take.
#[tokio::test(start_paused = true)]
async fn backpressure_is_not_mistaken_for_silence() {
    let limits = Limits {
        inbox_bytes: 1,
        ..Limits::default()
    };
    let sessions = sessions(&["busy".to_owned()], limits);
    let (outbound, mut reads) = mpsc::channel(64);
    let mut driver = driver(&sessions, &["busy"], outbound).await;
    // Two earlier heartbeats.
    let (second, beat) = (Duration::from_secs(1), Event::ping());
    for _ in 0..2 {
        tokio::time::advance(10 * second).await;
        let now = driver.started.elapsed();
        let ping = beat.clone().into_cloud_event("agent://agent-managed");
        driver.machine.receive(ping, now).unwrap();
    }
    let mut acks = 0_usize;
    let turning = async {
        loop {
            driver.turn().await.unwrap();
            while let Ok(Ok(frame)) = reads.try_recv() {
                let id = frame.event.and_then(|event| Event::try_from(event).ok());
                acks += usize::from(id.is_some_and(|it| it.target == Target::Ack));
            }
        }
    };
    drop(tokio::time::timeout(600 * second, turning).await);
    assert!(!driver.machine.has_room());
    assert!((55..70).contains(&acks), "{acks} answers in ten minutes");
}

/// How many large messages a session decodes while no other task runs.
#[tokio::test(start_paused = true)]
async fn session_lets_other_tasks_run_between_messages() {
    let sessions = sessions(&[], Limits::default());
    let frames = vec![status_of("unknown", 100 << 10); 60];
    let (outbound, _unread) = mpsc::channel(1_000);
    let mut driver = driver_of(&sessions, emitting(frames), outbound).await;
    let others = AtomicUsize::new(0);
    let other = future::poll_fn(|_| {
        others.fetch_add(1, Ordering::Relaxed);
        Poll::<()>::Pending
    });
    let (mut in_a_row, mut longest, mut before) = (0, 0, 0);
    let turning = async {
        for _ in 0..60 {
            driver.turn().await.unwrap();
            let now = others.load(Ordering::Relaxed);
            in_a_row = if now == before { in_a_row + 1 } else { 0 };
            longest = longest.max(in_a_row);
            before = now;
        }
    };
    tokio::select! {
        biased;
        () = turning => {}
        () = other => {}
    }
    assert!(longest <= 3, "{longest} messages in a row");
}

/// How long a session of cluster `a` takes to refuse this many messages of 100 KiB.
async fn time_to_refuse(sessions: &Arc<Sessions>, count: u64) -> Duration {
    let frames = (0..count).map(|number| status_of(&format!("unknown-{number}"), 100 << 10));
    let (outbound, mut reads) = mpsc::channel(1_000);
    let mut driver = driver_of(sessions, emitting(frames.collect()), outbound).await;
    let begin = Instant::now();
    while driver.machine.stats(driver.started.elapsed()).refused < count {
        driver.turn().await.unwrap();
        while reads.try_recv().is_ok() {}
    }
    begin.elapsed()
}

/// The reserve is 32 MiB and refills with 4 MiB a second.
#[tokio::test(start_paused = true)]
async fn flood_is_read_at_the_rate_also_after_a_reconnect() {
    let sessions = sessions(&[], Limits::default());
    let connect = time_to_refuse(&sessions, 300).await;
    assert!(connect < Duration::from_millis(500), "{connect:?}");
    let flood = time_to_refuse(&sessions, 200).await;
    let reconnected = time_to_refuse(&sessions, 200).await;
    assert!((4..=6).contains(&flood.as_secs()), "{flood:?}");
    assert!((4..=6).contains(&reconnected.as_secs()), "{reconnected:?}");
}

/// What the add-on's condition says after an agent has sent as fast as the principal reads for this long.
async fn misconduct_after_a_flood_of(lasting: Duration) -> Option<String> {
    let sessions = sessions(&[], Limits::default());
    let frames = vec![status_of("unknown", 100 << 10); 4_000];
    let (outbound, mut reads) = mpsc::channel(1_000);
    let mut driver = driver_of(&sessions, emitting(frames), outbound).await;
    let turning = async {
        loop {
            driver.turn().await.unwrap();
            while reads.try_recv().is_ok() {}
        }
    };
    drop(tokio::time::timeout(lasting, turning).await);
    let report = sessions.gate.registry.reports.known(&name("a")).0.unwrap();
    report.misconduct.as_ref().map(ToString::to_string)
}

#[tokio::test(start_paused = true)]
async fn only_a_flood_of_more_than_a_minute_is_reported() {
    let second = Duration::from_secs(1);
    assert_eq!(misconduct_after_a_flood_of(50 * second).await, None);
    let misconduct = misconduct_after_a_flood_of(75 * second).await;
    assert!(misconduct.unwrap().contains("4 MiB"));
}

#[tokio::test(start_paused = true)]
async fn large_messages_are_applied_one_at_a_time() {
    let names: Vec<String> = (0..6).map(|number| format!("stuck-{number}")).collect();
    let hub = Arc::<Slow>::default();
    let sessions = sessions_with(Arc::clone(&hub), &names, Limits::default());
    let (large, small) = names.split_at(4);
    let mut frames: Vec<_> = large
        .iter()
        .map(|name| status_of(name, 300 << 10))
        .collect();
    frames.extend(small.iter().map(|name| status(name)));
    let (outbound, _unread) = mpsc::channel(1_000);
    let mut driver = driver_of(&sessions, emitting(frames), outbound).await;
    let turning = async {
        loop {
            driver.turn().await.unwrap();
        }
    };
    drop(tokio::time::timeout(Duration::from_secs(1), turning).await);
    assert_eq!(driver.working.len(), 6);
    assert_eq!(hub.stuck.load(Ordering::Relaxed), 1 + small.len());
}

/// The hub accepts no writes, and the program is above its limit.
#[tokio::test(start_paused = true)]
async fn costly_session_ends_when_memory_is_short() {
    let sessions = sessions(&["stuck".to_owned()], Limits::default());
    let (outbound, _unread) = mpsc::channel(1_000);
    let frames = vec![status_of("stuck", 2 << 20)];
    let driver = driver_of(&sessions, emitting(frames), outbound).await;
    let stop = CancellationToken::new();
    let watching = shed::keep_within(sessions.gate.registry.clone(), 0, stop.clone());
    let reason = tokio::select! {
        reason = driver.run() => reason,
        () = watching => "the watch ended",
    };
    assert_eq!(reason, "memory");
    let report = sessions.gate.registry.reports.known(&name("a")).0.unwrap();
    assert_eq!(report.shed.as_ref().map(|it| it.mib), Some(2));
    assert!(
        report
            .last_error
            .as_ref()
            .is_some_and(|it| it.contains("memory")),
        "{report:?}"
    );
}
