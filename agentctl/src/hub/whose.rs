//! Whose API is asked, and what to tell people who gave the wrong one. Pure.

use std::fmt;

/// Whose API it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The hub's.
    Hub,
    /// That of a cluster of the fleet.
    Cluster,
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hub => "the hub",
            Self::Cluster => "the cluster",
        })
    }
}

impl Whose {
    /// How to say which one is meant.
    pub(super) const fn flags(self) -> &'static str {
        match self {
            Self::Hub => {
                "name the kubeconfig with --kubeconfig or KUBECONFIG, and the context of the hub with --context"
            }
            Self::Cluster => {
                "name the kubeconfig of the cluster with --spoke-kubeconfig, and its context with --spoke-context"
            }
        }
    }

    /// That it does not know a kind.
    pub(super) fn lacks(self, resource: &str) -> String {
        match self {
            Self::Hub => format!(
                "this cluster does not serve {resource}; is it the hub (--context), and are Open Cluster Management and \
                 Argo CD's CRDs installed there?"
            ),
            Self::Cluster => format!("the cluster does not serve {resource}"),
        }
    }
}
