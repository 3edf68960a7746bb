//! TODO

pub(crate) mod hub;
pub(crate) mod session;
