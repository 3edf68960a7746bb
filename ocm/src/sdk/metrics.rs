//! What the SDK counts.

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use super::queue::Outcome;

/// The SDK's counters. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics {
    reconciles: Family<ReconcileLabels, Counter>,
    seconds: Histogram,
    writes: Family<WriteLabels, Counter>,
    refusals: Family<RefusalLabels, Counter>,
    certificates: Counter,
    waiting: Gauge,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReconcileLabels {
    controller: Controller,
    outcome: Ending,
}

/// What a reconcile is about.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, EncodeLabelValue)]
pub(crate) enum Controller {
    Cluster,
    Request,
    Configs,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, EncodeLabelValue)]
enum Ending {
    Settled,
    Soon,
    Behind,
    Failed,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct WriteLabels {
    what: Written,
}

/// What is written.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, EncodeLabelValue)]
pub(crate) enum Written {
    Registration,
    Conditions,
    Available,
    Hashes,
    WorkApplied,
    WorkDeleted,
    Finalizers,
    Permission,
    Approval,
    Certificate,
    Event,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RefusalLabels {
    reason: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            reconciles: Family::default(),
            seconds: Histogram::new([0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0]),
            writes: Family::default(),
            refusals: Family::default(),
            certificates: Counter::default(),
            waiting: Gauge::default(),
        }
    }
}

impl Metrics {
    /// Makes and registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let Self {
            reconciles,
            seconds,
            writes,
            refusals,
            certificates,
            waiting,
        } = metrics.clone();
        registry.register(
            "addon_reconciles",
            "Reconciles by what they are about and how they ended; Failed should not rise",
            reconciles,
        );
        registry.register(
            "addon_reconcile_seconds",
            "How long reconciles take",
            seconds,
        );
        registry.register(
            "addon_writes",
            "Writes to the hub; they should not rise while nothing changes",
            writes,
        );
        registry.register(
            "addon_requests_refused",
            "Certificate requests left pending, by reason; a rise means that somebody asks for \
             what is not theirs, or that a cluster's agent is misconfigured",
            refusals,
        );
        registry.register(
            "addon_certificates_issued",
            "Certificates signed",
            certificates,
        );
        registry.register(
            "addon_reconciles_waiting",
            "Keys that are due and not taken up yet; a lasting rise means too little concurrency",
            waiting,
        );
        metrics
    }

    pub(crate) fn reconciled(&self, controller: Controller, outcome: Outcome, seconds: f64) {
        let outcome = match outcome {
            Outcome::Settled(_) => Ending::Settled,
            Outcome::Soon => Ending::Soon,
            Outcome::Behind => Ending::Behind,
            Outcome::Failed => Ending::Failed,
        };
        self.reconciles
            .get_or_create(&ReconcileLabels {
                controller,
                outcome,
            })
            .inc();
        self.seconds.observe(seconds);
    }

    pub(crate) fn wrote(&self, what: Written) {
        self.writes.get_or_create(&WriteLabels { what }).inc();
        if what == Written::Certificate {
            self.certificates.inc();
        }
    }

    pub(crate) fn refused(&self, reason: &'static str) {
        self.refusals.get_or_create(&RefusalLabels { reason }).inc();
    }

    pub(crate) fn waiting(&self, count: usize) {
        self.waiting.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}
