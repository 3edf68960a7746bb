//! Live requests from the hub to a spoke: the latency through principal and agent beside the spoke's own
//! API, the throughput, the cost of a followed log, and the effect of all that on a spec change.
//!
//! Principal and agent are processes, the API servers and the Pod real. Go's agent shows only objects of Applications,
//! looks each up at each request, and has no tunnel; it is not measured here.
//!
//! | variable | |
//! |---|---|
//! | `BENCH_SAMPLES` | answers and spec changes whose latency is measured; 100 unless set |
//! | `BENCH_LOGS` | logs that are followed at the same time; 60 unless set |

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures::{AsyncBufRead, AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Api, Client, Config,
    api::{ListParams, LogParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use lab_kubelet::Image;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::{
    Table, applications,
    background::in_background,
    figures::{Column, Times, beside, ratio, variable},
    latency::{self, PROBE},
    meter::resident_kib,
    observer::Observer,
};
use crate::{
    Lab, kubeconfig,
    peers::{Make, Mapping, Names, Pair, Pairing, Setting, prepare},
    process::Process,
    steps::{At, Objects},
    wait,
};

/// The namespace of the requested objects on the spoke.
const NAMESPACE: &str = "seen";
const SMALL: &str = "small";
/// A Pod that prints a line a second.
const POD: &str = "talker";
const IMAGE: &str = "lab.local/talker:1";
/// Objects of about a megabyte, which make the large list.
const LARGE: usize = 30;
const LARGE_LABEL: &str = "size=large";
/// Requests at the same time.
const AT_ONCE: usize = 16;
/// How long requests are counted.
const COUNTING: Duration = Duration::from_secs(5);
/// A response that takes longer counts as missing.
const LATE: Duration = Duration::from_secs(30);
/// How long a process may settle before its memory is measured.
const REST: Duration = Duration::from_secs(5);

/// The table of `make bench`.
pub(super) async fn tables(lab: Arc<Lab>) -> Result<Vec<Table>> {
    let (samples, logs) = (variable("BENCH_SAMPLES", 100)?, variable("BENCH_LOGS", 60)?);
    let spoke = Objects::new(lab.spoke(1).client());
    let mut talker = Image::default().user(65534);
    let talks = ["/bin/sh", "-c", "while echo tick; do sleep 1; done"];
    talker.entrypoint = talks.map(str::to_owned).into();
    lab.images().insert(IMAGE, talker);
    furnish(&spoke).await?;
    let mut direct = Column::named("the spoke's own API");
    answers(&lab.spoke(1).client(), samples, &mut direct).await?;
    let through = one(&lab, samples, logs).await?;
    let columns = [direct, through];
    Ok(vec![beside(
        "What people at the hub see of one spoke",
        &columns,
    )])
}

/// Creates the requested objects.
async fn furnish(spoke: &Objects) -> Result<()> {
    spoke.apply(&At::namespace(NAMESPACE), json!({})).await?;
    let small = json!({"data": {"greeting": "hello"}});
    spoke
        .apply(&At::config_map(NAMESPACE, SMALL), small)
        .await?;
    for number in 0..LARGE {
        let body = json!({
            "metadata": {"labels": {"size": "large"}},
            "data": {"text": "x".repeat(1_000_000)},
        });
        let at = At::config_map(NAMESPACE, &format!("large-{number}"));
        spoke.apply(&at, body).await?;
    }
    let pod = At::pod(NAMESPACE, POD);
    let container = json!({"name": "talker", "image": IMAGE});
    spoke
        .apply(&pod, json!({"spec": {"containers": [container]}}))
        .await?;
    let runs = |pod: &serde_json::Value| pod["status"]["phase"] == "Running";
    spoke.until(&pod, "runs", wait::BOUND, runs).await.map(drop)
}

/// Measures requests through principal and agent.
async fn one(lab: &Lab, samples: usize, logs: usize) -> Result<Column> {
    let mut setting = prepare(lab, "ours", Mapping::Namespace).await?;
    setting.log_level = "info";
    applications::allow(&Objects::new(lab.hub().client()), &setting.names.hub).await?;
    let config = through_the_hub(&setting).await?;
    let pairing = Pairing {
        principal: Make::Ours,
        agent: Make::Ours,
    };
    let mut pair = Pair::start_in(lab, setting, pairing).await?;
    let mut column = Column::named("through principal and agent");
    let measured = Box::pin(measure(&pair, config, samples, logs, &mut column)).await;
    let alive = pair.check();
    let reply = pair.logs();
    pair.stop().await;
    measured.and(alive).with_context(|| reply)?;
    Ok(column)
}

async fn measure(
    pair: &Pair,
    config: Config,
    samples: usize,
    logs: usize,
    column: &mut Column,
) -> Result<()> {
    let client = Client::try_from(config.clone()).context("a client of the resource proxy")?;
    until_open(&client).await?;
    answers(&client, samples, column).await?;
    let Names { agent, spoke, .. } = &pair.names;
    applications::make(&pair.hub, agent, &[PROBE.to_owned()]).await?;
    let observer = Observer::of(&pair.spoke).await?;
    let is_there = |seen: &super::observer::Seen| seen.get(spoke, PROBE).is_some();
    let there = observer.until(wait::BOUND, is_there).await;
    there.context("the probe does not get to the spoke")?;
    let idle = latency::of_spec_changes(pair, &observer, "idle", samples).await?;
    column.put("spec change, hub to spoke, idle, p50 / p99", idle.reply());
    let read = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&read);
    let busy = tokio::select! {
        times = latency::of_spec_changes(pair, &observer, "busy", samples) => times?,
        ended = in_background(move || reads(config, counted)) => {
            ended?;
            bail!("the reader has ended")
        }
    };
    column.put(
        format!("the same while a client reads the list of {LARGE} MB repeatedly"),
        format!(
            "{}, {} lists read",
            busy.reply(),
            read.load(Ordering::Relaxed)
        ),
    );
    followed(pair, &client, logs, column).await
}

/// The configuration of a client that uses the certificate of a cluster Secret with the pair's resource proxy.
async fn through_the_hub(setting: &Setting) -> Result<Config> {
    let credentials = setting.credentials.of_agent(&setting.names.agent)?;
    let encoded = |text: &str| BASE64_STANDARD.encode(text);
    let access = json!({"tlsClientConfig": {
        "caData": encoded(setting.credentials.authority()),
        "certData": encoded(&credentials.cert),
        "keyData": encoded(&credentials.key),
    }});
    let server = "https://127.0.0.1:9090";
    let config = kubeconfig::of_cluster_secret(server, Some("localhost"), &access);
    let config: Kubeconfig = serde_json::from_value(config)?;
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
    config.context("a kubeconfig of the resource proxy")
}

/// A tunnel opens a moment after its session.
async fn until_open(client: &Client) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let looking = async || {
        Ok(maps
            .get(SMALL)
            .await
            .map(drop)
            .map_err(|why| why.to_string()))
    };
    wait::until("the spoke is seen at the hub", looking, Result::is_ok)
        .await
        .map(drop)
}

/// Measures the latency of small and large responses, and their rate.
async fn answers(client: &Client, samples: usize, column: &mut Column) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let mut times = Times::within(LATE);
    for _ in 0..samples * 5 {
        let begin = Instant::now();
        maps.get(SMALL).await?;
        times.add(Some(begin.elapsed()));
    }
    column.put("one object, one after the other, p50 / p99", times.reply());
    let (begin, count) = (Instant::now(), AtomicUsize::new(0));
    let asking = stream::repeat(())
        .map(|()| maps.get(SMALL))
        .buffer_unordered(AT_ONCE);
    let counting = asking.try_for_each(|_map| {
        count.fetch_add(1, Ordering::Relaxed);
        std::future::ready(Ok(()))
    });
    if let Ok(ended) = timeout(COUNTING, counting).await {
        ended?;
    }
    let each = ratio(count.load(Ordering::Relaxed), begin.elapsed().as_secs_f64());
    column.put(
        format!("the same, {AT_ONCE} at a time"),
        format!("{each:.0}/s"),
    );
    let mut times = Times::within(LATE);
    for _ in 0..5 {
        let begin = Instant::now();
        list(&maps).await?;
        times.add(Some(begin.elapsed()));
    }
    column.put(format!("a list of {LARGE} MB, p50"), times.percentile(50));
    Ok(())
}

async fn list(maps: &Api<ConfigMap>) -> Result<()> {
    let labels = ListParams::default().labels(LARGE_LABEL);
    let listing = timeout(LATE, maps.list(&labels)).await;
    let list = listing.context("no answer")??;
    ensure!(list.items.len() == LARGE, "{} of {LARGE}", list.items.len());
    Ok(())
}

/// Reads the large list repeatedly, for ever; errors are not counted.
async fn reads(config: Config, read: Arc<AtomicUsize>) -> Result<()> {
    let client = Client::try_from(config).context("a client of the resource proxy")?;
    let maps: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    stream::repeat(())
        .map(|()| list(&maps))
        .buffered(1)
        .for_each(|listed| {
            if listed.is_ok() {
                read.fetch_add(1, Ordering::Relaxed);
            }
            std::future::ready(())
        })
        .await;
    Ok(())
}

/// Measures the cost of followed logs at both ends.
async fn followed(pair: &Pair, client: &Client, logs: usize, column: &mut Column) -> Result<()> {
    sleep(REST).await;
    let before = memory(pair)?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let params = LogParams {
        follow: true,
        ..LogParams::default()
    };
    let mut open = Vec::with_capacity(logs);
    for _ in 0..logs {
        open.push(begun(&pods, &params).await?);
    }
    sleep(REST).await;
    let after = memory(pair)?;
    for (who, before, after) in [
        ("principal", before.0, after.0),
        ("agent", before.1, after.1),
    ] {
        let each = after.saturating_sub(before) / u64::try_from(logs.max(1))?;
        let line = format!("memory of the {who} for each of {logs} followed logs");
        column.put(line, format!("{each} KiB"));
    }
    Ok(())
}

/// A log whose first line has arrived.
async fn begun(pods: &Api<Pod>, params: &LogParams) -> Result<impl AsyncBufRead + Unpin> {
    let opening = async {
        let mut log = pods.log_stream(POD, params).await?;
        let mut line = String::new();
        log.read_line(&mut line).await?;
        ensure!(!line.is_empty(), "the log ends");
        Ok(log)
    };
    timeout(LATE, opening).await.context("no line comes")?
}

/// The resident memory of principal and agent, in KiB.
fn memory(pair: &Pair) -> Result<(u64, u64)> {
    let of = |process: &Process| {
        let id = process.id();
        resident_kib(id.with_context(|| format!("{} does not run", process.name()))?)
    };
    Ok((of(&pair.principal)?, of(&pair.agent)?))
}
