//! Whether a change of an Application takes longer while a client reads trees and large values of the same cluster
//! through the redis proxy and the tunnel. For comparison the client reads the same values from the spoke's redis: the cost
//! of that comes from shared processors, not from the path. The reader, and the spoke's redis, have the lowest priority.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;

use super::{
    Table, applications,
    background::{in_background, lower_priority},
    figures::{Figure, Times, variable},
    latency::{self, PROBE},
    observer::{Observer, Seen},
};
use crate::{
    Lab,
    peers::{Make, Mapping, Names, Pair, Pairing, Setting, prepare},
    process::Process,
    redis::{self, Client},
    steps::{At, Objects},
    wait,
};

/// The redis of the hub and that of the spoke, and the principal's proxy before the first.
const HUB: u16 = 16380;
const SPOKE: u16 = 16381;
const PROXY: u16 = 6379;
const PASSWORD: &str = "of-both";
const SECRET: &str = "argocd-redis";
/// Resources of the tree.
const RESOURCES: usize = 5_000;
/// Bytes of the large value.
const LARGE: usize = 30 << 20;
/// Every state is measured this often, in turns, because the speed of a machine varies.
const ROUNDS: usize = 2;

/// The load during the measurement.
#[derive(Clone, Copy, Debug)]
enum Looking {
    /// Nothing.
    Idle,
    /// Reads the cluster's values through the hub.
    Through,
    /// Reads the same values directly.
    Beside,
}

const STATES: [(Looking, &str, &str); 3] = [
    (Looking::Idle, "idle", "idle"),
    (
        Looking::Through,
        "through",
        "while a client reads tree and value through the hub",
    ),
    (
        Looking::Beside,
        "beside",
        "while a client reads both from the spoke's own redis",
    ),
];

/// The table of `make bench`.
pub(super) async fn tables(lab: Arc<Lab>) -> Result<Vec<Table>> {
    let samples = variable("BENCH_SAMPLES", 100)?;
    let mut setting = prepare(&lab, "viewed", Mapping::Namespace).await?;
    setting.log_level = "info";
    setting.way.redis = Some(["127.0.0.1:16380", "127.0.0.1:16381"]);
    let mut redises = furnish(&lab, &setting).await?;
    let pairing = Pairing {
        principal: Make::Ours,
        agent: Make::Ours,
    };
    let mut pair = Pair::start_in(&lab, setting, pairing).await?;
    let measured = Box::pin(measure(&pair, samples)).await;
    let alive = pair.check();
    let reply = pair.logs();
    pair.stop().await;
    for redis in &mut redises {
        redis.stop().await;
    }
    alive.with_context(|| reply.clone())?;
    measured.with_context(|| reply).map(|table| vec![table])
}

/// Starts both redises with the values of the spoke's Argo CD, and creates their login Secrets.
async fn furnish(lab: &Lab, setting: &Setting) -> Result<Vec<Process>> {
    let Names { hub, spoke, .. } = &setting.names;
    let mut redises = vec![];
    for port in [HUB, SPOKE] {
        let redis = redis::server(lab.tools(), &setting.directory, port, PASSWORD).await?;
        lower_priority(&redis)?;
        redises.push(redis);
    }
    let login = json!({"stringData": {"auth": PASSWORD}});
    for (cluster, namespace) in [(lab.hub(), hub), (lab.spoke(1), spoke)] {
        let objects = Objects::new(cluster.client());
        objects
            .apply(&At::secret(namespace, SECRET), login.clone())
            .await?;
    }
    let hub_objects = Objects::new(lab.hub().client());
    applications::allow(&hub_objects, hub).await?;
    let mut controller = Client::at(("127.0.0.1", SPOKE), PASSWORD).await?;
    for (key, value) in values(PROBE).into_iter().zip([tree(), "x".repeat(LARGE)]) {
        let set = controller.ask(&["SET", &key, &value]).await?;
        ensure!(set.as_error().is_none(), "{set:?}");
    }
    Ok(redises)
}

/// The keys of the values that are read: the tree, and the large value.
fn values(application: &str) -> [String; 2] {
    ["resources-tree", "managed-resources"].map(|kind| format!("app|{kind}|{application}|1.8.3"))
}

/// A tree in Argo CD's format.
fn tree() -> String {
    let node = |number: usize| {
        json!({
            "version": "v1", "kind": "ConfigMap", "namespace": "shop", "name": format!("part-{number}"),
            "uid": format!("00000000-0000-0000-0000-{number:012}"), "resourceVersion": "1234567",
            "createdAt": "2026-11-22T10:00:00Z", "networkingInfo": {},
            "parentRefs": [{"group": "apps", "kind": "Deployment", "namespace": "shop", "name": "web"}],
        })
    };
    let nodes: Vec<_> = (0..RESOURCES).map(node).collect();
    json!({"nodes": nodes, "orphanedNodes": [], "hosts": []}).to_string()
}

async fn measure(pair: &Pair, samples: usize) -> Result<Table> {
    let Names { agent, spoke, .. } = &pair.names;
    applications::make(&pair.hub, agent, &[PROBE.to_owned()]).await?;
    let observer = Observer::of(&pair.spoke).await?;
    let is_there = |seen: &Seen| seen.get(spoke, PROBE).is_some();
    let there = observer.until(wait::BOUND, is_there).await;
    there.context("the probe does not get to the spoke")?;
    let through = values(&format!("{agent}_{PROBE}"));
    let look = async || {
        Client::at(("127.0.0.1", PROXY), PASSWORD)
            .await?
            .value(&through[0])
            .await
    };
    // The tunnel opens a moment after the session.
    wait::until("the tree is seen at the hub", look, Option::is_some)
        .await
        .map(drop)?;

    let mut times = STATES.map(|_| (Times::within(Duration::MAX), 0));
    for round in 0..ROUNDS {
        for ((looking, word, _), (times, read)) in STATES.into_iter().zip(&mut times) {
            let count = Arc::new(AtomicUsize::new(0));
            let (keys, counted) = (through.clone(), Arc::clone(&count));
            let word = format!("{word}-{round}");
            let sampling =
                latency::of_spec_changes(pair, &observer, &word, samples.div_ceil(ROUNDS));
            let taken = tokio::select! {
                taken = sampling => taken?,
                ended = in_background(move || looks(looking, keys, counted)) => {
                    ended?;
                    bail!("the reader has ended")
                }
            };
            times.take(taken);
            *read += count.load(Ordering::Relaxed);
        }
    }
    Ok(table(&times))
}

/// Reads tree and value in turns, for ever.
async fn looks(looking: Looking, through: [String; 2], count: Arc<AtomicUsize>) -> Result<()> {
    let (port, keys) = match looking {
        Looking::Idle => return std::future::pending().await,
        Looking::Through => (PROXY, through),
        Looking::Beside => (SPOKE, values(PROBE)),
    };
    let mut client = Client::at(("127.0.0.1", port), PASSWORD).await?;
    for key in keys.iter().cycle() {
        let value = client.value(key).await?;
        ensure!(value.is_some(), "there is no {key}");
        count.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn table(times: &[(Times, usize); 3]) -> Table {
    let mut table = Table::new(
        format!(
            "Spec changes while people look at a tree of {RESOURCES} resources and a value of {} MiB",
            LARGE >> 20
        ),
        &["", "p50 / p99", "p50 to idle", "p99 to idle", "values read"],
    );
    let idle = &times[0].0;
    for ((_, _, what), (times, read)) in STATES.iter().zip(times) {
        let to_idle = |percent| match (times.percentile(percent), idle.percentile(percent)) {
            (Figure::Time(time), Figure::Time(idle)) => {
                format!(
                    "{:.2}",
                    time.as_secs_f64() / idle.as_secs_f64().max(f64::MIN_POSITIVE)
                )
            }
            _ => "–".to_owned(),
        };
        table.row(&[what, &times.reply(), &to_idle(50), &to_idle(99), read]);
    }
    table
}
