//! Process plumbing that all our programs share.
//!
//! Arguments, logs, errors, supervised tasks, readiness, the admin endpoint, metrics, back-off,
//! work queues, rotating TLS material and the Kubernetes client. This crate is independent of the purpose of a program: no wire, no
//! Argo CD, no OCM.
//!
//! ```text
//!   signals ─> shutdown::token ─> parts::Parts ──spawns──> every part of the process
//!                                     │                       │
//!                     first early end └── ends the process    ├─ ready::Handle ─> /readyz
//!                                                             └─ metrics::Registry ─> /metrics
//!   files | Secrets ─> credentials (watch) ─> ServerTls | ClientTls (whole config swapped)
//! ```

pub mod admin;
pub mod args;
pub mod backoff;
pub mod clock;
pub mod connection;
pub mod credentials;
pub mod error;
pub mod kube;
pub mod lease;
pub mod log;
pub mod members;
pub mod metrics;
pub mod names;
pub mod net;
pub mod notifier;
mod own_threads;
pub mod parts;
pub mod process;
pub mod random;
pub mod ready;
pub mod shutdown;
pub mod trace;
pub mod tunnel;
pub mod work_queue;

/// Installs the TLS provider of the process; call it first in `main`.
///
/// Without it, libraries choose a provider by themselves, and panic if there are two. A second call changes nothing.
pub fn install_crypto_provider() {
    // An error only means that a provider is already installed.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
}
