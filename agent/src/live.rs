//! TODO

pub mod cluster_stats;
pub mod redis;
pub mod tunnel;
