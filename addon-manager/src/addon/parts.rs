//! The dependencies of the add-on.

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use ocm::sdk::View;

use crate::{
    channels::Channels,
    fleet::{projects::Projects, secrets::ClusterSecrets},
    hub::Own,
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
    /// Whether clusters of OCM's registration driver `awsirsa` get certificates.
    pub accepts_awsirsa: bool,
    /// Whether clusters get the repositories without a project, unless their configuration overrides that.
    pub shares_unscoped: bool,
    /// Since when the principal serves.
    pub serving_since: Timestamp,
    /// The cluster Secrets.
    pub secrets: ClusterSecrets,
    /// The `AppProjects` of single clusters, if they are enabled.
    pub projects: Option<Projects>,
    /// The address of the resource proxy for Argo CD (host and port).
    pub resource_proxy: String,
    /// The channels to and from other parts.
    pub channels: Channels,
}
