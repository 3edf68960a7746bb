//! The hub's side: gRPC server, sessions, and synchronisation with the hub's API.
//!
//! A library that a program starts once. It must never know OCM: who is enrolled arrives as a [`Fleet`], and what it
//! knows about sessions leaves as [`SessionReport`]s.
//!
//! ```text
//!   hub API ──watch──> hub::watch ──> hub::Index (who gets what; one short lock)
//!                                        │ marks                  ▲ results of writes
//!                                        ▼                        │
//!   agents ──TLS──> listener ──> service ──> session (one task each) ──> hub::Store ──> hub API
//!                      │            │            │
//!                 identity      tokens       registry (one live session per cluster) ──> Handle
//!                                   ▲            ▲
//!                                 Fleet ─────────┘ (leaving it ends the session at once)
//! ```
//!
//! Nothing between the hub and a session is a queue of events: the index says *which* object changed, a session
//! remembers the object once, and the body is read when it is sent.

use std::{net::SocketAddr, sync::Arc};

use runtime::{credentials::Material, metrics::Registry, parts::Spawner};
use tokio::sync::watch;

use crate::store::Kubernetes;

pub mod fleet;
mod gate;
mod hub;
pub mod identity;
mod listener;
mod metrics;
mod registry;
pub mod report;
mod service;
mod session;
pub mod settings;
mod start;
#[cfg(test)]
mod testing;
pub mod tokens;
mod trust;

pub use fleet::{ClusterName, Enrolment, Fleet, Mode};
pub use hub::{Key, store};
pub use report::{SessionReport, Sessions};
pub use settings::{Limits, Settings};
pub use start::start_on;
pub use tokens::JwtKey;

/// What the principal works with; everything that can change arrives as a watched value.
pub struct Inputs {
    /// The hub's API.
    pub client: kube::Client,
    /// Who may come in.
    pub fleet: watch::Receiver<Arc<Fleet>>,
    /// The serving certificate, its key, and as roots the CA of the agents.
    pub server_tls: watch::Receiver<Arc<Material>>,
    /// Signs the agents' tokens.
    pub jwt_key: watch::Receiver<Arc<JwtKey>>,
    /// Whether this replica serves; while not, every session is refused.
    pub active: watch::Receiver<bool>,
    /// Where the metrics go.
    pub metrics: Registry,
    /// Starts the tasks; cancelling its token ends them.
    pub spawner: Spawner,
}

/// What the program may know about a running principal.
#[derive(Clone, Debug)]
pub struct Handle {
    /// Where it listens.
    pub address: SocketAddr,
    /// The sessions, as the conditions tell them.
    pub sessions: watch::Receiver<Sessions>,
    /// Whether the hub's objects are read, so that agents can be served.
    pub ready: watch::Receiver<bool>,
}

/// The principal could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address to listen on cannot be had.
    #[error("listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// The serving certificate cannot be used.
    #[error("use the serving certificate")]
    Certificate(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Starts the principal's parts and returns as soon as it listens.
///
/// Agents are refused with `Unavailable` until the hub's objects are read ([`Handle::ready`]).
pub async fn start(settings: Settings, inputs: Inputs) -> Result<Handle, StartError> {
    let store = Kubernetes::new(inputs.client.clone(), settings.argocd_namespace.clone());
    start_on(Arc::new(store), settings, inputs.without_client()).await
}
