//! Why a command did not do what was asked.

use std::time::Duration;

use crate::{change, hub::Error as HubError, names::Unknown, output};

/// Why a command did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The hub.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// Printing.
    #[error(transparent)]
    Output(#[from] output::Error),
    /// Nothing was written.
    #[error(transparent)]
    Refused(#[from] change::Refusal),
    /// No such clusters.
    #[error("no cluster with the add-on is named {0}; `argocd-agentctl status` lists them")]
    NoCluster(Unknown),
    /// No such cluster Secrets.
    #[error("no cluster Secret is of {0}; `argocd-agentctl cluster adopt --dry-run` lists them")]
    NoSecret(Unknown),
    /// No such Application.
    #[error("there is no Application {0} on the hub; look with kubectl get applications -A")]
    NoApplication(Unknown),
    /// Several Applications.
    #[error("there are several: {0}; name the namespace with -n")]
    Several(String),
    /// It will not be done any more.
    #[error("it was asked for, and will not be done: {0}")]
    Never(String),
    /// It was not done in time.
    #[error(
        "it was asked for, and is not done after {within:?}: waiting for {waits_for}. It goes on by itself; `argocd-agentctl \
         status` and `argocd-agentctl certs list` show how far it is"
    )]
    NotInTime {
        /// How long was waited.
        within: Duration,
        /// For what.
        waits_for: String,
    },
    /// What cannot be a name.
    #[error("{0:?} cannot be a name on a cluster")]
    NoName(String),
    /// A folder that is to be new may have files of another hub.
    #[error("{0} is there already: name a folder that is not")]
    FolderIsThere(String),
    /// Pages could not be written.
    #[error("write {path}")]
    Page {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
}
