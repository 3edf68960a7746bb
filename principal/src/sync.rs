//! Synchronization: delivers the hub's objects to the agents and writes their reports to the hub's API.
//!
//! [`hub`] is the index of the hub's objects: which cluster gets which object, what its reports change, and the writes.
//! [`session`] drives one stream per agent with the state machine of `protocol::Session`. A session learns *which*
//! object changed from its mailbox, and the hub encodes the newest value when the session sends it.

pub(crate) mod hub;
pub(crate) mod session;
