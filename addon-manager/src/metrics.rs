//! All metrics of the hub programs: those of the manager itself, of the principal and of the SDK.
//!
//! All are registered here, so that `docs/metrics.md` can be generated.

use jiff::Timestamp;
use prometheus_client::metrics::{family::Family, gauge::Gauge};
use runtime::metrics::Registry;

use crate::issuer::{CA_SECRET, PRINCIPAL_SECRET, RESOURCE_PROXY_SECRET, rotation::Stage};

/// The commit of this build, if `GIT_COMMIT` was set.
const COMMIT: &str = match option_env!("GIT_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// The version of this program, with the commit of its build if that is known, as in semantic versioning.
pub fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match COMMIT {
        "unknown" => version.to_owned(),
        commit => format!("{version}+{commit}"),
    }
}

/// The metrics of the whole hub program.
#[derive(Clone, Debug)]
pub struct Whole {
    /// The manager's own.
    pub manager: Metrics,
    /// The SDK's.
    pub sdk: ocm::sdk::Metrics,
    /// The principal's.
    pub principal: principal::Metrics,
}

const STAGES: [Stage; 3] = [Stage::Settled, Stage::Introduced, Stage::Retiring];

/// Registers the metrics of the whole hub program.
pub fn whole(registry: &Registry) -> Whole {
    let principal = alone(registry);
    Whole {
        manager: Metrics::register(registry),
        sdk: registry.with(ocm::sdk::Metrics::register),
        principal,
    }
}

/// Registers the metrics of the principal alone.
pub fn alone(registry: &Registry) -> principal::Metrics {
    let version = env!("CARGO_PKG_VERSION");
    registry.program("argocd_agent_addon_manager", version, COMMIT);
    principal::Metrics::register(registry)
}

/// The name and the value of a series' only label.
type Label = [(&'static str, &'static str); 1];

/// The manager's metrics; clones share their values.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    leader: Gauge,
    replicas: Gauge,
    expiry: Family<Label, Gauge>,
    rotation: Family<Label, Gauge>,
    waits_for: Gauge,
}

impl Metrics {
    /// Creates and registers the metrics.
    fn register(registry: &Registry) -> Self {
        let metrics = Self::default();
        // Every series exists from the start; unknown values are zero.
        for secret in [CA_SECRET, PRINCIPAL_SECRET, RESOURCE_PROXY_SECRET] {
            metrics.expires(secret, Timestamp::UNIX_EPOCH);
        }
        for stage in STAGES {
            metrics.in_stage(stage, false);
        }
        let Self {
            leader,
            replicas,
            expiry,
            rotation,
            waits_for,
        } = metrics.clone();
        registry.with(|all| {
            let all = all.sub_registry_with_prefix("argocd_agent_addon_manager");
            let help = "1 if this replica is the leader; the sum over all replicas should be one";
            all.register("leader", help, leader);
            let help = "Live replicas, as this one sees them; 0 before it has renewed its own Lease";
            all.register("replicas", help, replicas);
            let help = "Expiry of a certificate in Unix seconds, by Secret; 0 while this replica does not know it; \
            less than a month ahead means that renewal fails";
            all.register("certificate_expiry_timestamp_seconds", help, expiry);
            let help = "1 for the current stage of the CA rotation, on the leader";
            all.register("ca_rotation_stage", help, rotation);
            let help = "Agents (and Secrets of the hub) that delay the next step of a CA rotation";
            all.register("ca_rotation_waits_for", help, waits_for);
        });
        metrics
    }

    /// Sets whether this replica leads.
    pub fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// Sets the number of live replicas.
    pub fn replicas(&self, count: usize) {
        self.replicas.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Sets the stage of the CA rotation, and the number of agents and Secrets that block it.
    pub fn rotation(&self, now: Stage, waits_for: usize) {
        for stage in STAGES {
            self.in_stage(stage, stage == now);
        }
        let count = i64::try_from(waits_for).unwrap_or(i64::MAX);
        self.waits_for.set(count);
    }

    fn in_stage(&self, stage: Stage, is_there: bool) {
        let label = [("stage", stage.as_str())];
        let gauge = self.rotation.get_or_create(&label);
        gauge.set(i64::from(is_there));
    }

    /// Sets the expiry of the certificate in a Secret.
    pub fn expires(&self, secret: &'static str, at: Timestamp) {
        let gauge = self.expiry.get_or_create(&[("use", secret)]);
        gauge.set(at.as_second());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_expiry_metric_per_use() {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry);
        metrics.leads(true);
        metrics.expires("argocd-agent-ca", Timestamp::UNIX_EPOCH);
        let text = registry.encode().unwrap();
        assert!(
            text.contains("argocd_agent_addon_manager_leader 1"),
            "{text}"
        );
        let line = "certificate_expiry_timestamp_seconds{use=\"argocd-agent-ca\"} 0";
        assert!(text.contains(line), "{text}");
    }
}
