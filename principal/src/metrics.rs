//! The metrics of the principal. Labels come from fixed words only, never from a peer.

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge},
    registry::Registry as Recorder,
};
use runtime::metrics::{ByWord, Open, Registry};

use crate::state::State;

mod words;

/// The principal's metrics; clones share their values.
#[derive(Clone, Debug)]
pub struct Metrics {
    state: State,
    pub(crate) handshakes: ByWord,
    pub(crate) connections: Gauge,
    pub(crate) websockets: ByWord,
    refusals: ByWord,
    sessions: Gauge,
    session_ends: ByWord,
    resyncs: ByWord,
    events: ByWord,
    events_refused: ByWord,
    hub_writes: ByWord,
    pub(crate) agent_tunnels: Gauge,
    pub(crate) resource_requests: ByWord,
    pub(crate) redis_connections: Gauge,
    pub(crate) redis_requests: ByWord,
    hub_writes_stuck: Gauge,
    hub_write_limit: Gauge,
    hub_writes_now: Gauge,
    resends: Counter,
    stray_acks: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        let by = |label, lists: &[&[&'static str]]| ByWord::new(label, lists.concat());
        Self {
            state: State::default(),
            handshakes: by("outcome", &[words::HANDSHAKE, words::LISTENER]),
            connections: Gauge::default(),
            websockets: by("outcome", &[words::WEBSOCKET]),
            refusals: by("reason", &[words::REFUSALS]),
            sessions: Gauge::default(),
            session_ends: by("reason", &[words::SESSION_ENDS]),
            resyncs: by("cause", &[words::RESYNCS]),
            events: by("direction", &[words::DIRECTIONS]),
            events_refused: by("reason", &[words::EVENTS_REFUSED]),
            hub_writes: by("outcome", &[words::HUB_WRITES]),
            agent_tunnels: Gauge::default(),
            resource_requests: by("outcome", &[words::HANDSHAKE, words::RESOURCE_REQUESTS]),
            redis_connections: Gauge::default(),
            redis_requests: by("outcome", &[words::HANDSHAKE, words::REDIS_REQUESTS]),
            hub_writes_stuck: Gauge::default(),
            hub_write_limit: Gauge::default(),
            hub_writes_now: Gauge::default(),
            resends: Counter::default(),
            stray_acks: Counter::default(),
        }
    }
}

impl Metrics {
    /// Creates and registers all metrics.
    pub fn register(registry: &Registry) -> Self {
        let metrics = Self::default();
        registry.with(|all| {
            let all = all.sub_registry_with_prefix("argocd_principal");
            all.register_collector(Box::new(metrics.state.clone()));
            agents(all, &metrics);
            hub_writes(all, &metrics);
            interactive(all, &metrics);
        });
        metrics
    }

    /// The principal's view of its clusters at this moment, as soon as it runs.
    pub const fn state(&self) -> &State {
        &self.state
    }

    pub(crate) fn refused(&self, reason: &'static str) {
        self.refusals.count(reason);
    }

    pub(crate) fn session_ended(&self, reason: &'static str) {
        self.session_ends.count(reason);
    }

    pub(crate) fn resynced(&self, cause: &'static str) {
        self.resyncs.count(cause);
    }

    pub(crate) fn event_received(&self) {
        self.events.count("received");
    }

    pub(crate) fn event_sent(&self) {
        self.events.count("sent");
    }

    pub(crate) fn event_refused(&self, reason: &'static str) {
        self.events_refused.count(reason);
    }

    pub(crate) fn hub_write(&self, outcome: &'static str) {
        self.hub_writes.count(outcome);
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
    pub(crate) fn hub_write_now(&self) -> Open {
        Open::new(self.hub_writes_now.clone())
    }

    /// Adds the counts of a session since its last call.
    pub(crate) fn session_counted(&self, resent: u64, strays: u64) {
        self.resends.inc_by(resent);
        self.stray_acks.inc_by(strays);
    }

    /// Counts an open session for as long as the guard lives.
    pub(crate) fn session(&self) -> Open {
        Open::new(self.sessions.clone())
    }
}

/// The metrics of agents: connections, sessions and events.
fn agents(all: &mut Recorder, metrics: &Metrics) {
    metrics.handshakes.register(
        all,
        "handshakes",
        "TLS handshakes at the agents' port, by outcome; a rise of anything but ok means that a client cannot connect",
    );
    all.register(
        "connections",
        "Open connections of agents; many more than agents means that they reconnect repeatedly",
        metrics.connections.clone(),
    );
    metrics.websockets.register(
        all,
        "websockets",
        "WebSocket calls and invalid HTTP/1.1 requests, by outcome; a rise of anything but ok means that a proxy breaks them",
    );
    metrics.refusals.register(
        all,
        "refusals",
        "Authentications, refreshes and subscriptions refused; a rise is a peer that keeps trying",
    );
    all.register(
        "connected_agents",
        "Open sessions; fewer than enrolled clusters means that some are disconnected",
        metrics.sessions.clone(),
    );
    metrics.session_ends.register(
        all,
        "session_ends",
        "Ended sessions, by reason; a steady rise means that agents do not stay connected",
    );
    metrics.resyncs.register(
        all,
        "resyncs",
        "Resyncs started, by trigger; a rise of connect is a rise of sessions",
    );
    metrics.events.register(
        all,
        "events",
        "Events received from agents and sent to them; a rise is work",
    );
    metrics.events_refused.register(
        all,
        "events_refused",
        "Invalid or forbidden events from agents; a rise means that an agent violates the protocol",
    );
    all.register(
        "resends",
        "Events sent again because the agent did not acknowledge them; a rise means that an agent is slow or stuck",
        metrics.resends.clone(),
    );
    all.register(
        "stray_acknowledgements",
        "Acknowledgements of unknown events; a rise means that an agent violates the protocol",
        metrics.stray_acks.clone(),
    );
}

/// The metrics of writes to the hub's API.
fn hub_writes(all: &mut Recorder, metrics: &Metrics) {
    metrics.hub_writes.register(
        all,
        "hub_writes",
        "Writes to the hub's API, by outcome; a rise of refused or unavailable means that the API rejects them",
    );
    all.register(
        "hub_writes_stuck",
        "Applications whose reports the hub has rejected for more than 30s",
        metrics.hub_writes_stuck.clone(),
    );
    all.register(
        "hub_write_limit",
        "Limit of concurrent writes to the hub's API; a fall means that the API is slow",
        metrics.hub_write_limit.clone(),
    );
    all.register(
        "hub_writes_under_way",
        "Writes to the hub's API in progress or queued; a lasting rise means that the API is too slow",
        metrics.hub_writes_now.clone(),
    );
}

/// The metrics of live requests.
fn interactive(all: &mut Recorder, metrics: &Metrics) {
    all.register(
        "lanes",
        "Open tunnels for live requests; far fewer than sessions means that live views of clusters fail",
        metrics.agent_tunnels.clone(),
    );
    metrics.resource_requests.register(
        all,
        "resource_requests",
        "Requests to the resource proxy by outcome, and failed handshakes; a rise of late or lost means that a \
        cluster is hard to reach",
    );
    all.register(
        "redis_connections",
        "Open connections to the redis proxy",
        metrics.redis_connections.clone(),
    );
    metrics.redis_requests.register(
        all,
        "redis_requests",
        "Commands to the redis proxy by outcome, and failed handshakes; local: answered by the hub's redis, page: \
        with the state of a cluster; a rise of local_failed means that the hub's redis is unavailable",
    );
}
