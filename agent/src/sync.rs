//! Synchronization: keeps the spoke's objects as the hub wants them, and reports changes to the hub.
//!
//! ```text
//!   spoke API ── watch ──▶ replica::observe ──▶ cache ──▶ report ──▶ session (marks)
//!                                                 │
//!   session ── message ──▶ replica::plan ◀────────┘
//!                               └──▶ replica::apply ── create, patch, delete ──▶ spoke API
//! ```
//!
//! In autonomous mode the spoke owns its objects: [`source`] builds the state that the hub mirrors.

pub mod api;
pub mod cache;
pub mod kube;
pub mod replica;
pub mod report;
pub mod source;
pub(crate) mod spans;
