//! Test doubles and generators; no program contains them.

#[cfg(test)]
mod generators;
pub mod memory;

#[cfg(test)]
pub(crate) use generators::*;
