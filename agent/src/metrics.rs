//! Counters and gauges of the agent; the names of the Go agent where it has them.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use runtime::metrics::Registry;

/// What a write to the spoke's API was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum WriteKind {
    /// A new object.
    Create,
    /// A changed object.
    Patch,
    /// An object that goes.
    Delete,
}

/// Labels of [`Metrics::writes`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct WriteLabels {
    /// What for.
    pub write: WriteKind,
}

/// Labels of [`Metrics::link_ends`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct EndLabels {
    /// Why; one of a fixed list.
    pub reason: &'static str,
}

/// Labels of [`Metrics::sessions`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct TransportLabels {
    /// Over what: `http2` or `websocket`.
    pub transport: &'static str,
}

/// All of them; clones count together.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    /// 1 while connected.
    pub connected: Gauge,
    /// Since when, in seconds of Unix time; 0 while not connected.
    pub connected_since: Gauge<f64, AtomicU64>,
    /// Sessions begun.
    pub connections: Counter,
    /// The same by what they go over.
    pub sessions: Family<TransportLabels, Counter>,
    /// Authentications refused.
    pub auth_failures: Counter,
    /// Why connections ended or did not begin.
    pub link_ends: Family<EndLabels, Counter>,
    /// Messages from the hub.
    pub received: Counter,
    /// Messages to the hub.
    pub sent: Counter,
    /// Objects that something still has to be said about.
    pub outbox_objects: Gauge,
    /// Age of the oldest message without an answer.
    pub outbox_oldest: Gauge<f64, AtomicU64>,
    /// Writes to the spoke's API.
    pub writes: Family<WriteLabels, Counter>,
    /// Writes to the spoke's API that failed.
    pub write_failures: Counter,
    /// Local edits that were reverted.
    pub reverts: Counter,
    /// When our certificate expires, in seconds of Unix time.
    pub certificate_expiry: Gauge,
}

impl Metrics {
    /// Registers all of them.
    pub fn register(registry: &Registry) -> Self {
        let metrics = Self::default();
        let m = metrics.clone();
        registry.with(|r| {
            let status = "1 while connected to the principal";
            r.register("argocd_agent_connection_status", status, m.connected);
            let since = "Since when the agent is connected; 0 while it is not";
            r.register(
                "argocd_agent_connection_start_timestamp_seconds",
                since,
                m.connected_since,
            );
            r.register("argocd_agent_connections", "Sessions begun", m.connections);
            r.register(
                "argocd_agent_sessions",
                "Sessions begun, by what they go over",
                m.sessions,
            );
            let failures = "Authentications that the principal refused";
            r.register("argocd_agent_auth_failures", failures, m.auth_failures);
            let ends = "Connections that ended or did not begin; a rise says that the link is bad";
            r.register("argocd_agent_link_ends", ends, m.link_ends);
            r.register(
                "agent_events_received",
                "Messages from the principal",
                m.received,
            );
            r.register("agent_events_sent", "Messages to the principal", m.sent);
            let outbox = "Objects that something still has to be said about";
            r.register("argocd_agent_outbox_objects", outbox, m.outbox_objects);
            let oldest = "Age of the oldest message that the principal did not answer";
            r.register(
                "argocd_agent_outbox_oldest_seconds",
                oldest,
                m.outbox_oldest,
            );
            r.register(
                "argocd_agent_writes",
                "Writes to the API of this cluster",
                m.writes,
            );
            let failed = "Writes to the API of this cluster that failed";
            r.register("argocd_agent_write_failures", failed, m.write_failures);
            let reverts = "Local edits reverted; a steady rise says that two fight over an object";
            r.register("argocd_agent_reverts", reverts, m.reverts);
            let expiry = "When the client certificate expires";
            r.register(
                "argocd_agent_certificate_expiry_timestamp_seconds",
                expiry,
                m.certificate_expiry,
            );
        });
        metrics
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_the_go_agent_are_kept() {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry);
        metrics.connections.inc();
        let text = registry.encode().unwrap();
        for name in [
            "argocd_agent_connection_status 0",
            "argocd_agent_connections_total 1",
            "argocd_agent_auth_failures_total 0",
            "agent_events_received_total 0",
        ] {
            assert!(text.contains(name), "{name} in {text}");
        }
    }
}
