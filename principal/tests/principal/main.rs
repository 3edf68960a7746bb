//! The principal over real TLS on loopback, with a hub in memory and agents that speak the wire by hand.

mod agent;
#[path = "../../src/testing/authority.rs"]
mod authority;
mod doors;
mod sessions;
mod sync;
mod world;
