//! The hub's side: gRPC server, sessions, and synchronisation with the hub's API.
//!
//! A library that a program starts once. It must never know OCM: the enrolled clusters arrive as a [`Fleet`], and
//! session reports leave as [`SessionReport`]s.
//!
//! ```text
//!   hub API ── watch ──▶ sync::hub (index: which cluster gets which object)
//!                            │ marks                    ▲ reports
//!                            ▼                          │
//!   agents ── TLS ──▶ transport::listener ──▶ service ──▶ sync::session (one task each) ──▶ hub API
//!                            │                    │
//!                       admission (identity, tokens, one session slot per cluster)
//!                            ▲
//!                          Fleet (a cluster that leaves it loses its session at once)
//!
//!   Argo CD ── resource proxy, redis proxy ──▶ live ── tunnel ──▶ agents
//! ```
//!
//! Pages read all of it through an [`Inventory`], which changes nothing.
//!
//! No queue of events lies between the hub and a session: the index marks *which* object changed, a session keeps one
//! mark per object, and the hub encodes the newest value when it is sent.

pub mod admission;
mod domain;
pub mod fleet;
mod inventory;
mod live;
mod metrics;
pub mod report;
mod service;
pub mod settings;
mod start;
mod state;
pub mod store;
mod sync;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod transport;

pub use admission::admit::Registrar;
pub use admission::revoked::{Revoked, follow as follow_revoked};
pub use admission::tokens::JwtKey;
pub use domain::Key;
pub use fleet::{Certificates, ClusterName, Enrolment, Fleet, Mode};
pub use inventory::{Changes, Cursor, Delivery, Inventory, Traffic};
pub use live::redis_proxy::RedisFeeds;
pub use metrics::Metrics;
pub use protocol::payload::{ArgoCd, Cause, HealthProblem, Runs};
pub use report::{
    BlockedDeletion, Refused, SessionReport, Sessions, Shed, ShownCertificate, Stuck, Unmirrored,
};
pub use service::Services;
pub use settings::{Limits, MirrorLimits, RedisProxy, Settings};
pub use start::{Feeds, Handle, StartError, start, start_on, start_unbound};
pub use state::State;
