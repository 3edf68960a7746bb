//! Compiles an AppProject for one cluster.

use serde_json::{Value, json};

use crate::glob::{is_deny, matches, matches_or_denies};
use crate::keys::{IN_CLUSTER, IN_CLUSTER_SERVER};
use crate::object::{AppProject, set, text};
use crate::projection::wire_metadata;

#[cfg(test)]
mod tests;

/// The cluster that a project is compiled for.
#[derive(Clone, Copy, Debug)]
pub struct Cluster<'a> {
    /// Its name.
    pub name: &'a str,
    /// The server of its cluster Secret, if known.
    pub server: Option<&'a str>,
}

/// The project with this cluster as its only destination, under the cluster's own name for itself.
///
/// None if the project has no destination on the cluster. A destination that denies the cluster (`!name`) keeps the whole
/// project away: half of a deny rule would be no rule. Roles stay on the hub, where their tokens are valid; so do status,
/// finalizers and owners.
pub fn compile(project: &Value, cluster: Cluster<'_>) -> Option<Value> {
    let view = AppProject::of(project);
    let mut spec = view.spec()?.as_object()?.clone();
    let destinations = destinations(spec.get("destinations"), cluster)?;
    spec.insert("destinations".to_owned(), Value::Array(destinations));
    spec.remove("roles");
    if let Some(Value::Array(accounts)) = spec.get_mut("destinationServiceAccounts") {
        accounts.retain_mut(|account| keep_service_account(account, cluster));
    }
    let mut metadata = wire_metadata(view.value());
    metadata.remove("finalizers");
    Some(json!({
        "apiVersion": crate::keys::API_VERSION,
        "kind": "AppProject",
        "metadata": metadata,
        "spec": spec,
    }))
}

fn destinations(raw: Option<&Value>, cluster: Cluster<'_>) -> Option<Vec<Value>> {
    let mut kept = Vec::new();
    for item in raw?.as_array()?.iter().filter(|item| item.is_object()) {
        let (name, server) = (text(item, "name"), text(item, "server"));
        if denies(name, Some(cluster.name)) || denies(server, cluster.server) {
            return None;
        }
        if concerns(name, server, cluster) {
            let mut own = item.clone();
            set(&mut own, "name", Some(IN_CLUSTER));
            set(&mut own, "server", Some(IN_CLUSTER_SERVER));
            // All names of the cluster become its one name there.
            if !kept.contains(&own) {
                kept.push(own);
            }
        }
    }
    (!kept.is_empty()).then_some(kept)
}

fn denies(pattern: &str, subject: Option<&str>) -> bool {
    is_deny(pattern) && subject.is_some_and(|subject| !matches_or_denies(pattern, subject))
}

fn concerns(name: &str, server: &str, cluster: Cluster<'_>) -> bool {
    if !name.is_empty() && matches_or_denies(name, cluster.name) {
        return true;
    }
    server == "*" && name.is_empty()
        || !server.is_empty()
            && cluster
                .server
                .is_some_and(|subject| matches_or_denies(server, subject))
        || name.is_empty()
            && agent_in_url(server).is_some_and(|pattern| matches(pattern, cluster.name))
}

/// The `agentName` in the URL of the Go implementation's resource proxy.
fn agent_in_url(server: &str) -> Option<&str> {
    let (_, query) = server.split_once('?')?;
    query
        .split('&')
        .find_map(|pair| pair.strip_prefix("agentName="))
        .filter(|name| !name.is_empty())
}

fn keep_service_account(account: &mut Value, cluster: Cluster<'_>) -> bool {
    let Some(server) = account.get("server").and_then(Value::as_str) else {
        return false;
    };
    let ours = server == "*"
        || cluster
            .server
            .is_some_and(|subject| matches(server, subject));
    set(account, "server", ours.then_some(IN_CLUSTER_SERVER));
    ours
}
