//! `argocd-agentctl`: what platform teams ask of the add-on on a command line.
//!
//! ```text
//!   hub (edge: lists, gets, patches) ─> diagnosis: status, why | certs | agents | check ─> output: table, JSON, YAML
//!                     ▲                                                │
//!                     └──────────────────── change ◄───────────────────┘  one merge patch, decided before it is sent
//! ```
//!
//! It knows the hub's API and nothing of running programs; but `check spoke` asks a cluster's API, too, and ([`reach`]) knocks
//! at the principal's door. The state of clusters and Applications is judged by [`diagnosis`], which the hub program
//! uses too.

pub mod adopt;
pub mod agents;
pub mod args;
pub mod bundle;
pub mod certs;
pub mod change;
pub mod check;
pub mod hub;
pub mod names;
pub mod output;
pub mod progress;
pub mod reach;
pub mod run;
pub mod settings;
pub mod setup;
pub mod status;
mod ui;
pub mod wait_state;
pub mod why;

#[cfg(test)]
mod testing;
