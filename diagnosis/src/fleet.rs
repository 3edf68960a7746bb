//! The clusters with the add-on as routing sees them. Pure.

use std::collections::BTreeMap;

use argocd::{keys, routing::Clusters};
use serde_json::Value;

use crate::{facts::Addon, object::secret_text};

/// The servers of the Argo CD cluster Secrets, by cluster.
pub type Servers = BTreeMap<String, String>;

/// The cluster and the server of a cluster Secret; nothing else of it.
pub fn server(secret: &Value) -> Option<(String, String)> {
    let cluster = argocd::Meta::of(secret).label(keys::AGENT_NAME)?;
    Some((cluster.to_owned(), secret_text(secret, "server")?))
}

/// Those that Applications can go to.
pub fn clusters(addons: &[Addon], servers: &Servers) -> Clusters {
    let there = || addons.iter().filter(|addon| addon.is_in_force());
    let named = there().map(|addon| (addon.cluster.clone(), servers.get(&addon.cluster).cloned()));
    let autonomous = there().filter(|addon| addon.is_autonomous());
    Clusters::new(named).with_autonomous(autonomous.map(|addon| addon.cluster.clone()))
}
