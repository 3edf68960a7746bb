//! The dependencies of the add-on.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::Client;
use ocm::sdk::View;
use principal::Sessions;
use tokio::sync::watch;

use super::argocd_install;
use crate::{
    address::Address,
    decisions::Known,
    fleet::{projects::Projects, secrets::ClusterSecrets},
    hub::Own,
    issuer::{Authority, Certificates},
    optin::BlockedModes,
};

/// The dependencies of the add-on: clients, settings and channels.
#[derive(derive_more::Debug)]
#[debug("Parts({own:?})")]
pub struct Parts {
    /// The client of the hub's API.
    pub client: Client,
    /// The SDK's view of the hub.
    pub view: View,
    /// The identity of this hub.
    pub own: Own,
    /// Image of the agent.
    pub image: String,
    /// The maximum lifetime of an agent's certificate.
    pub certificate_life: Duration,
    /// The CA.
    pub authority: watch::Receiver<Option<Arc<Authority>>>,
    /// The state of the hub's certificates.
    pub certificates: watch::Receiver<Arc<Certificates>>,
    /// The address that agents dial unless their configuration sets another.
    pub address: watch::Receiver<Option<Address>>,
    /// Publishes the addresses that configurations set, so that the certificate covers them.
    pub addresses: watch::Sender<BTreeMap<String, Address>>,
    /// Whether clusters get the repositories without a project, unless their configuration overrides that.
    pub shares_unscoped: bool,
    /// Publishes whether each cluster gets the repositories without a project.
    pub sharing: watch::Sender<BTreeMap<String, bool>>,
    /// The recorded decisions about clusters.
    pub decisions: watch::Receiver<Known>,
    /// The sessions.
    pub sessions: watch::Receiver<Sessions>,
    /// Changes of mode that Applications block.
    pub blocked_modes: watch::Receiver<BlockedModes>,
    /// Since when the principal serves.
    pub serving_since: Timestamp,
    /// The cluster Secrets.
    pub secrets: ClusterSecrets,
    /// The `AppProjects` of single clusters, if they are enabled.
    pub projects: Option<Projects>,
    /// The address of the resource proxy for Argo CD (host and port).
    pub resource_proxy: String,
    /// The hub's Argo CD, the pattern for spokes.
    pub pattern: watch::Receiver<argocd_install::follow::Hub>,
    /// Publishes the decisions to record about the clusters' Argo CD.
    pub records: watch::Sender<argocd_install::record::Records>,
}
