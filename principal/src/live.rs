//! TODO

pub(crate) mod go_compat;
pub(crate) mod redis_proxy;
pub(crate) mod resource_proxy;
pub(crate) mod tunnel;
