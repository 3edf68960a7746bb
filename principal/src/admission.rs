//! TODO

pub(crate) mod admit;
pub mod identity;
pub(crate) mod registry;
pub mod revoked;
pub mod tokens;
pub(crate) mod trust;
pub mod users;
