//! The principal over real TLS on loopback, with a hub in memory and agents that speak the wire by hand.

#[cfg(test)]
mod agent;
#[cfg(test)]
#[path = "../../src/testing/authority.rs"]
mod authority;
#[cfg(test)]
mod doors;
#[cfg(test)]
mod go_agents;
mod go_copies;
#[cfg(test)]
mod go_terminals;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod mirrors;
#[cfg(test)]
mod proxies;
#[cfg(test)]
mod redis;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod sockets;
#[cfg(test)]
mod state;
#[cfg(test)]
mod sync;
#[cfg(test)]
mod takeaway;
#[cfg(test)]
mod terminals;
#[cfg(test)]
mod visitors;
#[cfg(test)]
mod visits;
#[cfg(test)]
mod websocket;
#[cfg(test)]
mod world;
