//! Live requests: what users of the hub's Argo CD ask of this cluster.
//!
//! They arrive through the [`tunnel`], a connection beside the session. Its handler parses each request again, checks it
//! against `UI_ACCESS` and sends it to the spoke's API as a user with fewer rights, or to Argo CD's [`redis`].

pub mod cluster_stats;
pub mod redis;
pub mod tunnel;
