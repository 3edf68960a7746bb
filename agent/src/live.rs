//! TODO

pub mod census;
pub mod lane;
pub mod redis;
