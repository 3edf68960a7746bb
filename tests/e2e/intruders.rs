//! Peers without access are rejected with a reason and disturb no other cluster.

pub(crate) mod credentials;
pub(crate) mod garbage;
pub(crate) mod requests;
