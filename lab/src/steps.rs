//! The steps of the main job, as a user of the hub performs them.
//!
//! The demo and the tests share these steps: each does one thing through an ordinary
//! client and waits, with a bound, until its effect is visible.

pub mod at;
pub mod clusteradm;
pub mod deliver;
pub mod enrol;
pub mod objects;
pub mod ui;
pub mod workload;

pub use at::{ADDON, At};
pub use objects::Objects;
