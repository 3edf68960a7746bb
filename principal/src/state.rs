//! The principal's view of its clusters at one moment: computed on request, never kept up to date.
//!
//! ```text
//!   fleet ────┐                               ┌──> gauges, at each scrape: sums over all clusters
//!   registry ─┼──> Snapshot ──> Totals, rows ─┤
//!   tunnels ──┘    (a copy)        (pure)     └──> pages of JSON, for requests to the program
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

/// The state of a principal, as soon as it runs; clones share it.
#[derive(Clone, Debug, Default)]
pub struct State(Arc<OnceLock<Sources>>);

/// The sources of the state.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) registry: Registry,
    pub(crate) reports: watch::Receiver<Sessions>,
    pub(crate) fleet: watch::Receiver<Arc<Fleet>>,
    pub(crate) active: watch::Receiver<bool>,
    pub(crate) tunnels: Tunnels,
}

impl State {
    /// Sets the sources. A principal starts once, so the first call counts.
    pub(crate) fn follow(&self, sources: Sources) {
        drop(self.0.set(sources));
    }

    /// A copy of the current state; empty before the principal has started.
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

    /// A part of the current state as JSON, without secrets.
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
