//! Live requests: users at the hub read and change objects of a cluster through its agent.
//!
//! ```text
//!   argocd-server ─► redis_proxy ────┐                      ┌─► tunnel (HTTP/2) ─► our agent
//!                                    ├─► dispatch ──────────┤
//!   Argo CD ───────► resource_proxy ─┘                      └─► go_compat (events of the session) ─► Go agent
//! ```
//!
//! Each proxy authenticates its clients, limits them and writes one audit line per request.

use std::{fmt, sync::Arc};

use runtime::{clock::Clock, parts::Spawner};

use crate::{
    admission::admit::Admission, domain::ObjectOwner, fleet::ClusterName, metrics::Metrics,
    settings::Limits, store::Store,
};
use go_compat::GoRequests;
use tunnel::Tunnels;

mod dispatch;
pub(crate) mod go_compat;
pub(crate) mod redis_proxy;
pub(crate) mod resource_proxy;
pub(crate) mod tunnel;
pub(crate) mod tunnel_server;
mod whole;

/// Finds the cluster that a live request is about. The index of the hub's objects implements it.
pub(crate) trait ApplicationDirectory: fmt::Debug + Send + Sync {
    /// The owner of an Application's state; without a namespace it is in Argo CD's.
    fn owner(&self, namespace: Option<&str>, name: &str) -> ObjectOwner;

    /// The enrolled cluster whose cluster Secret has this server.
    fn cluster_at(&self, server: &str) -> Option<ClusterName>;
}

/// The shared parts of the proxies and of the tunnel server.
#[derive(Debug)]
pub(crate) struct LiveContext {
    pub(crate) admission: Arc<Admission>,
    pub(crate) applications: Arc<dyn ApplicationDirectory>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) tunnels: Tunnels,
    pub(crate) go_requests: GoRequests,
    pub(crate) limits: Limits,
    pub(crate) metrics: Metrics,
    pub(crate) clock: Clock,
    pub(crate) spawner: Spawner,
}
