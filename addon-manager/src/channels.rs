//! The channels between the parts of the hub program.

use std::{collections::BTreeMap, sync::Arc};

use ocm::sdk::View;
use principal::{Fleet, Sessions};
use tokio::sync::watch;

use crate::{
    addon::argocd_install::{follow::Hub, record::Records},
    address::Address,
    decisions::Known,
    issuer::{Authority, Certificates, rotation::Agents},
};

/// Clusters whose mode cannot change yet, with the number of Applications that block the change.
pub type BlockedModes = Arc<BTreeMap<String, usize>>;

/// Channels between parts; only the newest value counts.
#[derive(Clone, Debug, Default)]
pub struct Channels {
    /// Whether this replica serves agents: it leads, and the fleet is known.
    pub serving: watch::Sender<bool>,
    /// The enrolled clusters: from the fleet to the principal.
    pub fleet: watch::Sender<Arc<Fleet>>,
    /// The SDK's view of the hub, while this replica leads: from the leader's run to the UI.
    pub view: watch::Sender<Option<View>>,
    /// The recorded decisions about clusters, from the opt-in controller to the fleet and the add-on.
    pub decisions: watch::Sender<Known>,
    /// The sessions: from the principal to the conditions.
    pub sessions: watch::Sender<Sessions>,
    /// The CA: from the issuer to the signer and the manifests.
    pub authority: watch::Sender<Option<Arc<Authority>>>,
    /// The state of the certificates: from the issuer to the conditions.
    pub certificates: watch::Sender<Arc<Certificates>>,
    /// The CAs that agents trust and use, during a rotation: from the fleet to the issuer.
    pub agents: watch::Sender<Option<Arc<Agents>>>,
    /// The default address that agents dial.
    pub address: watch::Sender<Option<Address>>,
    /// Whether the first search for that address is complete.
    pub looked: watch::Sender<bool>,
    /// The addresses that agents of single clusters dial.
    pub addresses: watch::Sender<BTreeMap<String, Address>>,
    /// Whether known clusters get the repositories without a project.
    pub sharing: watch::Sender<BTreeMap<String, bool>>,
    /// The hub's own Argo CD, as far as it was observed.
    pub pattern: watch::Sender<Hub>,
    /// The decisions to record about the clusters' Argo CD.
    pub records: watch::Sender<Records>,
    /// The blocked changes of mode: from opt-in to the conditions.
    pub blocked_modes: watch::Sender<BlockedModes>,
}
