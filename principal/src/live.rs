//! TODO

pub(crate) mod lane;
pub(crate) mod questions;
pub(crate) mod redis_proxy;
pub(crate) mod resource_proxy;
