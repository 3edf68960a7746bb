//! `argocd-agentctl`: what platform teams ask of the add-on on a command line.
//!
//! ```text
//!   hub (edge: lists, gets, patches) ─> facts ─> status | why | certs | agents | check ─> output: table, JSON, YAML
//!                     ▲                              │
//!                     └──────────── change ◄─────────┘  one merge patch, decided before it is sent
//! ```
//!
//! It knows the hub's API and nothing of running programs; but `check spoke` asks a cluster's API, too, and ([`reach`]) knocks
//! at the principal's door. Routing, names and projects are judged by the functions of
//! [`argocd`] that the principal uses.

pub mod adopt;
pub mod agents;
pub mod args;
pub mod bundle;
pub mod certs;
pub mod change;
pub mod check;
mod comparison;
pub mod facts;
pub mod fleet;
pub mod hub;
pub mod labels;
pub mod names;
mod object;
pub mod output;
pub mod progress;
pub mod reach;
pub mod run;
pub mod settings;
pub mod setup;
pub mod status;
pub mod wait_state;
pub mod why;
mod writers;

#[cfg(test)]
mod testing;
