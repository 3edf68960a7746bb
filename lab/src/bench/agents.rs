//! Many agents of one principal: how long until all have a session, the cost of each, and how they disturb each other.
//!
//! The principal is a process, the hub's API server real. The agents are simulated in this process, over real TLS; the
//! processor is theirs, too. The Go principal is measured with the same agents when `ARGOCD_AGENT_BIN` is set.
//!
//! | variable | |
//! |---|---|
//! | `BENCH_AGENTS` | agents that connect at once; 1,000 unless set |
//! | `BENCH_BUSY` | agents of those that have Applications; 50 unless set |
//! | `BENCH_EACH` | Applications of each of these; 20 unless set |
//! | `BENCH_SAMPLES` | spec changes whose latency is measured, idle and beside a noisy neighbour; 100 unless set |

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use futures::{FutureExt as _, StreamExt as _, future::join_all, stream};
use serde_json::json;
use tokio::time::{Instant, interval, sleep, timeout};

use super::{
    Table, applications,
    figures::{Column, Times, beside, makes, rate, variable},
    meter::{processor, resident_kib},
    observer::{Observer, Shown},
    simulated::{Principal, Simulated},
};
use crate::{
    Lab,
    certs::Pair,
    peers::{Make, Mapping, PRINCIPAL_HEALTH, healthy, prepare_on, principal},
    process::Process,
    steps::{At, Objects},
    wait,
};

/// A change that takes longer counts as missing.
const LATE: Duration = Duration::from_secs(30);
/// The time limit for sessions, and for a number of changes.
const TOO_LONG: Duration = Duration::from_mins(2);
/// The longest time for sampling latencies.
const SAMPLING: Duration = Duration::from_secs(45);
/// How long the principal may settle before its memory is measured.
const REST: Duration = Duration::from_secs(10);
/// The interval at which a noisy neighbour reports all its Applications.
const NOISE: Duration = Duration::from_millis(20);

/// The sizes of everything.
#[derive(Clone, Copy)]
struct Sizes {
    agents: usize,
    busy: usize,
    each: usize,
    samples: usize,
}

/// The table of `make bench`.
pub(super) async fn tables(lab: Arc<Lab>) -> Result<Vec<Table>> {
    let sizes = Sizes {
        agents: variable("BENCH_AGENTS", 1000)?,
        busy: variable("BENCH_BUSY", 50)?,
        each: variable("BENCH_EACH", 20)?,
        samples: variable("BENCH_SAMPLES", 100)?,
    };
    let mut columns = Vec::new();
    for make in makes() {
        columns.push(one(&lab, make, sizes).await?);
    }
    let title = format!("One principal, {} simulated agents", sizes.agents);
    Ok(vec![beside(&title, &columns)])
}

/// Measures one principal, and cleans up after it.
async fn one(lab: &Lab, make: Make, sizes: Sizes) -> Result<Column> {
    let (mut bench, credentials) = Bench::start(lab, make, sizes).await?;
    let measured = Box::pin(bench.measure(credentials)).await;
    let alive = bench.process.check();
    let log = bench.process.log_tail();
    bench.process.stop().await;
    measured.and(alive).with_context(|| log)?;
    applications::sweep(&bench.hub, &bench.busy()).await?;
    Ok(bench.column)
}

/// The measured principal.
struct Bench {
    process: Process,
    hub: Objects,
    seen: Observer,
    endpoint: Arc<Principal>,
    word: &'static str,
    sizes: Sizes,
    column: Column,
}

impl Bench {
    /// Creates everything on the hub, and starts the principal.
    async fn start(lab: &Lab, make: Make, sizes: Sizes) -> Result<(Self, Vec<Pair>)> {
        let word = match make {
            Make::Ours => "ours",
            Make::Go => "go",
        };
        let mapping = Mapping::Namespace;
        let mut setting = prepare_on(lab, [lab.hub(); 2], word, mapping).await?;
        setting.admitted = vec![format!("{word}-*")];
        setting.log_level = "info";
        let hub = Objects::new(lab.hub().client());
        applications::allow(&hub, &setting.names.hub).await?;
        let names = applications::names(word, sizes.agents);
        for name in names.iter().take(sizes.busy) {
            hub.apply(&At::namespace(name), json!({})).await?;
        }
        let enrolled = names.iter().map(|name| setting.enrol(name).boxed());
        let enrolled: Vec<_> = enrolled.collect();
        let mut enrolled = stream::iter(enrolled).buffered(applications::AT_ONCE);
        let mut credentials = Vec::new();
        while let Some(pair) = enrolled.next().await {
            credentials.push(pair?);
        }
        drop(enrolled);
        let process = principal(make, &setting)?.start()?;
        healthy(PRINCIPAL_HEALTH, wait::BOUND)
            .await
            .with_context(|| process.log_tail())?;
        let endpoint = Principal {
            address: format!("{}:{}", setting.way.host, setting.way.port),
            authority: setting.credentials.authority().to_owned(),
        };
        let endpoint = Arc::new(endpoint);
        // A healthy principal may not be ready for its first agent yet.
        let first = setting.credentials.of_agent(word)?;
        let connect = || async {
            let connect = Simulated::connect(Arc::clone(&endpoint), word.to_owned(), first.clone());
            connect.await.map(|agent| agent.is_alive())
        };
        wait::until("a first agent has a session", connect, |alive| *alive).await?;
        let bench = Self {
            seen: Observer::of(&hub).await?,
            process,
            hub,
            endpoint,
            word,
            sizes,
            column: Column::new(make),
        };
        Ok((bench, credentials))
    }

    /// The names of the agents that have Applications.
    fn busy(&self) -> Vec<String> {
        applications::names(self.word, self.sizes.busy.min(self.sizes.agents))
    }

    async fn measure(&mut self, credentials: Vec<Pair>) -> Result<()> {
        let before = self.memory().await?;
        self.column.put(
            "the principal's memory, no agent connected",
            format!("{} MiB", before / 1024),
        );
        let agents = self.connect(credentials).await?;
        let after = self.memory().await?;
        let count = u64::try_from(agents.len())?.max(1);
        self.column
            .put("with all of them idle", format!("{} MiB", after / 1024));
        let each = after.saturating_sub(before) / count;
        self.column
            .put("for each idle agent", format!("{each} KiB"));
        let busy = self.busy();
        let agents: Vec<_> = agents
            .into_iter()
            .map(|agent| (busy.contains(&agent.name), agent))
            .collect();
        let chosen: Vec<&Simulated> = agents
            .iter()
            .filter_map(|(is_busy, agent)| is_busy.then_some(agent))
            .collect();
        self.deliver(&chosen).await?;
        self.statuses(&chosen).await?;
        self.neighbours(&chosen).await?;
        let alive = agents.iter().filter(|(_, agent)| agent.is_alive()).count();
        self.column.put("sessions that lived to the end", alive);
        Ok(())
    }

    /// All agents connect at the same time.
    async fn connect(&mut self, credentials: Vec<Pair>) -> Result<Vec<Simulated>> {
        let id = self.id()?;
        let (used, begin) = (processor(id)?, Instant::now());
        let names = applications::names(self.word, self.sizes.agents);
        let connects = names
            .into_iter()
            .zip(credentials)
            .map(|(name, credentials)| {
                let connect = Simulated::connect(Arc::clone(&self.endpoint), name, credentials);
                let connect = async move {
                    let connected = timeout(TOO_LONG, connect).await;
                    (connected.context("no session in time"), begin.elapsed())
                };
                #[expect(clippy::disallowed_methods, reason = "all are waited for at once")]
                tokio::spawn(connect)
            });
        let mut times = Times::within(TOO_LONG);
        let mut agents = Vec::new();
        let mut failures: Vec<String> = Vec::new();
        for connected in join_all(connects).await {
            match connected {
                Ok((Ok(Ok(agent)), took)) => {
                    times.add(Some(took));
                    agents.push(agent);
                }
                Ok((Ok(Err(error)) | Err(error), _)) => failures.push(format!("{error:#}")),
                Err(error) => failures.push(error.to_string()),
            }
        }
        let of = self.sizes.agents;
        self.column.put(
            format!("{of} agents connect at once, until half / all have a session"),
            format!("{} / {}", times.percentile(50), times.percentile(100)),
        );
        let why = failures.first().map_or_else(String::new, |first| {
            format!(": {}", first.lines().next().unwrap_or_default())
        });
        self.column
            .put("of them failed", format!("{}{why}", failures.len()));
        let took = processor(id)?.saturating_sub(used);
        self.column.put(
            "the principal's processor time for that",
            format!("{:.1} s", took.as_secs_f64()),
        );
        Ok(agents)
    }

    /// Each of the busy ones gets its Applications.
    async fn deliver(&mut self, agents: &[&Simulated]) -> Result<()> {
        let each = self.sizes.each;
        let names = applications::names("app", each);
        let begin = Instant::now();
        for agent in agents {
            applications::make(&self.hub, &agent.name, &names).await?;
        }
        let arrivals = agents.iter().map(|agent| {
            let all = move |received: &super::simulated::Received| received.len() >= each;
            agent.until(TOO_LONG, all)
        });
        let arrived = join_all(arrivals).await;
        let came = arrived.iter().flatten().count();
        let last = arrived.iter().flatten().max();
        let took = last.map_or_else(|| begin.elapsed(), |last| *last - begin);
        self.column.put(
            format!(
                "{each} new Applications for each of {}, all received",
                agents.len()
            ),
            rate(came * each, agents.len() * each, took),
        );
        Ok(())
    }

    /// All busy agents report a new status of all their Applications at once.
    async fn statuses(&mut self, agents: &[&Simulated]) -> Result<()> {
        let (id, count) = (self.id()?, agents.len() * self.sizes.each);
        let (used, begin) = (processor(id)?, Instant::now());
        for agent in agents {
            agent.report("final").await?;
        }
        let word = format!("{}-", self.word);
        let like = |namespace: &str, shown: &Shown| {
            namespace.starts_with(&word) && shown.deployed == "final"
        };
        let when = (begin, TOO_LONG);
        let (came, took) = self.seen.until_count(count, when, like).await;
        self.column.put(
            format!(
                "{} agents say {count} statuses, all seen on the hub",
                agents.len()
            ),
            rate(came, count, took),
        );
        let took = processor(id)?.saturating_sub(used);
        self.column.put(
            "the principal's processor time for these",
            format!("{:.2} s", took.as_secs_f64()),
        );
        Ok(())
    }

    /// Spec changes of one agent, alone and while another reports all its statuses repeatedly.
    async fn neighbours(&mut self, agents: &[&Simulated]) -> Result<()> {
        let (Some(quiet), Some(noisy)) = (agents.first(), agents.get(1)) else {
            return Ok(());
        };
        let alone = self.latencies(quiet, "alone").await?;
        self.column
            .put("spec change of one agent, idle, p50 / p99", alone.reply());
        let beside = tokio::select! {
            times = self.latencies(quiet, "beside") => times?,
            ended = noise(noisy) => return ended,
        };
        self.column.put(
            format!(
                "the same while another says {} statuses every {NOISE:?}",
                self.sizes.each
            ),
            beside.reply(),
        );
        Ok(())
    }

    async fn latencies(&self, agent: &Simulated, word: &str) -> Result<Times> {
        let probe = "app-0";
        let at = At::application(&agent.name, probe);
        let mut times = Times::within(LATE);
        let end = Instant::now() + SAMPLING;
        while times.count() < self.sizes.samples && Instant::now() < end {
            let revision = format!("{word}-{}", times.count());
            let begin = Instant::now();
            self.hub.merge(&at, applications::wanted(&revision)).await?;
            let there = agent.until(LATE, |received| {
                received.get(probe).is_some_and(|it| *it == revision)
            });
            times.add(there.await.map(|at| at - begin));
        }
        Ok(times)
    }

    async fn memory(&self) -> Result<u64> {
        sleep(REST).await;
        resident_kib(self.id()?)
    }

    fn id(&self) -> Result<u32> {
        self.process.id().context("the principal runs")
    }
}

/// Reports all statuses repeatedly.
async fn noise(agent: &Simulated) -> Result<()> {
    let mut ticks = interval(NOISE);
    for round in 0_u64.. {
        ticks.tick().await;
        agent.report(&format!("noise-{round}")).await?;
    }
    Ok(())
}
