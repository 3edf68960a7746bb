//! The rules of routing, and doubts about them. Pure.

use argocd::routing::RoutingSettings;

/// The rules of routing, and whether they are the hub program's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What routing needs.
    pub routing: RoutingSettings,
    /// A note for the user about their source.
    pub doubt: Option<String>,
    /// Why conditions of clusters and Applications may be stale, if the hub program does not run.
    pub silent: Option<String>,
}

/// Those of the hub program, which knows them and runs.
impl From<RoutingSettings> for Settings {
    fn from(routing: RoutingSettings) -> Self {
        Self {
            routing,
            doubt: None,
            silent: None,
        }
    }
}
