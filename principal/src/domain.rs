//! The nouns that synchronization, live requests and the hub's API share.

use std::fmt;

use argocd::Meta;
use protocol::{Kind, ObjectKey};

use crate::fleet::ClusterName;

/// Namespace and name of an Application on the hub.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
        (key.kind == Kind::Application).then(|| Self {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Application/{}/{}", self.namespace, self.name)
    }
}

/// The owner of an Application's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ObjectOwner {
    /// The hub's own Argo CD, or nothing: the hub does not know the Application.
    Hub,
    /// None: another Application uses its name on the cluster, and that one's state must not appear here.
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
