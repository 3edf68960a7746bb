//! TODO

pub mod api;
pub mod cache;
pub mod replica;
pub mod report;
pub mod source;
pub(crate) mod spans;
