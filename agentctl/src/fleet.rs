//! The clusters with the add-on as routing sees them. Pure.

use std::collections::BTreeMap;

use argocd::{keys, routing::Clusters};
use serde_json::Value;

use crate::{facts::Addon, object::secret_text};

/// The servers of the Argo CD cluster Secrets, by cluster.
pub type Servers = BTreeMap<String, String>;

/// Takes in the server of a cluster Secret; nothing else of it.
pub fn take_server(servers: &mut Servers, secret: &Value) {
    let Some(cluster) = argocd::Meta::of(secret).label(keys::AGENT_NAME) else {
        return;
    };
    if let Some(server) = secret_text(secret, "server") {
        servers.insert(cluster.to_owned(), server);
    }
}

/// Those that Applications can go to.
pub fn clusters(addons: &[Addon], servers: &Servers) -> Clusters {
    let there = || addons.iter().filter(|addon| addon.is_in_force());
    let named = there().map(|addon| (addon.cluster.clone(), servers.get(&addon.cluster).cloned()));
    let autonomous = there().filter(|addon| addon.is_autonomous());
    Clusters::new(named).with_autonomous(autonomous.map(|addon| addon.cluster.clone()))
}
