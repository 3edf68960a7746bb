//! Test doubles and fixtures; no program contains them.

#[cfg(test)]
mod authority;
#[cfg(test)]
mod fixtures;
pub mod memory;

#[cfg(test)]
pub(crate) use fixtures::*;
