//! What the principal knows of its clusters at this moment: looked up when somebody asks, never kept up to date.
//!
//! ```text
//!   fleet ────┐                             ┌──> gauges, at each scrape: sums over all clusters
//!   registry ─┼──> Moment ──> Totals, rows ─┤
//!   lanes ────┘   (a copy)       (pure)     └──> pages of JSON, for whoever looks into the program
//! ```

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};
use runtime::{admin::Page, metrics::Gauges};
use serde_json::Value;
use tokio::{sync::watch, time::Instant};

use crate::{admission::registry::Registry, fleet::Fleet, live::tunnel::Tunnels, report::Sessions};

pub(crate) use snapshot::Snapshot;

/// Where the state of a principal can be seen, as soon as it runs; clones see the same.
#[derive(Clone, Debug, Default)]
pub struct State(Arc<OnceLock<Sources>>);

/// Where it is looked up.
pub(crate) struct Sources {
    pub(crate) registry: Registry,
    pub(crate) reports: watch::Receiver<Sessions>,
    pub(crate) fleet: watch::Receiver<Arc<Fleet>>,
    pub(crate) active: watch::Receiver<bool>,
    pub(crate) tunnels: Tunnels,
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").finish_non_exhaustive()
    }
}

/// What a session shows of itself, as of its last turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Objects that something still has to be said about.
    pub(crate) outbox_objects: usize,
    /// Events sent and not acknowledged.
    pub(crate) in_flight: usize,
    /// For how long the oldest of them is not acknowledged; without commands and deletes, which may take their time.
    pub(crate) unacknowledged: Duration,
    /// Objects received and not done.
    pub(crate) inbox_objects: usize,
    /// How long ago both ends last had the same, as far as comparing tells.
    pub(crate) agreed: Option<Duration>,
    /// How long ago the agent was heard.
    pub(crate) arrived: Duration,
}

impl Figures {
    /// The same a while later, when nothing has happened since.
    pub(crate) fn after(self, passed: Duration) -> Self {
        let waits = !self.unacknowledged.is_zero();
        let unacknowledged = self.unacknowledged;
        Self {
            unacknowledged: if waits {
                unacknowledged + passed
            } else {
                unacknowledged
            },
            agreed: self.agreed.map(|ago| ago + passed),
            arrived: self.arrived + passed,
            ..self
        }
    }
}

impl State {
    /// From now on it is looked up there. A principal starts once, and so the first word counts.
    pub(crate) fn follow(&self, sources: Sources) {
        drop(self.0.set(sources));
    }

    /// A copy of what is now; nothing is known before the principal has started.
    fn moment(&self) -> Snapshot {
        let Some(sources) = self.0.get() else {
            return Snapshot::default();
        };
        let now = Instant::now();
        let fleet = Arc::clone(&sources.fleet.borrow());
        let reports = Arc::clone(&sources.reports.borrow());
        Snapshot {
            is_active: *sources.active.borrow(),
            fleet,
            reports,
            figures: sources.registry.figures(now),
            tunnels: sources.tunnels.count(),
        }
    }

    /// A part of what is now as JSON, without secrets.
    pub fn page(&self, page: &Page) -> Value {
        self.moment().page(page)
    }
}

impl Collector for State {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.moment().totals().encode(&mut Gauges::new(encoder))
    }
}

/// How many there are of each cluster.
pub(crate) type ByCluster<T> = BTreeMap<String, T>;
mod snapshot;
