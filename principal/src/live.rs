//! Live requests: people at the hub read and change objects of a cluster through its agent.
//!
//! ```text
//!   argocd-server ─► redis_proxy ────┐                      ┌─► tunnel (HTTP/2) ─► our agent
//!                                    ├─► dispatch ──────────┤
//!   Argo CD ───────► resource_proxy ─┘                      └─► go_compat (events of the session) ─► Go agent
//! ```
//!
//! Each proxy authenticates its clients, limits them and writes one audit line per request.

mod dispatch;
pub(crate) mod go_compat;
pub(crate) mod redis_proxy;
pub(crate) mod resource_proxy;
pub(crate) mod tunnel;
pub(crate) mod tunnel_server;
