//! What becomes of the Applications that name a cluster. Pure.

use std::collections::{BTreeMap, BTreeSet};

use argocd::{
    Application,
    routing::{Clusters, Route, RoutingSettings, route},
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    facts::{Address, ClusterSecret, maker},
    matching::Kind,
};

/// One Application that names a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Named {
    /// `namespace/name`.
    pub application: String,
    /// The cluster.
    pub cluster: String,
    /// By what it names the cluster.
    pub by: BTreeSet<NamedBy>,
    /// What becomes of it.
    pub fate: Fate,
    /// The `ApplicationSet` that makes it, where a change has to be made.
    pub made_by: Option<String>,
    /// What the destination has to be set to, `null` for what has to go.
    pub set: Option<Value>,
    /// What is in the way.
    pub why: Option<String>,
}

/// By what an Application names a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NamedBy {
    /// `destination.name`.
    Name,
    /// `destination.server`.
    Server,
    /// Its namespace on the hub.
    Namespace,
}

/// What becomes of an Application when the cluster is adopted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// It goes to the cluster as it is.
    Reached,
    /// It goes there when its destination is changed.
    Change,
    /// It would not go there, or from where it is now.
    #[serde(rename = "held")]
    Blocked,
}

/// The clusters as Applications name them before, and as routing sees them after.
#[derive(Debug)]
pub(super) struct Names<'a> {
    by_name: BTreeMap<&'a str, BTreeSet<&'a str>>,
    by_server: BTreeMap<Address, BTreeSet<&'a str>>,
    /// Clusters whose namespace Argo CD on the hub takes for any other.
    pushed: BTreeSet<&'a str>,
    after: &'a Clusters,
    settings: &'a RoutingSettings,
}

impl<'a> Names<'a> {
    /// From the Secrets whose cluster is known.
    pub(super) fn new(
        known: &[(&'a ClusterSecret, Kind, &'a str)],
        after: &'a Clusters,
        enrolled: &BTreeSet<&str>,
        settings: &'a RoutingSettings,
    ) -> Self {
        let mut by_name = BTreeMap::<_, BTreeSet<_>>::new();
        let mut by_server = BTreeMap::<_, BTreeSet<_>>::new();
        for (secret, _, cluster) in known {
            by_name
                .entry(secret.shown.as_str())
                .or_default()
                .insert(*cluster);
            by_name.entry(cluster).or_default().insert(*cluster);
            if let Some(address) = Address::parse(&secret.server) {
                by_server.entry(address).or_default().insert(*cluster);
            }
        }
        let of_kind = |wanted| {
            let known = known.iter().filter(move |(_, kind, _)| *kind == wanted);
            known.map(|(.., cluster)| *cluster).collect::<BTreeSet<_>>()
        };
        // Where there is an agent, the namespace is the cluster's already.
        let by_agent = of_kind(Kind::Agent);
        let mut pushed = of_kind(Kind::Push);
        pushed.retain(|cluster| !by_agent.contains(cluster) && !enrolled.contains(cluster));
        Self {
            by_name,
            by_server,
            pushed,
            after,
            settings,
        }
    }

    /// What becomes of one Application, for each cluster that it names.
    pub(super) fn judge(&self, application: &Value) -> Vec<Named> {
        let app = Application::of(application);
        let destination = app.destination();
        let mut found = BTreeMap::<&str, BTreeSet<NamedBy>>::new();
        let mut note = |clusters: Option<&BTreeSet<&'a str>>, by| {
            for cluster in clusters.into_iter().flatten() {
                found.entry(cluster).or_default().insert(by);
            }
        };
        if !destination.name.is_empty() {
            note(self.by_name.get(destination.name), NamedBy::Name);
        }
        let address = Address::parse(destination.server);
        let by_server = address.and_then(|it| self.by_server.get(&it));
        note(by_server, NamedBy::Server);
        let namespace = app.namespace();
        if namespace != self.settings.argocd_namespace
            && let Some(own) = self.by_name.get(namespace)
            && let Some(cluster) = own.get(namespace)
        {
            note(Some(&BTreeSet::from([*cluster])), NamedBy::Namespace);
        }
        let found = found.into_iter();
        let judged = found.map(|(cluster, by)| self.fate(application, cluster, by));
        judged.collect()
    }

    fn fate(&self, application: &Value, cluster: &str, by: BTreeSet<NamedBy>) -> Named {
        let app = Application::of(application);
        let goes = |app| match route(app, self.after, self.settings) {
            Route::ToCluster { cluster: to, .. } | Route::Mirror(to) if to == cluster => Ok(()),
            Route::Conflict(message) => Err(message),
            Route::ToCluster { .. } | Route::Mirror(_) | Route::Local => Err(format!(
                "it would not be delivered to {cluster}: name {:?} and server {:?} of its destination are another cluster",
                app.destination().name,
                app.destination().server,
            )),
        };
        let only_there = by.iter().all(|by| *by == NamedBy::Namespace);
        let changed = with_name(application, cluster);
        let (fate, why) = match (goes(app), only_there) {
            (Ok(()), true) if self.pushed.contains(cluster) => (
                Fate::Blocked,
                Some(format!(
                    "it deploys to the hub itself and would go to {cluster}, whose namespace it is in; move it to \
                     namespace {}",
                    self.settings.argocd_namespace
                )),
            ),
            (Ok(()), _) => (Fate::Reached, None),
            // What it means is another cluster.
            (Err(why), true) => (Fate::Blocked, Some(why)),
            (Err(_), false) => match goes(Application::of(&changed)) {
                Ok(()) => (Fate::Change, None),
                Err(why) => (Fate::Blocked, Some(why)),
            },
        };
        let set = (fate == Fate::Change).then(|| name_only(cluster));
        let is_well = fate == Fate::Reached;
        Named {
            application: format!("{}/{}", app.namespace(), app.name()),
            cluster: cluster.to_owned(),
            by,
            fate,
            made_by: maker(application).filter(|_| !is_well).map(str::to_owned),
            set,
            why,
        }
    }
}

fn name_only(cluster: &str) -> Value {
    json!({"spec": {"destination": {"name": cluster, "server": null}}})
}

fn with_name(application: &Value, cluster: &str) -> Value {
    let mut changed = application.clone();
    argocd::patch::merge(&mut changed, &name_only(cluster));
    changed
}
