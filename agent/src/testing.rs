//! Test doubles; no program contains them.

pub mod memory;
