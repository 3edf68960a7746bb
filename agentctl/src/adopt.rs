//! `cluster adopt`: which clusters the hub's Argo CD reaches today, which `ManagedClusters` they are, and what has to be
//! done before the add-on can have them. Pure.

mod applications;
pub mod facts;
mod matching;
mod obstacles;
mod table;

use std::collections::{BTreeMap, BTreeSet};

use argocd::routing::Clusters;
use clap::ValueEnum;
use diagnosis::{facts::Addon, settings::Settings};
use serde::Serialize;
use serde_json::Value;

pub use applications::{Fate, Named, NamedBy};
pub use matching::{By, Kind};

use crate::{
    check::{self, Finding, Outcome},
    names::missing,
};
use applications::Names;
use facts::{ClusterSecret, ManagedCluster};
use matching::Known;

/// Who shall own the Applications of clusters that are adopted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The hub.
    #[default]
    Managed,
    /// The cluster.
    Autonomous,
}

/// What was read.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Secrets of the hub's Argo CD namespace: those of clusters, and those with a name that ours have.
    pub secrets: Vec<ClusterSecret>,
    /// The `ManagedClusters`.
    pub clusters: Vec<ManagedCluster>,
    /// Those with the add-on.
    pub addons: Vec<Addon>,
    /// Applications, as [`facts::brief`] makes them.
    pub applications: Vec<Value>,
    /// The workloads that may be Argo CD application controllers.
    pub controllers: Result<Vec<Value>, String>,
    /// Argo CD's parameters.
    pub parameters: Result<Option<Value>, String>,
    /// The `ClusterManagementAddOn`; why it could not be read.
    pub offer: Result<Option<Value>, String>,
    /// The hub program's settings.
    pub settings: Settings,
    /// Its namespace.
    pub own_namespace: String,
    /// Who shall own the Applications.
    pub mode: Mode,
    /// UID of the hub's own namespace `kube-system`, by which the hub program knows the hub among the clusters.
    pub hub_uid: Result<Option<String>, String>,
    /// Clusters whose Secret the caller confirmed with `--same-cluster`, although it has another API server.
    pub same: Vec<String>,
}

/// What is there, and what has to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// One for each cluster Secret.
    pub clusters: Vec<Row>,
    /// The Applications that name one of the clusters.
    pub applications: Vec<Named>,
    /// What of the hub is in the way of all of them.
    pub hub: Vec<Finding>,
}

/// One cluster Secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// The Secret's name.
    pub secret: String,
    /// How Argo CD calls the cluster.
    pub name: String,
    /// Where the hub's Argo CD reaches it.
    pub server: String,
    /// How.
    pub kind: Kind,
    /// The `ManagedCluster` that it is.
    pub cluster: Option<String>,
    /// By what that is known.
    pub by: Option<By>,
    /// How many Applications name it.
    pub applications: usize,
    /// How far it is.
    pub state: State,
    /// What is in the way, each with what to do.
    pub in_the_way: Vec<String>,
    /// What is left to do when it is adopted.
    pub afterwards: Option<String>,
}

/// How far a cluster is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It is the hub, and stays as it is.
    Stays,
    /// It has the add-on.
    Adopted,
    /// It is opted in; the hub program has not made its add-on yet.
    OptedIn,
    /// Nothing is in the way.
    Ready,
    /// Something is in the way.
    Blocked,
}

/// What is there, and what has to be done.
pub fn plan(facts: &Facts) -> Plan {
    let known = Known::new(&facts.clusters, &facts.same);
    let enrolled: BTreeSet<_> = facts.addons.iter().map(|it| it.cluster.as_str()).collect();
    let secrets = facts.secrets.iter().filter(|secret| secret.is_cluster);
    let matched = secrets.map(|secret| {
        let kind = Kind::of(secret);
        let found = (kind != Kind::Hub).then(|| known.find(secret));
        (secret, kind, found)
    });
    let matched: Vec<_> = matched.collect();
    let sure = matched.iter().filter_map(|(secret, kind, found)| {
        let (cluster, _) = found.as_ref()?.as_ref().ok()?;
        Some((*secret, *kind, cluster.name.as_str()))
    });
    let sure: Vec<_> = sure.collect();
    let after = after(facts, &sure);
    let names = Names::new(&sure, &after, &enrolled, &facts.settings.routing);
    let applications = facts.applications.iter();
    let mut applications: Vec<_> = applications.flat_map(|it| names.judge(it)).collect();
    applications.sort_by(|a, b| (&a.cluster, &a.application).cmp(&(&b.cluster, &b.application)));
    let names: BTreeSet<_> = sure.iter().map(|(.., name)| *name).collect();
    let hub = hub(facts, &names, &enrolled);
    let rows = matched.into_iter().map(|(secret, kind, found)| {
        row(facts, secret, kind, found, &applications, !hub.is_empty())
    });
    let mut clusters: Vec<_> = rows.collect();
    hold_namesakes(&mut clusters);
    clusters.sort_by(|a, b| (&a.cluster, &a.secret).cmp(&(&b.cluster, &b.secret)));
    Plan {
        clusters,
        applications,
        hub,
    }
}

/// The clusters as routing sees them when all are adopted. Where the add-on will have the server of a cluster is not
/// known before, and it is never that of now.
fn after(facts: &Facts, sure: &[(&ClusterSecret, Kind, &str)]) -> Clusters {
    let is_autonomous = facts.mode == Mode::Autonomous;
    let adopted = sure
        .iter()
        .map(|(.., cluster)| (*cluster, (None, is_autonomous)));
    let enrolled = facts.addons.iter().map(|addon| {
        let mut secrets = facts.secrets.iter();
        let ours = secrets.find(|secret| secret.becomes_ours(&addon.cluster));
        let server = ours.map(|secret| secret.server.clone());
        (addon.cluster.as_str(), (server, addon.is_autonomous()))
    });
    let all: BTreeMap<_, _> = adopted.chain(enrolled).collect();
    let owned = |(cluster, _): (&&str, _)| (*cluster).to_owned();
    let autonomous = all.iter().filter(|(_, (_, is_autonomous))| *is_autonomous);
    let servers = all.iter().map(|it| (owned(it), it.1.0.clone()));
    Clusters::new(servers).with_autonomous(autonomous.map(owned))
}

/// What of the hub is in the way of every cluster, as `check` says it.
fn hub(facts: &Facts, names: &BTreeSet<&str>, enrolled: &BTreeSet<&str>) -> Vec<Finding> {
    if names.is_empty() {
        return Vec::new();
    }
    let clusters = names.union(enrolled).map(|name| (*name).to_owned());
    let clusters: Vec<_> = clusters.collect();
    let argocd = &facts.settings.routing.argocd_namespace;
    let (controllers, parameters) = (&facts.controllers, &facts.parameters);
    let controllers = check::controllers(controllers, parameters, argocd, &clusters);
    let mut all: Vec<_> = Finding::each("controllers", controllers).collect();
    all.push(Finding::of(("add-on", check::offer(&facts.offer))));
    if !names.is_subset(enrolled) {
        all.extend(obstacles::placements(&facts.offer));
    }
    // Where it is not known whether two would write, nothing is begun.
    all.retain(|finding| finding.result != Outcome::Ok);
    all
}

fn row(
    facts: &Facts,
    secret: &ClusterSecret,
    kind: Kind,
    found: Option<Result<(&ManagedCluster, By), String>>,
    applications: &[Named],
    hub_in_the_way: bool,
) -> Row {
    let mut row = Row {
        secret: secret.name.clone(),
        name: secret.shown.clone(),
        server: secret.server.clone(),
        kind,
        cluster: None,
        by: None,
        applications: 0,
        state: State::Stays,
        in_the_way: Vec::new(),
        afterwards: None,
    };
    let (cluster, by) = match found {
        None => return row,
        Some(Err(why)) => {
            row.block(why);
            return row;
        }
        Some(Ok(found)) => found,
    };
    let of = || applications.iter().filter(|it| it.cluster == cluster.name);
    row.cluster = Some(cluster.name.clone());
    row.by = Some(by);
    row.applications = of().count();
    row.in_the_way = obstacles::of(facts, cluster);
    row.in_the_way.extend(obstacles::applications(of()));
    row.afterwards = obstacles::afterwards(facts, secret, &cluster.name);
    let has_addon = facts.addons.iter().any(|it| it.cluster == cluster.name);
    row.state = match (row.in_the_way.is_empty(), has_addon, &cluster.mode) {
        (false, ..) => State::Blocked,
        (true, true, _) => State::Adopted,
        (true, false, _) if hub_in_the_way => State::Blocked,
        (true, false, Some(_)) => State::OptedIn,
        (true, false, None) => State::Ready,
    };
    row
}

/// A destination by name means the Secret of that name today. So before it is known which cluster that one
/// is, the cluster of the name is not adopted by another Secret either.
fn hold_namesakes(rows: &mut [Row]) {
    let in_doubt = rows.iter().filter(|row| row.cluster.is_none());
    let in_doubt = in_doubt.filter(|row| row.state == State::Blocked);
    let in_doubt = in_doubt.map(|row| (row.name.clone(), row.secret.clone()));
    let in_doubt: BTreeMap<_, _> = in_doubt.collect();
    for row in rows {
        let secret = row.cluster.as_ref().and_then(|it| in_doubt.get(it));
        if let (Some(secret), State::Ready | State::Blocked) = (secret, row.state) {
            let why = format!("the Secret {secret} has its name, and its cluster is unknown");
            row.block(why);
        }
    }
}

impl Row {
    fn block(&mut self, why: String) {
        self.state = State::Blocked;
        self.in_the_way.push(why);
    }

    /// The cluster; without one, how Argo CD calls it.
    pub fn cluster_or_name(&self) -> &String {
        self.cluster.as_ref().unwrap_or(&self.name)
    }
}

impl Plan {
    /// Leaves only these clusters; says which of them are not there.
    pub fn keep(&mut self, names: &[String]) -> Vec<String> {
        if names.is_empty() {
            return Vec::new();
        }
        self.clusters
            .retain(|row| names.contains(row.cluster_or_name()));
        self.applications.retain(|it| names.contains(&it.cluster));
        let known: Vec<_> = self.clusters.iter().map(Row::cluster_or_name).collect();
        missing(names, &known)
    }

    /// The clusters that can be adopted now, each once.
    pub fn ready(&self) -> BTreeSet<String> {
        let of = |state: State| {
            let rows = self.clusters.iter().filter(move |row| row.state == state);
            rows.filter_map(|row| row.cluster.clone())
        };
        let blocked: BTreeSet<_> = of(State::Blocked).collect();
        of(State::Ready)
            .filter(|cluster| !blocked.contains(cluster))
            .collect()
    }

    /// Says what came of opting one in.
    pub fn record(&mut self, cluster: &str, done: &Result<(), String>) {
        let rows = self.clusters.iter_mut();
        for row in rows.filter(|row| row.cluster.as_deref() == Some(cluster)) {
            match done {
                Ok(()) => row.state = State::OptedIn,
                Err(why) => row.block(why.clone()),
            }
        }
    }

    /// Says which of them are connected by now.
    pub fn connected(&mut self, clusters: &[String]) {
        let rows = self.clusters.iter_mut();
        let is_one = |row: &&mut Row| row.cluster.as_ref().is_some_and(|it| clusters.contains(it));
        for row in rows.filter(is_one) {
            row.state = State::Adopted;
        }
    }

    /// Whether something is in the way.
    pub fn is_blocked(&self) -> bool {
        let mut rows = self.clusters.iter();
        !self.hub.is_empty() || rows.any(|row| row.state == State::Blocked)
    }
}

#[cfg(test)]
mod tests;
