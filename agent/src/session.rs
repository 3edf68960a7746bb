//! Keeps one session with the principal up.
//!
//! [`transport`](crate::transport) dials and authenticates, `drive` runs one session, `recover` decides what follows its
//! end. All state that survives a connection is in the cache and the reports; a new session finds what is missing by a
//! resync.

use std::sync::Arc;

use live::cluster_info::Census;
use protocol::version::Capability;
use runtime::backoff::Backoff;
use runtime::credentials::Material;
use runtime::error::Chain;
use runtime::parts::Spawner;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::live::tunnel::{AgentTunnel, ApiHandler};
use crate::metrics::Metrics;
use crate::sync::replica::{CacheStatus, Replica};
use crate::sync::report::Reports;
use crate::transport::{DialError, Dialer, Outcome, credentials, dial};

mod drive;
mod recover;
mod resync;

use drive::Drive;
use recover::{End, Pauses};

/// Whether a session is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// There is no session.
    Down,
    /// The principal answered in a session.
    Up,
}

/// The agent's side of the connection.
#[derive(Debug)]
pub struct Link {
    /// Opens connections.
    pub dialer: Dialer,
    /// Applies the hub's changes.
    pub replica: Arc<Replica>,
    /// Collects the changes to report to the hub.
    pub reports: Arc<Reports>,
    /// The handler of live requests; without one the agent answers none.
    pub api_handler: Option<Arc<ApiHandler>>,
    /// Argo CD's statistics of this cluster.
    pub census: watch::Receiver<Option<Census>>,
    /// The agent's metrics.
    pub metrics: Metrics,
    /// Publishes the state.
    pub state: watch::Sender<LinkState>,
    /// Whether a session is up whose principal accepts tunnels.
    pub agent_tunnel: watch::Sender<bool>,
}

impl Link {
    /// The tunnel beside the sessions of this link: same hub, credentials and transport.
    pub fn tunnel(&self, api_handler: Arc<ApiHandler>, spawner: Spawner) -> AgentTunnel {
        AgentTunnel {
            dialer: self.dialer.clone(),
            wanted: self.agent_tunnel.subscribe(),
            api_handler,
            metrics: self.metrics.clone(),
            spawner,
        }
    }

    /// Runs until `token` is cancelled: connects when the caches are complete and the agent has
    /// certificates, and reconnects when a session ends.
    pub async fn run(mut self, token: CancellationToken) {
        let mut sync_status = self.replica.sync_status();
        // With incomplete caches the agent would report existing objects as missing.
        let ready = async {
            let caches = sync_status.wait_for(CacheStatus::is_complete).await.is_ok();
            caches && credentials::wait(&*self.dialer.network, &mut self.dialer.material).await
        };
        if token.run_until_cancelled(ready).await != Some(true) {
            return token.cancelled().await;
        }
        let mut pauses = Pauses::default();
        loop {
            let end = self.attempt(&mut pauses.transient, &token).await;
            self.log_end(&end);
            let Some(pause) = pauses.after(&end, Instant::now()) else {
                return;
            };
            let pause = tokio::time::sleep(pause);
            if token.run_until_cancelled(pause).await.is_none() {
                return;
            }
        }
    }

    /// One connection from dial to end.
    async fn attempt(&mut self, backoff: &mut Backoff, token: &CancellationToken) -> End {
        // An agent whose API rejects it must not take the session from a working agent.
        match token.run_until_cancelled(self.replica.is_known()).await {
            None => return End::Stopped,
            Some(false) => return End::Unknown,
            Some(true) => {}
        }
        let used = Arc::clone(&self.dialer.material.borrow_and_update());
        let opened = match token.run_until_cancelled(self.dial(&used)).await {
            None => return End::Stopped,
            Some(Err(error)) => return End::NotDialled(error),
            Some(Ok(opened)) => opened,
        };
        let (mut arrived, transport) = (false, self.dialer.network.transport());
        let takes_tunnels = opened.welcome.capabilities.has(Capability::Tunnel);
        let end = Drive {
            heartbeat: self.dialer.hub.heartbeat,
            max_message: self.dialer.hub.max_message,
            compression: self.dialer.hub.compression,
            replica: &self.replica,
            reports: &self.reports,
            api_handler: self.api_handler.as_ref(),
            metrics: &self.metrics,
            sync_status: self.replica.sync_status(),
            census: self.census.clone(),
            renewal: credentials::Renewal::new(used, self.dialer.material.clone()),
            on_first_frame: &mut || {
                arrived = true;
                backoff.succeeded(Instant::now());
                self.metrics.connected.set(1);
                self.metrics.connected_since.set(unix_now());
                self.metrics.connections.inc();
                self.metrics.sessions.count(transport);
                self.state.send_replace(LinkState::Up);
                self.agent_tunnel.send_replace(takes_tunnels);
            },
        }
        .run(opened, token)
        .await;
        if !arrived && end.is_network_error() {
            // Some proxies pass calls but buffer a stream until it ends.
            self.dialer.network.record(Outcome::Stalled);
        }
        if arrived {
            self.metrics.connected.set(0);
            self.metrics.connected_since.set(0.0);
            self.metrics.outbox_oldest.set(0.0);
            self.state.send_replace(LinkState::Down);
            self.agent_tunnel.send_replace(false);
        }
        end
    }

    /// Connects and authenticates; a probe of another transport dials again.
    async fn dial(&self, used: &Material) -> Result<dial::Opened, DialError> {
        let once = async || {
            let dialled = self.dialer.dial(used).await;
            let outcome = dialled
                .as_ref()
                .map_or_else(DialError::outcome, |_opened| Outcome::Connected);
            self.dialer.network.record(outcome);
            dialled
        };
        let opened = once().await?;
        if !self.dialer.network.is_probing() {
            return Ok(opened);
        }
        if let Ok(better) = once().await {
            return Ok(better);
        }
        // The network now prefers the transport that worked before.
        once().await
    }

    fn log_end(&self, end: &End) {
        let reason = end.reason();
        self.metrics.link_ends.count(reason);
        match end {
            End::Stopped | End::Renewed | End::Restored | End::Closed => {
                tracing::info!(reason, "link ended");
            }
            End::NotDialled(error) => {
                if error.is_refusal() {
                    self.metrics.auth_failures.inc();
                }
                tracing::warn!(reason, error = %Chain(error), "cannot connect");
            }
            End::Broken(status) => tracing::warn!(reason, error = %Chain(status), "link ended"),
            End::Violation(why) => tracing::warn!(reason, error = %Chain(why), "link ended"),
            End::Silent => tracing::warn!(reason, "link ended"),
            End::Unknown => tracing::warn!(
                reason,
                "the cluster's API rejected this agent (401 Unauthorized), so it ends its session; check whether \
                its Pod or ServiceAccount was deleted"
            ),
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "whole seconds of this millennium fit"
)]
fn unix_now() -> f64 {
    runtime::clock::Clock::system().now().as_second() as f64
}
