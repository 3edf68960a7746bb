//! The nouns that synchronization, live requests and the hub's API share: clusters, keys and placements.

use std::{borrow::Borrow, sync::Arc};

use argocd::{Meta, keys, name::is_dns_label, routing::SpokeNamespace};
use protocol::{Kind, ObjectKey};

/// The name of a cluster, which is also its namespace on the hub.
///
/// A value of this type is a DNS-1123 label, so code below the edge never checks it again. The cluster need not be
/// enrolled. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
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
        let name = is_dns_label(raw).then(|| Self(raw.into()));
        name.ok_or(InvalidClusterName)
    }
}

impl Borrow<str> for ClusterName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Namespace and name of an Application on the hub.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
#[display("Application/{namespace}/{name}")]
pub struct Key {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    pub(crate) fn of(meta: Meta<'_>) -> Self {
        Self {
            namespace: meta.namespace().to_owned(),
            name: meta.name().to_owned(),
        }
    }

    /// Its key in a session.
    pub(crate) fn object(&self) -> ObjectKey {
        ObjectKey::new(Kind::Application, &self.namespace, &self.name)
    }

    /// The Application with this key in a session; none for other kinds.
    pub(crate) fn from_object(key: &ObjectKey) -> Option<Self> {
        (key.kind == Kind::Application).then(|| key.into())
    }
}

/// The namespace and the name of an object of any kind.
impl From<&ObjectKey> for Key {
    fn from(key: &ObjectKey) -> Self {
        Self {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        }
    }
}

/// A name on a spoke.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) cluster: ClusterName,
    pub(crate) spoke_namespace: SpokeNamespace,
    pub(crate) name: String,
}

/// The destination of an Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// None: it belongs to the hub.
    Local,
    /// None: the user excluded it.
    Ignored,
    /// None: it contradicts itself.
    Conflict(String),
    /// None: it mirrors an Application of this autonomous cluster, which receives only commands.
    Mirror(ClusterName),
    /// A cluster; not delivered while it is blocked.
    Routed(Place, Option<Blocked>),
}

/// An Application that is not delivered: a condition for users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blocked {
    pub(crate) why: Block,
    pub(crate) message: String,
}

/// Why an Application is not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    /// An older Application has its name on the cluster.
    NameConflict,
    /// Its project does not admit it.
    NotAdmitted,
    /// Its deletion is older than the enrolment of the cluster.
    DeletionUnconfirmed,
}

impl Block {
    /// The type of the condition.
    pub(crate) const fn condition(self) -> &'static str {
        match self {
            Self::NameConflict => keys::CONDITION_NAME_CONFLICT,
            Self::NotAdmitted => keys::CONDITION_NOT_ADMITTED,
            Self::DeletionUnconfirmed => keys::CONDITION_DELETION_UNCONFIRMED,
        }
    }
}

impl Placement {
    /// The name on a spoke that the Application claims.
    pub(crate) const fn place(&self) -> Option<&Place> {
        match self {
            Self::Routed(place, _) => Some(place),
            Self::Local | Self::Ignored | Self::Conflict(_) | Self::Mirror(_) => None,
        }
    }

    /// The cluster that it is routed to, delivered or blocked, or is a mirror of.
    pub(crate) const fn cluster(&self) -> Option<&ClusterName> {
        match self {
            Self::Routed(place, _) => Some(&place.cluster),
            Self::Mirror(cluster) => Some(cluster),
            Self::Local | Self::Ignored | Self::Conflict(_) => None,
        }
    }

    /// The cluster it is delivered to.
    pub(crate) const fn delivered_to(&self) -> Option<&ClusterName> {
        let Self::Routed(place, None) = self else {
            return None;
        };
        Some(&place.cluster)
    }
}

/// The sender of an event, and its protocol.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    pub(crate) cluster: ClusterName,
    /// Whether its reports name the commands that it took.
    pub(crate) names_commands: bool,
    /// Whether it owns its Applications itself.
    pub(crate) is_autonomous: bool,
}

/// The owner of an Application's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ObjectOwner {
    /// The hub's own Argo CD, or nothing: the hub does not know the Application.
    Hub,
    /// None: another Application uses its name on the cluster, or its project does not admit it. A state of this name on the
    /// cluster must not appear here.
    NoOne,
    /// The cluster that runs it.
    Cluster(RemoteApplication),
}

/// An Application on the cluster that runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemoteApplication {
    pub(crate) cluster: ClusterName,
    /// Its namespace there; none means the namespace of the cluster's Argo CD.
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    /// UID of the Application on the hub.
    pub(crate) uid: String,
    /// Its namespace on the hub.
    pub(crate) namespace_here: String,
    /// UID of the Application on the cluster, if the cluster owns it.
    pub(crate) source_uid: Option<String>,
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
