//! The principal over real TLS on loopback, with a hub in memory and agents that speak the wire by hand.

#[cfg(test)]
mod admission;
#[cfg(test)]
mod agent;
#[cfg(test)]
#[path = "../../src/testing/authority.rs"]
mod authority;
#[cfg(test)]
mod bearer_tokens;
#[cfg(test)]
mod go_agents;
mod go_deletions;
#[cfg(test)]
mod go_terminals;
#[cfg(test)]
mod half_open;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod inventory;
#[cfg(test)]
mod large_responses;
#[cfg(test)]
mod mirrored_names;
#[cfg(test)]
mod mirrors;
#[cfg(test)]
mod moved_operations;
#[cfg(test)]
mod proxied_agents;
#[cfg(test)]
mod redis;
#[cfg(test)]
mod resource_proxy;
#[cfg(test)]
mod resync_deletions;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod state;
#[cfg(test)]
mod sync;
#[cfg(test)]
mod terminals;
#[cfg(test)]
mod websocket;
#[cfg(test)]
mod websocket_client;
#[cfg(test)]
mod world;
