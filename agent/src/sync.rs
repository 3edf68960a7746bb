//! TODO

pub mod replica;
pub mod report;
pub mod source;
pub mod spoke;
pub mod store;
pub(crate) mod traced;
