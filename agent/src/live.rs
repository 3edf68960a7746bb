//! Live requests: what users of the hub's Argo CD ask of this cluster.
//!
//! They arrive through the [`tunnel`], a connection beside the session. Its handler parses each request again, checks it
//! against `UI_ACCESS` and sends it to the spoke's API as a user with fewer rights, or to Argo CD's [`redis`].
//! A Go principal has no tunnel: its requests arrive on the session, and `go_compat` answers them with the same handler.

pub mod cluster_stats;
pub(crate) mod go_compat;
pub mod redis;
pub mod tunnel;

use http::HeaderName;

/// The header with the user whose rights a request to the cluster's API has.
pub(crate) const IMPERSONATE: HeaderName = HeaderName::from_static("impersonate-user");
