//! What the principal counts. Labels come from fixed words only, never from a peer.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry as Recorder,
};
use runtime::metrics::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Direction {
    direction: &'static str,
}

/// The principal's metrics; clones share their values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    handshakes: Family<Outcome, Counter>,
    connections: Gauge,
    websockets: Family<Outcome, Counter>,
    refusals: Family<Reason, Counter>,
    sessions: Gauge,
    session_ends: Family<Reason, Counter>,
    events: Family<Direction, Counter>,
    events_refused: Family<Reason, Counter>,
    hub_writes: Family<Outcome, Counter>,
    lanes: Gauge,
    resource_requests: Family<Outcome, Counter>,
    redis_connections: Gauge,
    redis_requests: Family<Outcome, Counter>,
    hub_writes_stuck: Gauge,
    hub_write_limit: Gauge,
    hub_writes_now: Gauge,
    resends: Counter,
    stray_acks: Counter,
}

impl Metrics {
    pub(crate) fn register(registry: &Registry) -> Self {
        let metrics = Self::default();
        registry.with(|all| {
            let all = all.sub_registry_with_prefix("argocd_principal");
            let Self {
                handshakes,
                connections,
                websockets,
                refusals,
                sessions,
                session_ends,
                events,
                events_refused,
                lanes,
                resource_requests,
                ..
            } = metrics.clone();
            all.register("handshakes", "TLS handshakes by how they ended", handshakes);
            all.register("connections", "Open connections", connections);
            all.register(
                "websockets",
                "Calls over WebSockets that ended, and requests of HTTP/1.1 that were none, by how",
                websockets,
            );
            all.register(
                "refusals",
                "Authentications, refreshes and subscriptions refused; a rise is a peer that keeps trying",
                refusals,
            );
            all.register("connected_agents", "Sessions open now", sessions);
            all.register("session_ends", "Sessions that ended, by why", session_ends);
            all.register("events", "Events received and sent", events);
            all.register(
                "events_refused",
                "Events from agents that cannot be read or are not allowed",
                events_refused,
            );
            hub_writes(all, &metrics);
            redis(all, &metrics);
            all.register("lanes", "Lanes for interactive requests open now", lanes);
            all.register(
                "resource_requests",
                "Requests to the resource proxy, by how they were answered",
                resource_requests,
            );
        });
        metrics
    }

    pub(crate) fn handshake(&self, outcome: &'static str) {
        self.handshakes
            .get_or_create_owned(&Outcome { outcome })
            .inc();
    }

    pub(crate) fn websocket(&self, outcome: &'static str) {
        self.websockets
            .get_or_create_owned(&Outcome { outcome })
            .inc();
    }

    pub(crate) fn refused(&self, reason: &'static str) {
        self.refusals.get_or_create_owned(&Reason { reason }).inc();
    }

    pub(crate) fn session_ended(&self, reason: &'static str) {
        self.session_ends
            .get_or_create_owned(&Reason { reason })
            .inc();
    }

    pub(crate) fn event_received(&self) {
        self.events
            .get_or_create_owned(&Direction {
                direction: "received",
            })
            .inc();
    }

    pub(crate) fn event_sent(&self) {
        self.events
            .get_or_create_owned(&Direction { direction: "sent" })
            .inc();
    }

    pub(crate) fn event_refused(&self, reason: &'static str) {
        self.events_refused
            .get_or_create_owned(&Reason { reason })
            .inc();
    }

    pub(crate) fn hub_write(&self, outcome: &'static str) {
        self.hub_writes
            .get_or_create_owned(&Outcome { outcome })
            .inc();
    }

    pub(crate) fn resource_request(&self, outcome: &'static str) {
        self.resource_requests
            .get_or_create_owned(&Outcome { outcome })
            .inc();
    }

    pub(crate) fn redis_request(&self, outcome: &'static str) {
        self.redis_requests
            .get_or_create_owned(&Outcome { outcome })
            .inc();
    }

    /// Counts an open connection to the redis proxy for as long as the guard lives.
    pub(crate) fn redis_connection(&self) -> OpenGuard {
        OpenGuard::new(self.redis_connections.clone())
    }

    /// Counts an open lane for as long as the guard lives.
    pub(crate) fn lane(&self) -> OpenGuard {
        OpenGuard::new(self.lanes.clone())
    }

    pub(crate) fn hub_writes_stuck(&self, count: usize) {
        self.hub_writes_stuck
            .set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(crate) fn hub_write_limit(&self, limit: usize) {
        self.hub_write_limit
            .set(i64::try_from(limit).unwrap_or(i64::MAX));
    }

    /// Counts a write for as long as the guard lives.
    pub(crate) fn hub_write_now(&self) -> OpenGuard {
        OpenGuard::new(self.hub_writes_now.clone())
    }

    /// What a session has counted since it was last asked.
    pub(crate) fn session_counted(&self, resent: u64, strays: u64) {
        self.resends.inc_by(resent);
        self.stray_acks.inc_by(strays);
    }

    /// Counts an open connection for as long as the guard lives.
    pub(crate) fn connection(&self) -> OpenGuard {
        OpenGuard::new(self.connections.clone())
    }

    /// Counts an open session for as long as the guard lives.
    pub(crate) fn session(&self) -> OpenGuard {
        OpenGuard::new(self.sessions.clone())
    }
}

/// What is counted about the hub's API and about agents that do not answer.
fn hub_writes(all: &mut Recorder, metrics: &Metrics) {
    all.register(
        "hub_writes",
        "Writes to the hub's API by how they ended",
        metrics.hub_writes.clone(),
    );
    all.register(
        "hub_writes_stuck",
        "Applications whose reports cannot be written to the hub for half a minute and more",
        metrics.hub_writes_stuck.clone(),
    );
    all.register(
        "hub_write_limit",
        "Writes to the hub's API that may be under way at once",
        metrics.hub_write_limit.clone(),
    );
    all.register(
        "hub_writes_under_way",
        "Writes to the hub's API that are under way or wait for their turn",
        metrics.hub_writes_now.clone(),
    );
    all.register(
        "resends",
        "Events said again because the agent did not acknowledge them; a rise is a slow or deaf agent",
        metrics.resends.clone(),
    );
    all.register(
        "stray_acknowledgements",
        "Acknowledgements of what was never sent or acknowledged before",
        metrics.stray_acks.clone(),
    );
}

/// What is counted about the redis proxy.
fn redis(all: &mut Recorder, metrics: &Metrics) {
    all.register(
        "redis_connections",
        "Connections to the redis proxy open now",
        metrics.redis_connections.clone(),
    );
    all.register(
        "redis_requests",
        "Commands to the redis proxy, by how they were answered; local: by the hub's redis",
        metrics.redis_requests.clone(),
    );
}

/// One of the things that a gauge counts.
#[derive(Debug)]
#[must_use = "it counts for as long as it lives"]
pub(crate) struct OpenGuard(Gauge);

impl OpenGuard {
    fn new(gauge: Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}
