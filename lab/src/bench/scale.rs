//! Many clusters on one hub: how long until all have their work, the manager's writes and memory, and the cost of a
//! reconcile of everything without a change.
//!
//! The hub's API server, its etcd and the manager are real; the clusters are simulated, and OCM's controllers are unless
//! `OCM_BIN_DIR` has the real ones. The agents never connect, so the last report about each cluster is that.
//!
//! | variable | |
//! |---|---|
//! | `BENCH_CLUSTERS` | how many clusters, 2,000 unless set |

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result};
use serde_json::json;
use tokio::time::Instant;

use super::{
    Table,
    crowd::Crowd,
    meter::{Counter, metric, peak, resident},
    ocm::Ocm,
};
use crate::{
    Cluster, Lab, argocd,
    audit::Mark,
    process::{Process, Program},
    product,
    progress::print,
    steps::{ADDON, At, Objects},
    wait,
};

const CLUSTERS: usize = 2000;
/// The manager's user here.
const USER: &str = "bench:manager";
/// Another port than 8000, which OCM's webhook before 1.3 has.
const METRICS: u16 = 18000;
/// A step is over when the manager has written nothing for this long.
const QUIET: Duration = Duration::from_secs(5);
/// The longest time until then.
const TOO_LONG: Duration = Duration::from_mins(10);
/// The objects of an install; Events, certificates and cluster Secrets are counted separately.
const COUNTED: [&str; 2] = ["managedclusteraddons", "manifestworks"];

/// The cost of a reconcile of everything, or of an install.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// How long it took.
    pub took: Duration,
    /// Writes by verb and kind, all clusters together.
    pub writes: BTreeMap<String, usize>,
    /// Writes to add-ons and works of the cluster that took most of them.
    pub most: usize,
    /// KiB that the API server sent meanwhile.
    pub kib: u64,
    /// The manager's resident memory at the end.
    pub mib: u64,
    /// The most of this manager process until then.
    pub peak_mib: u64,
}

impl Cost {
    /// All writes.
    pub fn total(&self) -> usize {
        self.writes.values().sum()
    }
}

/// The results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// How many clusters.
    pub clusters: usize,
    /// Whether OCM's own controllers ran on the hub.
    pub is_ocm_real: bool,
    /// The manager starts on a hub with that many clusters, none of which has the add-on.
    pub start: Cost,
    /// All of them get the add-on; the time is until the last has its work.
    pub install: Cost,
    /// The configuration that all of them use is touched without a change of its content.
    pub no_op: Cost,
    /// The manager starts again.
    pub restart: Cost,
}

/// The table of `make bench`.
pub(super) async fn tables(lab: Arc<Lab>) -> Result<Vec<Table>> {
    let clusters = std::env::var("BENCH_CLUSTERS").ok();
    let clusters = clusters.map(|text| text.parse().context("BENCH_CLUSTERS"));
    let measured = measure(lab, clusters.transpose()?.unwrap_or(CLUSTERS)).await?;
    Ok(vec![table(&measured), writes(&measured)])
}

fn table(measured: &Measured) -> Table {
    let ocm = if measured.is_ocm_real {
        "OCM's real controllers"
    } else {
        "OCM's controllers played"
    };
    let title = format!("{} simulated clusters on one hub, {ocm}", measured.clusters);
    let columns = [
        "step",
        "time",
        "writes to add-ons and works, most of a cluster",
        "all writes",
        "from the API",
        "manager's memory at the end / peak since its start",
    ];
    let mut table = Table::new(title, &columns);
    for (step, cost) in [
        ("start of the manager, no add-on yet", &measured.start),
        (
            "add-on on all clusters, until the last work is there",
            &measured.install,
        ),
        ("look at all, nothing has changed", &measured.no_op),
        ("restart of the manager", &measured.restart),
    ] {
        table.row(&[
            &step,
            &format!("{:.1} s", cost.took.as_secs_f32()),
            &cost.most,
            &cost.total(),
            &format!("{} KiB", cost.kib),
            &format!("{} / {} MiB", cost.mib, cost.peak_mib),
        ]);
    }
    table
}

fn writes(measured: &Measured) -> Table {
    let mut table = Table::new("The writes of the install", &["what", "count"]);
    for (what, count) in &measured.install.writes {
        table.row(&[what, count]);
    }
    table
}

/// The manager and its meters.
struct Manager {
    hub: Cluster,
    process: Process,
    counter: Counter,
}

/// Measures with this many clusters, on an empty hub.
pub async fn measure(lab: Arc<Lab>, clusters: usize) -> Result<Measured> {
    let hub = lab.hub().clone();
    let ocm = Ocm::start(&hub).await?;
    let edition = ocm.edition();
    argocd::prepare_hub(&hub, lab.tools()).await?;
    let crowd = Crowd::new(hub.client(), clusters, edition);
    step(&format!("{clusters} clusters are made"), crowd.join()).await?;
    edition.offer(hub.clone()).await?;

    let begin = Begin::now();
    let mut manager = Manager::start(hub.clone()).await?;
    let (owner, config) = edition.offered(hub.clone()).await?;
    let start = manager.cost(begin, Instant::now()).await?;
    let (mut works, _agents) = crowd.work_agents();

    let begin = Begin::of(&manager)?;
    let enabling = step("the add-on is on everywhere", crowd.enable(&owner, &config));
    let all = async {
        let there = works.wait_for(|count| *count == clusters).await;
        there
            .map(|_| Instant::now())
            .context("the works are watched")
    };
    let ((), there) = tokio::try_join!(enabling, all)?;
    let reported = edition.until_reported(hub.clone(), clusters);
    step("the manager has reported every cluster", reported).await?;
    let install = manager.cost(begin, there).await?;

    let begin = Begin::of(&manager)?;
    let before = reconciles().await?;
    let touched = json!({ "metadata": { "annotations": { "example.com/touched": "yes" } } });
    let config = At::addon_config(product::NAMESPACE, ADDON);
    Objects::new(hub.client()).merge(&config, touched).await?;
    until_reconciled(before + clusters as u64).await?;
    let no_op = manager.cost(begin, Instant::now()).await?;

    manager.process.stop().await;
    let begin = Begin::of(&manager)?;
    manager.process.restart()?;
    until_reconciled(clusters as u64).await?;
    let restart = manager.cost(begin, Instant::now()).await?;
    manager.process.stop().await;
    ocm.stop().await;
    Ok(Measured {
        clusters,
        is_ocm_real: edition.is_real,
        start,
        install,
        no_op,
        restart,
    })
}

/// Carries out a step of the preparation, and prints how long it took.
pub(super) async fn step<T>(what: &str, act: impl Future<Output = Result<T>>) -> Result<T> {
    let begin = Instant::now();
    let done = act.await?;
    print(format_args!(
        "{what} ({:.1} s)",
        begin.elapsed().as_secs_f32()
    ));
    Ok(done)
}

/// The state at the begin of a measurement.
struct Begin {
    at: Instant,
    mark: Mark,
    kib: u64,
}

impl Begin {
    /// Before the manager's first start.
    fn now() -> Self {
        Self {
            at: Instant::now(),
            mark: Mark::default(),
            kib: 0,
        }
    }

    fn of(manager: &Manager) -> Result<Self> {
        Ok(Self {
            at: Instant::now(),
            mark: manager.hub.audit().mark()?,
            kib: manager.counter.kib(),
        })
    }
}

impl Manager {
    /// Starts it, with an API that counts bytes.
    async fn start(hub: Cluster) -> Result<Self> {
        let api = SocketAddr::from((Ipv4Addr::LOCALHOST, hub.api_port()));
        let counter = Counter::start(api).await?;
        let kubeconfig = hub.kubeconfig_for(USER, Some("system:masters"))?;
        let text = std::fs::read_to_string(&kubeconfig)?;
        let metered = text.replace(hub.api_url(), &format!("https://{}", counter.address()));
        std::fs::write(&kubeconfig, metered)?;
        let process = program(&hub, &kubeconfig)?.start()?;
        Ok(Self {
            hub,
            process,
            counter,
        })
    }

    /// Waits until it has written nothing for a while.
    async fn until_quiet(&self) -> Result<()> {
        let audit = self.hub.audit();
        let mut seen = audit.mark()?;
        let count = || {
            let now = audit.mark()?;
            let entries = audit.by(USER, seen)?;
            seen = now;
            Ok(entries.iter().filter(|entry| entry.is_write()).count())
        };
        wait::quiet(TOO_LONG, QUIET, "the manager writes nothing", count).await
    }

    /// The cost of a step that was over at this time. The last writes, such as those to cluster Secrets, come later on a
    /// busy machine, and count with it.
    async fn cost(&self, begin: Begin, end: Instant) -> Result<Cost> {
        self.until_quiet().await?;
        let entries = self.hub.audit().by(USER, begin.mark)?;
        let mut writes = BTreeMap::<String, usize>::new();
        let mut clusters = BTreeMap::<String, usize>::new();
        for entry in entries.iter().filter(|entry| entry.is_write()) {
            let object = entry.object.clone().unwrap_or_default();
            let mut what = format!("{} {}", entry.verb, object.kind());
            // The field manager names the part of the status.
            if !entry.field_manager.is_empty() {
                what = format!("{what} as {}", entry.field_manager);
            }
            let refused = entry.code >= 400;
            if refused {
                // A conflict with another writer; the manager retries.
                what = format!("{what}, refused with {}", entry.code);
            }
            *writes.entry(what).or_default() += 1;
            if !refused && COUNTED.contains(&object.resource.as_str()) {
                *clusters.entry(object.namespace).or_default() += 1;
            }
        }
        let process = self.process.id().context("the manager runs")?;
        Ok(Cost {
            took: end - begin.at,
            writes,
            most: clusters.into_values().max().unwrap_or_default(),
            kib: self.counter.kib() - begin.kib,
            mib: resident(process)?,
            peak_mib: peak(process)?,
        })
    }
}

/// The hub program as a bare process, with a principal that no agent dials.
pub(super) fn program(hub: &Cluster, kubeconfig: &Path) -> Result<Program> {
    let program = product::programs()?.join("addon-manager");
    Ok(Program::new("addon-manager", program, hub.dir())
        .flag("kubeconfig", kubeconfig)
        .flag("own-namespace", product::NAMESPACE)
        .flag("leader-election", "false")
        .flag("principal-address", "principal.example.com:443")
        .flag("metrics-port", METRICS.to_string())
        .flag("log-level", "warn"))
}

async fn reconciles() -> Result<u64> {
    metric(METRICS, "addon_reconciles_total", "outcome=\"Settled\"").await
}

async fn until_reconciled(wanted: u64) -> Result<()> {
    let what = format!("{wanted} reconciles are done");
    wait::slowly(TOO_LONG, &what, reconciles, |count| *count >= wanted)
        .await
        .map(drop)
}
