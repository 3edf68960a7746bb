//! TODO

pub mod link;
