//! Why a command did not do what was asked.

use std::time::Duration;

use crate::{change, hub::Error as HubError, output};

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
    #[error("no cluster with the add-on is named {0}; list them with `argocd-agentctl status`")]
    NoCluster(String),
    /// No such cluster Secrets.
    #[error(
        "no cluster Secret belongs to {0}; list them with `argocd-agentctl cluster adopt --dry-run`"
    )]
    NoSecret(String),
    /// No hub program, whose settings have the namespace of the hub's Argo CD.
    #[error(
        "Deployment {0} not found, so the namespace of the hub's Argo CD is not known; name that of the hub program with \
        --own-namespace, or that of Argo CD with --argocd-namespace"
    )]
    NoHubProgram(String),
    /// No argocd-server in this namespace.
    #[error(
        "no argocd-server found in namespace {0}; name the namespace of the hub's Argo CD with --argocd-namespace, or install \
        argocd-server there"
    )]
    NoArgoCd(String),
    /// More than one.
    #[error(
        "several Deployments have the labels of argocd-server: {0}; remove the labels from the others"
    )]
    SeveralServers(String),
    /// One of several changes failed: its object, and the number of changes before it.
    #[error(
        "{0} was not changed ({1} other changes were written before); run the command again to continue"
    )]
    Unfinished(String, usize, #[source] HubError),
    /// No such Application.
    #[error("Application {0} not found on the hub; list them with kubectl get applications -A")]
    NoApplication(String),
    /// Several Applications.
    #[error("several Applications match: {0}; choose one with -n NAMESPACE")]
    Several(String),
    /// It will not be done any more.
    #[error("the request was written, but cannot succeed: {0}")]
    Impossible(String),
    /// It was not done in time: how long was waited, and for what.
    #[error(
        "timed out after {0:?}, waiting for {1}. The operation continues on the hub; follow it with \
        `argocd-agentctl status` and `argocd-agentctl certs list`"
    )]
    NotInTime(Duration, String),
    /// What cannot be a name.
    #[error("{0:?} is not a valid name of a cluster object")]
    NoName(String),
    /// A folder that is to be new may have files of another hub.
    #[error("{0} exists; name a new folder")]
    FolderIsThere(String),
    /// Pages could not be written into this folder.
    #[error("write {0}")]
    Page(String, #[source] std::io::Error),
}
