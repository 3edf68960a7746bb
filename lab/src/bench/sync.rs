//! One hub and one spoke: the latency, throughput and cost of changes.
//!
//! Principal and agent are processes, the API servers real, and the clusters otherwise idle. Our pair is measured, and
//! the pair of the Go argocd-agent when `ARGOCD_AGENT_BIN` is set, one after the other.
//!
//! | variable | |
//! |---|---|
//! | `BENCH_SAMPLES` | spec changes whose latency is measured, idle and under flood; 100 unless set |
//! | `BENCH_APPLICATIONS` | Applications of the agent at the end; 1,000 unless set |
//! | `BENCH_FLOOD` | statuses a second that 100 Applications get on the spoke during the flood; 50 unless set |

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_stream::wrappers::IntervalStream;

use super::{
    Table,
    applications::{self, AT_ONCE},
    figures::{Column, Times, beside, makes, rate, ratio, variable},
    latency::{self, PROBE},
    meter::{processor, resident_kib},
    observer::Observer,
};
use crate::{
    Lab,
    audit::Mark,
    peers::{Make, Mapping, Names, Pair, Pairing, prepare},
    process::Process,
    steps::{At, Objects},
};

/// The principal's user on the hub.
const USER: &str = "bench:principal";
/// The Applications whose statuses flood.
const FLOODING: usize = 100;
/// The time limit for a number of changes.
const TOO_LONG: Duration = Duration::from_mins(2);
/// How long a process may settle before its memory is measured.
const REST: Duration = Duration::from_secs(5);

/// The sizes of everything.
#[derive(Clone, Copy)]
struct Sizes {
    samples: usize,
    applications: usize,
    flood: u32,
}

/// The table of `make bench`.
pub(super) async fn tables(lab: Arc<Lab>) -> Result<Vec<Table>> {
    let sizes = Sizes {
        samples: variable("BENCH_SAMPLES", 100)?,
        applications: variable("BENCH_APPLICATIONS", 1000)?,
        flood: variable("BENCH_FLOOD", 50)?,
    };
    let mut columns = Vec::new();
    for make in makes() {
        columns.push(one(&lab, make, sizes).await?);
    }
    Ok(vec![beside("One hub, one spoke, one agent", &columns)])
}

/// Measures one pair, and cleans up after it.
async fn one(lab: &Lab, make: Make, sizes: Sizes) -> Result<Column> {
    let mut bench = Bench::start(lab, make, sizes).await?;
    let measured = Box::pin(bench.measure()).await;
    let alive = bench.pair.check();
    let logs = bench.pair.logs();
    let Bench { pair, column, .. } = bench;
    let (hub, spoke, names) = (pair.hub.clone(), pair.spoke.clone(), pair.names.clone());
    pair.stop().await;
    measured.and(alive).with_context(|| logs)?;
    applications::sweep(&hub, &[names.agent]).await?;
    applications::sweep(&spoke, &[names.spoke]).await?;
    Ok(column)
}

/// The measured pair and its observers.
struct Bench {
    pair: Pair,
    log: crate::audit::Log,
    hub: Observer,
    spoke: Observer,
    sizes: Sizes,
    column: Column,
}

/// The resources that both have used so far.
struct Used {
    principal: Duration,
    agent: Duration,
    mark: Mark,
}

impl Bench {
    async fn start(lab: &Lab, make: Make, sizes: Sizes) -> Result<Self> {
        let name = match make {
            Make::Ours => "ours",
            Make::Go => "go",
        };
        let mut setting = prepare(lab, name, Mapping::Namespace).await?;
        let user = Some("system:masters");
        setting.hub_kubeconfig = lab.hub().kubeconfig_for(USER, user)?;
        setting.log_level = "info";
        applications::allow(&Objects::new(lab.hub().client()), &setting.names.hub).await?;
        let pairing = Pairing {
            principal: make,
            agent: make,
        };
        let pair = Pair::start_in(lab, setting, pairing).await?;
        Ok(Self {
            hub: Observer::of(&pair.hub).await?,
            spoke: Observer::of(&pair.spoke).await?,
            log: lab.hub().audit(),
            pair,
            sizes,
            column: Column::new(make),
        })
    }

    async fn measure(&mut self) -> Result<()> {
        self.memory("no Application").await?;
        self.deliver(&[PROBE.to_owned()]).await?;
        self.idle().await?;
        self.busy().await?;
        let flooding = applications::names("app", FLOODING.min(self.sizes.applications));
        self.deliver(&flooding).await?;
        self.memory(&format!("{} Applications", flooding.len() + 1))
            .await?;
        self.flooded(&flooding).await?;
        let all = applications::names("app", self.sizes.applications);
        let more = all.get(flooding.len()..).unwrap_or_default();
        let (came, took) = self.deliver(more).await?;
        self.column.put(
            format!("{} new Applications on the spoke", more.len()),
            rate(came, more.len(), took),
        );
        self.statuses(&all).await?;
        self.memory(&format!("{} Applications", all.len() + 1))
            .await
    }

    /// Creates Applications on the hub, and waits until they are on the spoke.
    async fn deliver(&mut self, names: &[String]) -> Result<(usize, Duration)> {
        let Names { agent, spoke, .. } = self.pair.names.clone();
        let ours = |namespace: &str, _: &_| namespace == spoke;
        let before = self.spoke.count(ours);
        let begin = Instant::now();
        applications::make(&self.pair.hub, &agent, names).await?;
        let wanted = before + names.len();
        let when = (begin, TOO_LONG);
        let (there, took) = self.spoke.until_count(wanted, when, ours).await;
        Ok((there - before, took))
    }

    /// Measures latency and cost of a spec change without other load.
    async fn idle(&mut self) -> Result<()> {
        let before = self.used()?;
        let times = self.latencies("idle").await?;
        let after = self.used()?;
        self.column
            .put("spec change, hub to spoke, idle, p50 / p99", times.reply());
        self.column.put(
            "the principal's writes to the hub's API per spec change",
            format!("{:.2}", self.writes(&before, times.count())?),
        );
        self.put_processor(
            "spec changes, one at a time",
            times.count(),
            &before,
            &after,
        );
        Ok(())
    }

    /// Measures the latency of the statuses of one busy Application, without other load.
    async fn busy(&mut self) -> Result<()> {
        let times = latency::of_statuses(&self.pair, &self.hub, self.sizes.samples).await?;
        self.column.put(
            "status that changes every 100 ms, spoke to hub, p50 / p99",
            times.reply(),
        );
        Ok(())
    }

    /// Measures the latency of spec changes while statuses arrive from the spoke at the rate `BENCH_FLOOD`.
    async fn flooded(&mut self, names: &[String]) -> Result<()> {
        let written = AtomicUsize::new(0);
        let spoke = (self.pair.spoke.clone(), self.pair.names.spoke.clone());
        let begin = Instant::now();
        let times = tokio::select! {
            times = self.latencies("flood") => times?,
            ended = flood(spoke, names, self.sizes.flood, &written) => return ended,
        };
        let flooded = ratio(
            written.load(Ordering::Relaxed),
            begin.elapsed().as_secs_f64(),
        );
        self.column.put(
            format!(
                "the same while {} Applications flood with statuses",
                names.len()
            ),
            times.reply(),
        );
        self.column
            .put("statuses a second in that flood", format!("{flooded:.0}"));
        let took = self.report(names, "after the flood").await?.1;
        self.column.put(
            format!("then a last status of all {}", names.len()),
            rate(took.0, names.len(), took.1),
        );
        Ok(())
    }

    /// Throughput and cost of statuses: one for each Application, as fast as they can be written.
    async fn statuses(&mut self, names: &[String]) -> Result<()> {
        let before = self.used()?;
        let (writing, (came, took)) = self.report(names, "final").await?;
        let after = self.used()?;
        let count = names.len();
        self.column.put(
            format!("a new status of all {count}, all seen on the hub"),
            format!(
                "{}; the spoke took {:.1} s to write them",
                rate(came, count, took),
                writing.as_secs_f64()
            ),
        );
        self.column.put(
            "the principal's writes to the hub's API per status change",
            format!("{:.2}", self.writes(&before, came)?),
        );
        self.put_processor("status changes", came, &before, &after);
        Ok(())
    }

    /// Gives all a status on the spoke, and waits until the hub shows it: how long the writing took, how many arrived, and
    /// when the last did.
    async fn report(
        &self,
        names: &[String],
        revision: &str,
    ) -> Result<(Duration, (usize, Duration))> {
        let Names { agent, spoke, .. } = &self.pair.names;
        let begin = Instant::now();
        applications::report(&self.pair.spoke, spoke, names, revision).await?;
        let writing = begin.elapsed();
        let like = |namespace: &str, shown: &super::observer::Shown| {
            namespace == agent && shown.deployed == revision
        };
        let when = (begin, TOO_LONG);
        Ok((writing, self.hub.until_count(names.len(), when, like).await))
    }

    async fn latencies(&self, word: &str) -> Result<Times> {
        latency::of_spec_changes(&self.pair, &self.spoke, word, self.sizes.samples).await
    }

    /// Records the memory of both.
    async fn memory(&mut self, with: &str) -> Result<()> {
        sleep(REST).await;
        for (what, process) in [
            ("agent", &self.pair.agent),
            ("principal", &self.pair.principal),
        ] {
            let kib = resident_kib(id(process)?)?;
            let line = format!("memory of the {what}, {with}");
            self.column.put(line, format!("{} MiB", kib / 1024));
        }
        Ok(())
    }

    fn used(&self) -> Result<Used> {
        Ok(Used {
            principal: processor(id(&self.pair.principal)?)?,
            agent: processor(id(&self.pair.agent)?)?,
            mark: self.log.mark()?,
        })
    }

    fn put_processor(&mut self, what: &str, count: usize, before: &Used, after: &Used) {
        for (who, time) in [
            ("agent", after.agent.saturating_sub(before.agent)),
            (
                "principal",
                after.principal.saturating_sub(before.principal),
            ),
        ] {
            let each = time.as_secs_f64() * 1000.0 / ratio(count, 1.0).max(1.0);
            let line = format!("processor time of the {who} per 1,000 {what}");
            self.column.put(line, format!("{each:.2} s"));
        }
    }

    /// The principal's writes since then, per change. Leases and the like are not counted.
    fn writes(&self, since: &Used, changes: usize) -> Result<f64> {
        let entries = self.log.by(USER, since.mark)?;
        let writes = entries.iter().filter(|entry| {
            let object = entry.object.as_ref();
            entry.is_write() && object.is_some_and(|it| it.resource == "applications")
        });
        Ok(ratio(writes.count(), ratio(changes, 1.0).max(1.0)))
    }
}

/// Writes statuses on a spoke at a steady pace, for ever.
async fn flood(
    (spoke, namespace): (Objects, String),
    names: &[String],
    pace: u32,
    written: &AtomicUsize,
) -> Result<()> {
    let mut ticks = interval(Duration::from_secs(1) / pace.max(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let rounds = stream::iter(0_u64..).flat_map(|round| {
        let of_round = names.iter().map(move |name| (round, name));
        stream::iter(of_round)
    });
    IntervalStream::new(ticks)
        .zip(rounds)
        .map(|(_tick, (round, name))| {
            let at = At::application(&namespace, name);
            let patch = json!({ "status": applications::status(&format!("flood-{round}")) });
            let spoke = &spoke;
            async move { spoke.merge(&at, patch).await }
        })
        .buffer_unordered(AT_ONCE)
        .try_for_each(|_written| {
            written.fetch_add(1, Ordering::Relaxed);
            std::future::ready(Ok(()))
        })
        .await
}

fn id(process: &Process) -> Result<u32> {
    let id = process.id();
    id.with_context(|| format!("{} does not run", process.name()))
}
