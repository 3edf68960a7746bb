//! Obstacles to clusters' objects on the hub.

/// Why objects of a cluster on the hub are missing or wrong. Its agent works without them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Obstacles {
    /// The error of its cluster Secret.
    pub(super) secret: Option<String>,
    /// The error of its `AppProject`.
    pub(super) project: Option<String>,
}
