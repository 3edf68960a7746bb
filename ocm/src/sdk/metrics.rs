//! The metrics of the SDK.

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use super::{csr, queue::Outcome};

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

/// The kind of a reconcile.
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

impl Controller {
    const ALL: [Self; 3] = [Self::Cluster, Self::Request, Self::Configs];
}

impl Ending {
    const ALL: [Self; 4] = [Self::Settled, Self::Soon, Self::Behind, Self::Failed];
}

/// The kind of a write.
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

impl Written {
    const ALL: [Self; 11] = [
        Self::Registration,
        Self::Conditions,
        Self::Available,
        Self::Hashes,
        Self::WorkApplied,
        Self::WorkDeleted,
        Self::Finalizers,
        Self::Permission,
        Self::Approval,
        Self::Certificate,
        Self::Event,
    ];
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
    /// Creates and registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        metrics.begin();
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
            "Reconciles by kind and outcome; Failed should not rise",
            reconciles,
        );
        registry.register(
            "addon_reconcile_seconds",
            "Duration of reconciles; a rise means that the hub's API is slow",
            seconds,
        );
        registry.register(
            "addon_writes",
            "Writes to the hub; they should not rise while nothing changes",
            writes,
        );
        registry.register(
            "addon_requests_refused",
            "Certificate requests left pending, by reason; a rise means that a requester asks for a foreign \
            identity, or that a cluster's agent is misconfigured",
            refusals,
        );
        registry.register(
            "addon_certificates_issued",
            "Certificates signed; a rise means that clusters join or renew",
            certificates,
        );
        registry.register(
            "addon_reconciles_waiting",
            "Queued keys that are due; a lasting rise means too little concurrency",
            waiting,
        );
        metrics
    }

    /// Creates every series at zero, so that a rate includes the first event.
    fn begin(&self) {
        for controller in Controller::ALL {
            for outcome in Ending::ALL {
                let labels = ReconcileLabels {
                    controller,
                    outcome,
                };
                drop(self.reconciles.get_or_create_owned(&labels));
            }
        }
        for what in Written::ALL {
            drop(self.writes.get_or_create_owned(&WriteLabels { what }));
        }
        for reason in csr::REASONS {
            drop(self.refusals.get_or_create_owned(&RefusalLabels { reason }));
        }
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
        debug_assert!(
            csr::REASONS.contains(&reason),
            "{reason} is not on the list"
        );
        self.refusals.get_or_create(&RefusalLabels { reason }).inc();
    }

    pub(crate) fn waiting(&self, count: usize) {
        self.waiting.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}
