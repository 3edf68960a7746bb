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

pub mod admission;
pub mod fleet;
mod live;
mod metrics;
pub mod report;
pub mod settings;
mod start;
mod state;
mod sync;
#[cfg(test)]
mod testing;
mod transport;

pub use admission::admit::Registrar;
pub use admission::revoked::Revoked;
pub use admission::tokens::JwtKey;
pub use fleet::{Certificates, ClusterName, Enrolment, Fleet, Mode};
pub use metrics::Metrics;
pub use protocol::payload::{ArgoCd, Cause, HealthProblem, Runs};
pub use report::{
    BlockedDeletion, Refused, SessionReport, Sessions, ShownCertificate, Stuck, Unmirrored,
};
pub use settings::{Limits, MirrorLimits, RedisProxy, Settings};
pub use start::{
    Feeds, Handle, Inputs, REDIS_KEYS, RedisFeeds, StartError, redis_login, start, start_on,
    start_unbound,
};
pub use state::State;
pub use sync::hub::{Key, store};
pub use transport::service::Services;
