//! Which `ManagedCluster` a cluster Secret is. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use super::facts::{Address, ClusterSecret, ManagedCluster};

/// How the hub's Argo CD reaches a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// It is the hub itself.
    Hub,
    /// At its API server.
    Push,
    /// Through argocd-agent, or through this add-on.
    Agent,
}

impl Kind {
    /// Of a Secret.
    pub(super) fn of(secret: &ClusterSecret) -> Self {
        if secret.is_hub() {
            return Self::Hub;
        }
        match agent_of(secret) {
            Ok(None) => Self::Push,
            Ok(Some(_)) | Err(_) => Self::Agent,
        }
    }
}

/// By what a cluster was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// Its name.
    Name,
    /// Its API server.
    Server,
}

/// The `ManagedClusters`, by what they are known by.
#[derive(Debug, Default)]
pub(super) struct Known<'a> {
    by_name: BTreeMap<&'a str, &'a ManagedCluster>,
    by_server: BTreeMap<&'a Address, Vec<&'a ManagedCluster>>,
    /// Those that the caller confirmed with `--same-cluster`.
    same: &'a [String],
}

impl<'a> Known<'a> {
    /// All of them, and those whose Secret of the same name is theirs wherever it leads.
    pub(super) fn new(clusters: &'a [ManagedCluster], same: &'a [String]) -> Self {
        let mut known = Self {
            same,
            ..Self::default()
        };
        for cluster in clusters {
            known.by_name.insert(&cluster.name, cluster);
            for server in &cluster.servers {
                let there = known.by_server.entry(server).or_default();
                if !there.iter().any(|it| it.name == cluster.name) {
                    there.push(cluster);
                }
            }
        }
        known
    }

    /// Which one a Secret is; if none, why and what to do.
    pub(super) fn find(&self, secret: &ClusterSecret) -> Result<(&'a ManagedCluster, By), String> {
        let Some(agent) = agent_of(secret)? else {
            return self.pushed(secret);
        };
        let found = self.by_name.get(agent.as_str()).map(|it| (*it, By::Name));
        found.ok_or_else(|| {
            format!(
                "there is no ManagedCluster {agent}; have the cluster join Open Cluster Management under its agent's \
                 name"
            )
        })
    }

    /// Whether its name is enough: its ManagedCluster declares no API server, or the caller confirmed the Secret.
    fn is_by_name(&self, cluster: &ManagedCluster) -> bool {
        cluster.declared.is_empty() || self.same.contains(&cluster.name)
    }

    fn pushed(&self, secret: &ClusterSecret) -> Result<(&'a ManagedCluster, By), String> {
        let named = self.by_name.get(secret.shown.as_str()).copied();
        let address = Address::parse(&secret.server);
        let there = address.as_ref().and_then(|it| self.by_server.get(it));
        let there = there.map_or(&[][..], Vec::as_slice);
        let listed: Vec<_> = there.iter().map(|it| it.name.as_str()).collect();
        let listed = listed.join(", ");
        match (named, there) {
            (Some(named), []) if self.is_by_name(named) => Ok((named, By::Name)),
            (Some(named), []) => Err(another_server(secret, named)),
            (Some(named), there) if there.iter().any(|it| it.name == named.name) => {
                Ok((named, By::Name))
            }
            (Some(named), _) => Err(format!(
                "it has the name of ManagedCluster {}, and the API server of {listed}; correct its name or its server",
                named.name
            )),
            (None, [one]) => Ok((one, By::Server)),
            (None, []) => Err(
                "no ManagedCluster has its name or its API server; have the cluster join Open Cluster Management \
                 (clusteradm join), or set its API server in managedClusterClientConfigs of its ManagedCluster"
                    .to_owned(),
            ),
            (None, _) => Err(format!(
                "several ManagedClusters have its API server: {listed}; rename the Secret after the right one"
            )),
        }
    }
}

/// A name alone is no proof where both sides say which API server is meant, and do not mean the same.
fn another_server(secret: &ClusterSecret, named: &ManagedCluster) -> String {
    let (name, declared) = (&named.name, named.declared.join(", "));
    format!(
        "it has the name of ManagedCluster {name}, whose API server is {declared} (managedClusterClientConfigs) and not \
         {}; if they are the same cluster, add --same-cluster {name}; otherwise correct its name",
        secret.server
    )
}

/// The agent that a Secret names, by its label or in its server.
fn agent_of(secret: &ClusterSecret) -> Result<Option<String>, String> {
    let address = Address::parse(&secret.server);
    let in_server = address.as_ref().and_then(|it| it.agent.as_deref());
    match (secret.agent.as_deref(), in_server) {
        (Some(label), Some(server)) if label != server => Err(format!(
            "its label names agent {label}, its server agent {server}; correct one of them"
        )),
        (label, server) => Ok(label.or(server).map(str::to_owned)),
    }
}
