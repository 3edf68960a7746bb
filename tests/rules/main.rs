//! Rules that the repository keeps: sources, documentation, chart and releases held against each other.
//!
//! `cargo test -p tests --test rules -- NAME` runs those whose path has NAME in it.

mod chart;
mod configuration;
mod contracts;
mod docs;
mod hostile;
mod layering;
mod metrics;
mod monitoring;
mod pages;
mod reasons;
mod release;
mod results;
mod shared;
mod site;
mod way;
mod words;
