//! Test doubles and generators; no program contains them.

pub mod differential;
#[cfg(test)]
mod generators;
pub mod memory;

#[cfg(test)]
pub(crate) use generators::*;
