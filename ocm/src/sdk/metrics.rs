//! The metrics of the SDK.

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Metric, Registry},
};

use super::{csr, key::Controller, queue::Outcome};

/// A counter by the value of one label, with the label's name.
type CounterBy<V> = Family<[(&'static str, V); 1], Counter>;

/// The SDK's counters. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics {
    reconciles: Family<ReconcileLabels, Counter>,
    seconds: Histogram,
    writes: CounterBy<Written>,
    refusals: CounterBy<&'static str>,
    certificates: Counter,
    waiting: Gauge,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReconcileLabels {
    controller: Controller,
    outcome: Ending,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, EncodeLabelValue)]
enum Ending {
    Settled,
    Soon,
    Behind,
    Failed,
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

impl Default for Metrics {
    fn default() -> Self {
        Self::register(&mut Registry::default())
    }
}

fn registered<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

impl Metrics {
    /// Creates and registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            reconciles: registered(
                registry,
                "addon_reconciles",
                "Reconciles by kind and outcome; Failed should not rise",
                Family::default(),
            ),
            seconds: registered(
                registry,
                "addon_reconcile_seconds",
                "Duration of reconciles; a rise means that the hub's API is slow",
                Histogram::new([0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0]),
            ),
            writes: registered(
                registry,
                "addon_writes",
                "Writes to the hub; they should not rise while nothing changes",
                Family::default(),
            ),
            refusals: registered(
                registry,
                "addon_requests_refused",
                "Certificate requests left pending, by reason; a rise means that a requester asks for a foreign \
                identity, or that a cluster's agent is misconfigured",
                Family::default(),
            ),
            certificates: registered(
                registry,
                "addon_certificates_issued",
                "Certificates signed; a rise means that clusters join or renew",
                Counter::default(),
            ),
            waiting: registered(
                registry,
                "addon_reconciles_waiting",
                "Queued keys that are due; a lasting rise means too little concurrency",
                Gauge::default(),
            ),
        };
        metrics.begin();
        metrics
    }

    /// Creates every series at zero, so that a rate includes the first event.
    fn begin(&self) {
        for controller in [
            Controller::Cluster,
            Controller::Request,
            Controller::Configs,
        ] {
            for outcome in [
                Ending::Settled,
                Ending::Soon,
                Ending::Behind,
                Ending::Failed,
            ] {
                let labels = ReconcileLabels {
                    controller,
                    outcome,
                };
                drop(self.reconciles.get_or_create_owned(&labels));
            }
        }
        for what in [
            Written::Registration,
            Written::Conditions,
            Written::Available,
            Written::Hashes,
            Written::WorkApplied,
            Written::WorkDeleted,
            Written::Finalizers,
            Written::Permission,
            Written::Approval,
            Written::Certificate,
            Written::Event,
        ] {
            drop(self.writes.get_or_create_owned(&[("what", what)]));
        }
        for reason in csr::REASONS {
            drop(self.refusals.get_or_create_owned(&[("reason", reason)]));
        }
    }

    pub(crate) fn reconciled(&self, controller: Controller, outcome: Outcome, seconds: f64) {
        let outcome = match outcome {
            Outcome::Settled(_) => Ending::Settled,
            Outcome::Soon => Ending::Soon,
            Outcome::Behind => Ending::Behind,
            Outcome::Failed => Ending::Failed,
        };
        let labels = ReconcileLabels {
            controller,
            outcome,
        };
        self.reconciles.get_or_create(&labels).inc();
        self.seconds.observe(seconds);
    }

    pub(crate) fn wrote(&self, what: Written) {
        self.writes.get_or_create(&[("what", what)]).inc();
        if what == Written::Certificate {
            self.certificates.inc();
        }
    }

    pub(crate) fn refused(&self, reason: &'static str) {
        debug_assert!(
            csr::REASONS.contains(&reason),
            "{reason} is not on the list"
        );
        self.refusals.get_or_create(&[("reason", reason)]).inc();
    }

    pub(crate) fn waiting(&self, count: usize) {
        self.waiting.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}
