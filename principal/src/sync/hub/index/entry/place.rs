//! Where an Application goes.

use argocd::routing::{Route, SpokeNamespace};

/// A name on a spoke.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) cluster: String,
    pub(crate) spoke_namespace: SpokeNamespace,
    pub(crate) name: String,
}

/// Where an Application goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Nowhere; it is the hub's own.
    Local,
    /// Nowhere; its user wants it left alone.
    Ignored,
    /// Nowhere: it contradicts itself.
    Conflict(String),
    /// Nowhere: it shows an Application of this autonomous cluster, to which only commands go.
    Mirror(String),
    /// To a cluster, unless it is held.
    Routed(Place, Option<Blocked>),
}

/// Why an Application is not delivered to where it goes: a condition for people.
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
