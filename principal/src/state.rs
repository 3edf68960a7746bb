//! What the principal knows of its clusters at this moment: looked up when somebody asks, never kept up to date.
//!
//! ```text
//!   fleet ────┐                             ┌──> gauges, at each scrape: sums over all clusters
//!   registry ─┼──> Moment ──> Totals, rows ─┤
//!   lanes ────┘   (a copy)       (pure)     └──> pages of JSON, for whoever looks into the program
//! ```

use std::{
    fmt,
    sync::{Arc, OnceLock},
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

mod snapshot;
