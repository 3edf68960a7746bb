//! The API that a command connects to, and the messages for a wrong one. Pure.

/// Whose API it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
pub enum Target {
    /// The hub's.
    #[display("the hub")]
    Hub,
    /// That of a cluster of the fleet.
    #[display("the cluster")]
    Cluster,
}

impl Target {
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
    pub(super) fn missing_kind(self, resource: &str) -> String {
        match self {
            Self::Hub => format!(
                "this cluster does not serve {resource}; check that it is the hub (--context) with Open Cluster \
                Management and Argo CD's CRDs"
            ),
            Self::Cluster => format!("the cluster does not serve {resource}"),
        }
    }
}
