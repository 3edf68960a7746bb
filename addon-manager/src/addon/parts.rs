//! What the add-on is given.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

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

/// What the add-on works with.
pub struct Parts {
    /// The hub.
    pub client: Client,
    /// The SDK's window on the hub.
    pub view: View,
    /// What this hub is.
    pub own: Own,
    /// Image of the agent.
    pub image: String,
    /// How long an agent's certificate lives at most.
    pub certificate_life: Duration,
    /// The CA.
    pub authority: watch::Receiver<Option<Arc<Authority>>>,
    /// How the certificates of the hub stand.
    pub certificates: watch::Receiver<Arc<Certificates>>,
    /// Where agents dial unless their configuration says otherwise.
    pub address: watch::Receiver<Option<Address>>,
    /// Told the addresses that configurations name, so that the certificate covers them.
    pub addresses: watch::Sender<BTreeMap<String, Address>>,
    /// Whether clusters get the repositories without a project, unless their configuration says otherwise.
    pub shares_unscoped: bool,
    /// Told which clusters get them.
    pub sharing: watch::Sender<BTreeMap<String, bool>>,
    /// The recorded decisions about clusters.
    pub decisions: watch::Receiver<Known>,
    /// The sessions.
    pub sessions: watch::Receiver<Sessions>,
    /// Changes of mode that wait until there are no Applications.
    pub blocked_modes: watch::Receiver<BlockedModes>,
    /// Since when the principal serves.
    pub serving_since: Timestamp,
    /// The cluster Secrets.
    pub secrets: ClusterSecrets,
    /// The `AppProjects` of single clusters, if they are wanted.
    pub projects: Option<Projects>,
    /// Where Argo CD reaches the resource proxy (host and port).
    pub resource_proxy: String,
    /// The hub's Argo CD, as the pattern of those that spokes get.
    pub pattern: watch::Receiver<argocd_install::follow::Hub>,
    /// Told what was decided about the clusters' Argo CD and has to be written down.
    pub records: watch::Sender<argocd_install::record::Records>,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("own", &self.own)
            .finish_non_exhaustive()
    }
}
