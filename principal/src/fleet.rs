//! The clusters that are enrolled now, and the hub's record of each of them.
//!
//! The fleet arrives as a value that is replaced as a whole. A cluster that leaves it loses its session at once,
//! regardless of its certificate. No field here comes from the claims of a cluster.

use std::{borrow::Borrow, collections::BTreeMap, fmt, sync::Arc};

use jiff::Timestamp;
pub use protocol::object::Mode;

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

/// The name of a cluster, which is also its namespace on the hub.
///
/// A value of this type is a DNS-1123 label, so code below the edge never checks it again. The cluster need not be
/// enrolled. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterName(Arc<str>);

/// A text that cannot be the name of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a DNS-1123 label")]
pub struct InvalidClusterName;

impl ClusterName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<&str> for ClusterName {
    type Error = InvalidClusterName;

    fn try_from(raw: &str) -> Result<Self, Self::Error> {
        if is_dns_label(raw) {
            Ok(Self(raw.into()))
        } else {
            Err(InvalidClusterName)
        }
    }
}

impl Borrow<str> for ClusterName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// RFC 1123: at most 63 lower-case letters, digits and inner hyphens.
fn is_dns_label(raw: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&raw.len())
        && raw.bytes().all(inner)
        && !raw.starts_with('-')
        && !raw.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_name_is_a_dns_label_and_nothing_else() {
        for good in ["a", "a1", "spoke-1", &"x".repeat(63)] {
            assert_eq!(
                ClusterName::try_from(good).map(|n| n.to_string()),
                Ok(good.to_owned())
            );
        }
        for bad in [
            "",
            "-a",
            "a-",
            "A",
            "a.b",
            "a/b",
            "a:b",
            "a\n",
            "ä",
            &"x".repeat(64),
        ] {
            assert_eq!(
                ClusterName::try_from(bad),
                Err(InvalidClusterName),
                "{bad:?}"
            );
        }
    }
}
