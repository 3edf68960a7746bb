//! The effects of a change in the index.

use protocol::ObjectKey;

use crate::domain::{ClusterName, Key};

/// An effect of a change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effect {
    /// Send the fields that the hub owns to this cluster.
    State {
        cluster: ClusterName,
        key: ObjectKey,
    },
    /// Send a command on the object to this cluster.
    Command {
        cluster: ClusterName,
        key: ObjectKey,
    },
    /// Delete the copy of this cluster.
    Gone {
        cluster: ClusterName,
        key: ObjectKey,
        uid: String,
    },
    /// The Application's conditions may have to change.
    Conditions(Key),
}

impl Effect {
    pub(super) fn state(cluster: &ClusterName, key: &Key) -> Self {
        let (cluster, key) = (cluster.clone(), key.object());
        Self::State { cluster, key }
    }

    pub(super) fn command(cluster: &ClusterName, key: &Key) -> Self {
        let (cluster, key) = (cluster.clone(), key.object());
        Self::Command { cluster, key }
    }
}
