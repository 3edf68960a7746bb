//! The spoke program: dials the principal and keeps the spoke as the hub wants it.
//!
//! It must never know OCM nor the principal's code, and it has no rights beyond a Role in the
//! namespaces of Argo CD.
//!
//! ```text
//!             spoke API                                             hub
//!    watch │             ▲ create, patch, delete                     ▲
//!          ▼             │                                           │ one stream
//!   sync::replica::observe, apply ◀── work ──┐                       ▼
//!          │             ▲                   │           session, transport
//!          ▼             │ drift             └────── protocol::Session ──┐
//!     sync::cache ───────┘                                   ▲   ▲       │ bodies, when sent
//!          │                                                 │   └───────┘
//!          └── sync::report: changes here (marks) ───────────┘
//! ```
//!
//! | module | contains |
//! |---|---|
//! | [`args`], [`config`] | flags and environment of the Go agent, and the checked settings |
//! | [`app`] | builds every part and waits |
//! | [`sync`] | keeps the spoke's objects as the hub wants them, and reports changes |
//! | [`session`] | one session with the principal, its end and the next one |
//! | [`live`] | live requests of users of the hub |
//! | [`transport`] | the connection to the principal |
//! | [`argocd_probe`] | whether an Argo CD runs here, and its health |
//! | [`metrics`], [`state`] | metrics; the state for the debug endpoint |

pub mod app;
pub mod argocd_probe;
pub mod args;
pub mod config;
pub mod live;
mod lock;
pub mod metrics;
pub mod session;
pub mod state;
pub mod sync;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod transport;
