//! The fleet page of Argo CD's UI: how long until it has its first table, and the cost of a thousand open pages for the hub
//! program.
//!
//! The hub's API server, its etcd and the hub program are real; the clusters and OCM's controllers are simulated, and no agent
//! connects. Requests are those of Argo CD's proxy, on the hub program's own port. Where the lab has a browser, it opens the page in
//! the stand-in for Argo CD's shell. It fails when a figure exceeds its bound.
//!
//! | variable | |
//! |---|---|
//! | `BENCH_CLUSTERS` | how many clusters; 5,000 unless set |
//! | `BENCH_APPLICATIONS` | Applications, spread over the clusters; 20,000 unless set |
//! | `BENCH_PAGES` | open pages; 1,000 unless set |

mod browser;
mod client;
mod front;
mod pages;
mod report;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use futures::FutureExt as _;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{
    Table, applications,
    crowd::Crowd,
    figures::{Times, variable},
    meter::{processor, resident_kib},
    ocm::{Edition, Ocm},
    scale::{program, step},
};
use crate::{
    Cluster, Lab, argocd,
    process::Process,
    progress::print,
    steps::{At, Objects},
    tools::browser::Browser,
    wait,
};

use client::{Answer, Ask, Endpoint};
use report::{InBrowser, Load, Report};

/// The hub program's port for the UI.
const PORT: u16 = 8081;
/// The hub program's user.
const USER: &str = "bench:manager";
/// How long the hub program is watched without a page.
const IDLE: Duration = Duration::from_secs(30);
/// How long the pages poll.
const POLLS: Duration = Duration::from_mins(1);
/// The pause between two samples of memory.
const SAMPLE: Duration = Duration::from_millis(20);
/// After this time the hub program computes the next answer.
const OLD: Duration = Duration::from_millis(2_500);
/// The samples of each kind of answer.
const SAMPLES: usize = 10;
/// An answer that takes longer counts as missing.
const LATE: Duration = Duration::from_secs(10);
/// The interval of changes.
const CHANGES: Duration = Duration::from_secs(1);

/// The sizes of everything.
#[derive(Clone, Copy)]
struct Sizes {
    clusters: usize,
    applications: usize,
    pages: usize,
}

/// The table of `make bench`.
pub(super) async fn tables(lab: Arc<Lab>) -> Result<Vec<Table>> {
    let sizes = Sizes {
        clusters: variable("BENCH_CLUSTERS", 5_000)?,
        applications: variable("BENCH_APPLICATIONS", 20_000)?,
        pages: variable("BENCH_PAGES", 1_000)?,
    };
    ensure!(
        sizes.clusters > 0 && sizes.applications > 0 && sizes.pages > 0,
        "no clusters, Applications or pages"
    );
    let hub = lab.hub().clone();
    argocd::prepare_hub(&hub, lab.tools()).await?;
    let ocm = Ocm::play(&hub).await?;
    let edition = ocm.edition();
    let crowd = Crowd::new(hub.client(), sizes.clusters, edition);
    let what = format!("{} clusters are made", sizes.clusters);
    step(&what, crowd.join()).await?;
    edition.offer(hub.clone()).await?;
    let mut process = start(&hub)?;
    let fleet = Fleet {
        hub,
        edition,
        crowd,
        sizes,
    };
    let measured = Box::pin(fleet.measure(&process)).await;
    let alive = process.check();
    let log = process.log_tail();
    process.stop().await;
    ocm.stop().await;
    alive.with_context(|| log.clone())?;
    let report = measured.with_context(|| log)?;
    Ok(vec![report.table()])
}

fn start(hub: &Cluster) -> Result<Process> {
    let kubeconfig = hub.kubeconfig_for(USER, Some("system:masters"))?;
    let program = program(hub, &kubeconfig)?;
    program.flag("ui-api-port", PORT.to_string()).start()
}

/// The hub, with clusters that have no add-on yet.
struct Fleet {
    hub: Cluster,
    edition: Edition,
    crowd: Crowd,
    sizes: Sizes,
}

impl Fleet {
    /// Creates add-ons and Applications, and measures.
    async fn measure(&self, process: &Process) -> Result<Report> {
        let Self {
            hub,
            edition,
            crowd,
            sizes,
        } = self;
        let (owner, config) = edition.offered(hub.clone()).await?;
        let (_works, _agents) = crowd.work_agents();
        step("the add-on is on everywhere", crowd.enable(&owner, &config)).await?;
        let reported = edition.until_reported(hub.clone(), sizes.clusters);
        step("the manager has reported every cluster", reported).await?;
        let objects = Objects::new(hub.client());
        let what = format!("{} Applications are made", sizes.applications);
        step(&what, make(&objects, crowd, sizes.applications)).await?;

        let endpoint = Arc::new(Endpoint::of(&objects, PORT).await?);
        let id = process.id().context("the hub program runs")?;
        let (used, begin) = (processor(id)?, Instant::now());
        sleep(IDLE).await;
        let idle = [begin.elapsed(), processor(id)?.saturating_sub(used)];
        let idle_kib = resident_kib(id)?;
        let (first, bytes) = first(&endpoint).await?;
        let computed = sampled(&endpoint, OLD, None).await?;
        let kept = sampled(&endpoint, Duration::ZERO, None).await?;
        let tag = tag(&endpoint).await?;
        let same = sampled(&endpoint, Duration::ZERO, Some(&tag)).await?;
        let browser = open(&endpoint, hub).await;
        let quiet = load(&endpoint, id, sizes.pages, std::future::pending()).await?;
        let changing = load(&endpoint, id, sizes.pages, change(&objects)).await?;
        // Each page gets a first table in any case.
        let is_seen = changing.polls.fresh > sizes.pages;
        ensure!(is_seen, "no page has got a change");
        Ok(Report {
            clusters: sizes.clusters,
            applications: sizes.applications,
            pages: sizes.pages,
            idle,
            idle_kib,
            first,
            bytes,
            computed,
            kept,
            same,
            browser,
            loads: [quiet, changing],
        })
    }
}

/// Creates Applications with the status that healthy ones have, for each cluster about as many.
async fn make(hub: &Objects, crowd: &Crowd, count: usize) -> Result<()> {
    applications::allow(hub, argocd::NAMESPACE).await?;
    let clusters = crowd.names().iter().cycle();
    let makes = (0..count).zip(clusters).map(|(number, cluster)| {
        let at = application(number);
        let mut body = applications::body(cluster);
        body["status"] = applications::status("v0");
        async move { hub.apply(&at, body).await }.boxed()
    });
    applications::all(makes).await
}

fn application(number: usize) -> At {
    At::application(argocd::NAMESPACE, &format!("app-{number:05}"))
}

/// The time of the first answer with a table, and the sizes of an answer.
async fn first(endpoint: &Endpoint) -> Result<(Duration, [usize; 2])> {
    let ask = || endpoint.fleet(Ask::First);
    let is_table = |answer: &Answer| answer.status == 200;
    // Where it is not ready yet, it refuses without an effort.
    let what = "the hub program answers with the fleet";
    let first = wait::until(what, ask, is_table).await?;
    let plain = endpoint.fleet(Ask::Plain).await?;
    Ok((first.took, [first.bytes, plain.bytes]))
}

/// The tag of the present answer.
async fn tag(endpoint: &Endpoint) -> Result<String> {
    let answer = endpoint.fleet(Ask::First).await?;
    answer.tag.context("an answer without ETag")
}

/// The times of some answers, each after a pause; with a tag, of those that nothing has changed.
async fn sampled(endpoint: &Endpoint, pause: Duration, tag: Option<&str>) -> Result<Times> {
    let mut times = Times::within(LATE);
    for _ in 0..SAMPLES {
        sleep(pause).await;
        let ask = tag.map_or(Ask::First, Ask::Again);
        let answer = endpoint.fleet(ask).await?;
        let wanted = if tag.is_some() { 304 } else { 200 };
        ensure!(answer.status == wanted, "{answer:?}, not {wanted}");
        times.add((answer.took <= LATE).then_some(answer.took));
    }
    Ok(times)
}

/// Opens the page in a browser, if there is one.
async fn open(endpoint: &Arc<Endpoint>, hub: &Cluster) -> InBrowser {
    let Ok(browser) = Browser::find() else {
        return InBrowser::Absent;
    };
    let log = hub.dir().join("browser.log");
    match browser::first_tables(&browser, Arc::clone(endpoint), &log).await {
        Ok(times) => InBrowser::Opened(times),
        // The other figures have taken long.
        Err(error) => {
            let reason = format!("{error:#}");
            print(&reason);
            InBrowser::Failed(reason)
        }
    }
}

/// The cost of open pages while something else goes on, which does not end by itself.
async fn load(
    endpoint: &Endpoint,
    process: u32,
    pages: usize,
    beside: impl Future<Output = Result<()>>,
) -> Result<Load> {
    let (used, begin) = (processor(process)?, Instant::now());
    let most = AtomicU64::new(0);
    let meanwhile = async { tokio::try_join!(beside, sample(process, &most)) };
    let polls = tokio::select! {
        polls = pages::poll(endpoint, pages, POLLS) => polls?,
        ended = meanwhile => {
            ended?;
            bail!("the changes and the samples have ended")
        }
    };
    Ok(Load {
        polls,
        lasted: begin.elapsed(),
        processor: processor(process)?.saturating_sub(used),
        most_kib: most.into_inner(),
    })
}

/// Notes the most memory of a process, for ever.
async fn sample(process: u32, most: &AtomicU64) -> Result<()> {
    loop {
        most.fetch_max(resident_kib(process)?, Ordering::Relaxed);
        sleep(SAMPLE).await;
    }
}

/// Changes the health of an Application in each interval, for ever. The hub program computes an answer more often than a value
/// comes again, so that each of them is new.
async fn change(hub: &Objects) -> Result<()> {
    let values = ["Degraded", "Progressing", "Suspended", "Missing", "Healthy"];
    for health in values.into_iter().cycle() {
        let patch = json!({"status": {"health": {"status": health}}});
        hub.merge(&application(0), patch).await?;
        sleep(CHANGES).await;
    }
    Ok(())
}
