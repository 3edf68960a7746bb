//! The placement of an Application.

use argocd::routing::{Route, SpokeNamespace};

/// A name on a spoke.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) cluster: String,
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
    Mirror(String),
    /// A cluster; not delivered while it is blocked.
    Routed(Place, Option<Blocked>),
}

/// Why an Application is not delivered: a condition for users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blocked {
    pub(crate) condition: &'static str,
    pub(crate) message: String,
}

impl Placement {
    pub(in crate::sync::hub::index) fn from_route(route: Route, name: &str) -> Self {
        match route {
            Route::Local => Self::Local,
            Route::Conflict(reason) => Self::Conflict(reason),
            Route::Mirror(cluster) => Self::Mirror(cluster),
            Route::ToCluster {
                cluster,
                spoke_namespace,
            } => Self::Routed(
                Place {
                    cluster,
                    spoke_namespace,
                    name: name.to_owned(),
                },
                None,
            ),
        }
    }

    pub(crate) const fn place(&self) -> Option<&Place> {
        match self {
            Self::Routed(place, _) => Some(place),
            Self::Local | Self::Ignored | Self::Conflict(_) | Self::Mirror(_) => None,
        }
    }
}
