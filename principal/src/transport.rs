//! TODO

pub(crate) mod listener;
pub(crate) mod service;
