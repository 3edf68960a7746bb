//! The clusters that are enrolled now, and the hub's record of each of them.
//!
//! The fleet arrives as a value that is replaced as a whole. A cluster that leaves it loses its session at once,
//! regardless of its certificate. No field here comes from the claims of a cluster.

use std::collections::BTreeMap;

use jiff::Timestamp;
pub use protocol::object::Mode;

pub use crate::domain::{ClusterName, InvalidClusterName};

/// The clusters that are enrolled now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    /// By the cluster's name, which is also its namespace on the hub.
    pub clusters: BTreeMap<String, Enrolment>,
}

/// The hub's record of one enrolled cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enrolment {
    /// The mode it was enrolled with; an agent that claims another is refused.
    pub mode: Mode,
    /// The `server` of its Argo CD cluster Secret, which also identifies it as a destination.
    pub server: Option<String>,
    /// When it was enrolled, if that is known. Deletions from before that time need a confirmation.
    pub since: Option<Timestamp>,
    /// Its first session after the enrolment has not ended yet: the hub deletes no unknown objects there.
    pub fresh: bool,
    /// The digest of a [`BlockedDeletion`](crate::BlockedDeletion) that a user has confirmed.
    pub confirm_delete: Option<String>,
    /// Whether the cluster gets repositories without a project, too; none while that is unknown.
    pub shares_unscoped: Option<bool>,
    /// The certificates of the cluster that are accepted.
    pub certificates: Certificates,
}

/// The accepted certificates of a cluster, beyond the checks of TLS and of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Certificates {
    /// All.
    #[default]
    All,
    /// Those with this organizational unit: the others are older than the last change of the key.
    WithUnit(String),
    /// None: an administrator has revoked them.
    Revoked,
}
