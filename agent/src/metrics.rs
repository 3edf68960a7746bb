//! Counters and gauges of the agent, with the Go agent's names where it has them.
//!
//! All metrics are registered here, so that `docs/metrics.md` can be generated from them.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry as Recorder;
use runtime::metrics::{ByWord, Registry};

/// The commit of this build, if the build sets it.
const COMMIT: &str = match option_env!("GIT_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// Why connections end or fail; the session counts with these reasons.
pub(crate) const ENDS: &[&str] = &[
    "BadAddress",
    "BadAnswer",
    "BadCredentials",
    "Broken",
    "CannotConnect",
    "CannotProve",
    "Closed",
    "ConnectTimeout",
    "NoCertificates",
    "NotAuthenticated",
    "NotKnownHere",
    "ProxyFailed",
    "Renewed",
    "Restored",
    "Silent",
    "Stopped",
    "TlsFailed",
    "VersionFailed",
    "Violation",
];

/// The kinds of writes to the spoke's API.
const WRITES: [&str; 3] = ["create", "patch", "delete"];

/// Registers all metrics of the agent.
pub fn register(registry: &Registry) -> Metrics {
    registry.program("argocd_agent", env!("CARGO_PKG_VERSION"), COMMIT);
    let metrics = Metrics::default();
    registry.with(|all| {
        connection(all, &metrics);
        work(all, &metrics);
    });
    metrics
}

/// All metrics; clones share their values.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// 1 while connected.
    pub connected: Gauge,
    /// Start of the connection in seconds of Unix time; 0 while not connected.
    pub connected_since: Gauge<f64, AtomicU64>,
    /// Started sessions.
    pub connections: Counter,
    /// Started sessions by transport.
    pub sessions: ByWord,
    /// Authentications that the principal rejected.
    pub auth_failures: Counter,
    /// Failed and lost connections by reason.
    pub link_ends: ByWord,
    /// Messages from the hub.
    pub received: Counter,
    /// Messages to the hub.
    pub sent: Counter,
    /// Objects in the outbox.
    pub outbox_objects: Gauge,
    /// Age of the oldest unacknowledged message.
    pub outbox_oldest: Gauge<f64, AtomicU64>,
    /// Received objects that are not yet applied.
    pub inbox_objects: Gauge,
    /// Resyncs with the hub.
    pub resyncs: Counter,
    /// Time of the last resync in seconds of Unix time.
    pub last_resync: Gauge,
    /// Open tunnels.
    pub agent_tunnels: Gauge,
    /// Live requests by class of the HTTP status.
    pub tunnel_requests: ByWord,
    /// Writes to the spoke's API.
    pub writes: ByWord,
    /// Writes to the spoke's API that failed.
    pub write_failures: Counter,
    /// Reverted local edits.
    pub reverts: Counter,
    /// When our certificate expires, in seconds of Unix time.
    pub certificate_expiry: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            connected: Gauge::default(),
            connected_since: Gauge::default(),
            connections: Counter::default(),
            sessions: ByWord::new("transport", ["http2", "websocket"]),
            auth_failures: Counter::default(),
            link_ends: ByWord::new("reason", ENDS.iter().copied()),
            received: Counter::default(),
            sent: Counter::default(),
            outbox_objects: Gauge::default(),
            outbox_oldest: Gauge::default(),
            inbox_objects: Gauge::default(),
            resyncs: Counter::default(),
            last_resync: Gauge::default(),
            agent_tunnels: Gauge::default(),
            tunnel_requests: ByWord::new("status", ["1xx", "2xx", "3xx", "4xx", "5xx"]),
            writes: ByWord::new("write", WRITES),
            write_failures: Counter::default(),
            reverts: Counter::default(),
            certificate_expiry: Gauge::default(),
        }
    }
}

/// Metrics of the connection to the principal.
fn connection(all: &mut Recorder, metrics: &Metrics) {
    let m = metrics.clone();
    let status = "1 while connected to the principal; 0 for minutes means that the hub no longer steers this cluster";
    all.register("argocd_agent_connection_status", status, m.connected);
    let since = "Start of the current connection in Unix seconds; 0 while disconnected";
    let name = "argocd_agent_connection_start_timestamp_seconds";
    all.register(name, since, m.connected_since);
    let begun = "Sessions started; a steady rise means that connections do not last";
    all.register("argocd_agent_connections", begun, m.connections);
    let over =
        "Sessions started, by transport; a rise of websocket means that a proxy blocks HTTP/2";
    m.sessions.register(all, "argocd_agent_sessions", over);
    let failures = "Authentications that the principal rejected; a rise means that this cluster is not admitted";
    all.register("argocd_agent_auth_failures", failures, m.auth_failures);
    let ends = "Failed or lost connections; a rise means that the connection is unreliable";
    m.link_ends.register(all, "argocd_agent_link_ends", ends);
    let expiry = "Expiry of the client certificate in Unix seconds; 0 if there is none; less than a week ahead \
    means that renewal fails";
    let name = "argocd_agent_certificate_expiry_timestamp_seconds";
    all.register(name, expiry, m.certificate_expiry);
}

/// Metrics of messages, writes and live requests.
fn work(all: &mut Recorder, metrics: &Metrics) {
    let m = metrics.clone();
    let received = "Messages from the principal; a rise is work";
    all.register("agent_events_received", received, m.received);
    let sent = "Messages to the principal; a rise is work";
    all.register("agent_events_sent", sent, m.sent);
    let outbox =
        "Objects queued for the principal; a lasting rise means that the hub does not keep up";
    all.register("argocd_agent_outbox_objects", outbox, m.outbox_objects);
    let oldest = "Age of the oldest message without an answer of the principal; a steady rise means that the hub is stuck";
    let name = "argocd_agent_outbox_oldest_seconds";
    all.register(name, oldest, m.outbox_oldest);
    let inbox = "Received objects not yet applied; a lasting rise means that the API of this cluster is slow";
    all.register("argocd_agent_inbox_objects", inbox, m.inbox_objects);
    let resyncs = "Resyncs with the hub, on connect and every few minutes";
    all.register("argocd_agent_resyncs", resyncs, m.resyncs);
    let last = "Time of the last resync in Unix seconds; 0 before the first";
    let name = "argocd_agent_last_resync_timestamp_seconds";
    all.register(name, last, m.last_resync);
    let writes = "Writes to the API of this cluster; a rise while nothing changes on the hub means that two \
    writers fight over an object";
    m.writes.register(all, "argocd_agent_writes", writes);
    let failed =
        "Writes to the API of this cluster that failed; a rise is missing rights or a broken API";
    all.register("argocd_agent_write_failures", failed, m.write_failures);
    let reverts = "Reverted local edits; a steady rise means that two writers fight over an object";
    all.register("argocd_agent_reverts", reverts, m.reverts);
    let tunnels = "Open tunnels for live requests; 0 while connected means that live views of this cluster fail";
    all.register("argocd_agent_lanes", tunnels, m.agent_tunnels);
    let requests = "Live requests, by class of the answer; a rise of 5xx means that the API of this cluster fails";
    let name = "argocd_agent_lane_requests";
    m.tunnel_requests.register(all, name, requests);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_the_go_agent_are_kept() {
        let registry = Registry::new();
        let metrics = register(&registry);
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
