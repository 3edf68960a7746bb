//! The steps of the main job, as a person at the hub would take them.
//!
//! The demo and the tests run with the same steps: each does one thing through an ordinary
//! client and waits, with a bound, until the world shows that it happened.

pub mod at;
pub mod deliver;
pub mod enrol;
pub mod objects;
pub mod workload;

pub use at::{ADDON, At};
pub use objects::Objects;
