//! The target of each Application, and the resolution of name conflicts.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster_project;
use crate::glob;
use crate::keys::{IN_CLUSTER, IN_CLUSTER_SERVER};
use crate::mirror;
use crate::object::{Application, Destination};

#[cfg(test)]
mod tests;

/// The clusters that are enrolled now, by name and by the server URL of their cluster Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clusters {
    by_name: BTreeMap<String, Option<String>>,
    by_server: BTreeMap<String, String>,
    autonomous: BTreeSet<String>,
}

impl Clusters {
    /// From names and the servers of their cluster Secrets, if known.
    pub fn new(clusters: impl IntoIterator<Item = (String, Option<String>)>) -> Self {
        let by_name: BTreeMap<_, _> = clusters.into_iter().collect();
        let by_server = by_name
            .iter()
            .filter_map(|(name, server)| {
                Some((normal_url(server.as_ref()?).to_owned(), name.clone()))
            })
            .collect();
        Self {
            by_name,
            by_server,
            autonomous: BTreeSet::new(),
        }
    }

    /// Sets the autonomous clusters.
    #[must_use]
    pub fn with_autonomous(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.autonomous = names.into_iter().collect();
        self
    }

    /// Whether this cluster is autonomous.
    pub fn is_autonomous(&self, name: &str) -> bool {
        self.autonomous.contains(name)
    }

    /// Whether a cluster of this name is enrolled.
    pub fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// The server of its cluster Secret.
    pub fn server_of(&self, name: &str) -> Option<&str> {
        self.by_name.get(name)?.as_deref()
    }

    /// The cluster with this server.
    pub fn by_server(&self, server: &str) -> Option<&str> {
        self.by_server.get(normal_url(server)).map(String::as_str)
    }

    /// The cluster that may have an AppProject of this name on the hub, as its mirror or as its restricted project.
    ///
    /// `a-b-c` fits project `b-c` of cluster `a` and project `c` of cluster `a-b`: the longest name of an autonomous
    /// cluster decides. The restricted project of a managed cluster comes first.
    pub fn owner_of_project(&self, name: &str) -> Option<&str> {
        let restricted = cluster_project::cluster_of(name)
            .and_then(|cluster| self.by_name.get_key_value(cluster))
            .map(|(cluster, _)| cluster)
            .filter(|cluster| !self.is_autonomous(cluster));
        let mut prefixes = name.rmatch_indices('-').map(|(at, _)| name.split_at(at).0);
        restricted
            .or_else(|| prefixes.find_map(|prefix| self.autonomous.get(prefix)))
            .map(String::as_str)
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }
}

/// The principal's settings for routing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingSettings {
    /// Namespace of Argo CD on the hub.
    pub argocd_namespace: String,
    /// Further namespaces from which Applications are delivered by destination; patterns.
    pub allowed_namespaces: Vec<String>,
}

/// The route of an Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// To a managed cluster.
    ToCluster {
        /// Its name.
        cluster: String,
        /// The namespace there.
        spoke_namespace: SpokeNamespace,
    },
    /// Not delivered: it mirrors an Application of this autonomous cluster.
    Mirror(String),
    /// Not delivered: it stays on the hub.
    Local,
    /// Not delivered: it contradicts itself. The text is for [`CONDITION_CONFLICT`](crate::keys::CONDITION_CONFLICT).
    Conflict(String),
}

impl Route {
    /// The cluster, if it goes to one or comes from one.
    pub fn cluster(&self) -> Option<&str> {
        match self {
            Self::ToCluster { cluster, .. } | Self::Mirror(cluster) => Some(cluster),
            Self::Local | Self::Conflict(_) => None,
        }
    }
}

/// The namespace of a replica.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpokeNamespace {
    /// The namespace of the spoke's Argo CD.
    ArgoCd,
    /// The same as on the hub.
    Same(String),
}

/// The target of a destination.
enum Points<'a> {
    Cluster(&'a str),
    Hub,
    Nowhere,
    Elsewhere,
    /// Name and server are of different clusters.
    Apart,
}

/// Routes an Application. Total: every JSON value has a route.
pub fn route(app: Application<'_>, clusters: &Clusters, settings: &RoutingSettings) -> Route {
    let namespace = app.namespace();
    if clusters.contains(namespace)
        && namespace != settings.argocd_namespace
        && let Some(route) = around_mirrors(app, namespace, clusters)
    {
        return route;
    }
    let destination = app.destination();
    let points = points(destination, clusters);
    if let Points::Apart = points {
        return if clusters.contains(namespace) || names_a_cluster(destination, clusters) {
            Route::Conflict(format!(
                "destination name {:?} and server {:?} are not the same cluster; correct one of them",
                destination.name, destination.server
            ))
        } else {
            Route::Local
        };
    }
    if clusters.contains(namespace) && namespace != settings.argocd_namespace {
        return from_cluster_namespace(namespace, destination, &points);
    }
    let Points::Cluster(cluster) = points else {
        return Route::Local;
    };
    if clusters.is_autonomous(cluster) {
        return Route::Conflict(owned_there(cluster));
    }
    let spoke_namespace = if namespace == settings.argocd_namespace {
        SpokeNamespace::ArgoCd
    } else if settings
        .allowed_namespaces
        .iter()
        .any(|entry| glob::matches_entry(entry, namespace))
    {
        SpokeNamespace::Same(namespace.to_owned())
    } else {
        return Route::Conflict(format!(
            "Applications of namespace {namespace:?} are not delivered to clusters; move it to \
             namespace {cluster:?} or {:?}, or allow its namespace (--allowed-namespaces)",
            settings.argocd_namespace
        ));
    };
    Route::ToCluster {
        cluster: cluster.to_owned(),
        spoke_namespace,
    }
}

/// Routes mirrors, and other Applications in the namespace of an autonomous cluster.
fn around_mirrors(app: Application<'_>, cluster: &str, clusters: &Clusters) -> Option<Route> {
    let is_mirror = mirror::is_of(app.value(), cluster);
    match (clusters.is_autonomous(cluster), is_mirror) {
        (true, true) => Some(Route::Mirror(cluster.to_owned())),
        (true, false) => Some(Route::Conflict(owned_there(cluster))),
        // A delivered mirror would overwrite its own source.
        (false, true) => Some(Route::Conflict(format!(
            "it is a mirror from when cluster {cluster:?} was autonomous; delete it, or remove its annotation {:?} \
            to make it the hub's own",
            crate::keys::MIRRORED_FROM
        ))),
        (false, false) => None,
    }
}

fn owned_there(cluster: &str) -> String {
    format!(
        "cluster {cluster:?} is autonomous and owns its Applications; create this one there, and the hub mirrors it"
    )
}

fn from_cluster_namespace(
    cluster: &str,
    destination: Destination<'_>,
    points: &Points<'_>,
) -> Route {
    match points {
        Points::Hub => {}
        Points::Cluster(name) if *name == cluster => {}
        Points::Nowhere => {
            return Route::Conflict(format!(
                "the destination names no cluster; in namespace {cluster:?} it is {cluster:?} or {IN_CLUSTER:?}"
            ));
        }
        Points::Cluster(_) | Points::Elsewhere | Points::Apart => {
            let other = if destination.name.is_empty() {
                destination.server
            } else {
                destination.name
            };
            return Route::Conflict(format!(
                "namespace {cluster:?} belongs to cluster {cluster:?}, but the destination is {other:?}"
            ));
        }
    }
    Route::ToCluster {
        cluster: cluster.to_owned(),
        spoke_namespace: SpokeNamespace::ArgoCd,
    }
}

fn points<'a>(destination: Destination<'_>, clusters: &'a Clusters) -> Points<'a> {
    let by_name = match destination.name {
        "" => None,
        IN_CLUSTER => Some(Points::Hub),
        name => Some(
            clusters
                .by_name
                .get_key_value(name)
                .map_or(Points::Elsewhere, |(name, _)| Points::Cluster(name)),
        ),
    };
    let by_server = match normal_url(destination.server) {
        "" => None,
        IN_CLUSTER_SERVER => Some(Points::Hub),
        server => Some(
            clusters
                .by_server(server)
                .map_or(Points::Elsewhere, Points::Cluster),
        ),
    };
    match (by_name, by_server) {
        (None, None) => Points::Nowhere,
        (Some(one), None) | (None, Some(one)) => one,
        (Some(Points::Cluster(a)), Some(Points::Cluster(b))) if a == b => Points::Cluster(a),
        (Some(Points::Hub), Some(Points::Hub)) => Points::Hub,
        (Some(_), Some(_)) => Points::Apart,
    }
}

/// The cluster of an Application's destination, regardless of permission. None if the destination is the hub, ambiguous
/// or unknown.
pub fn meant<'a>(app: Application<'_>, clusters: &'a Clusters) -> Option<&'a str> {
    match points(app.destination(), clusters) {
        Points::Cluster(cluster) => Some(cluster),
        Points::Hub | Points::Nowhere | Points::Elsewhere | Points::Apart => None,
    }
}

/// Whether its destination is the hub, for Argo CD on the hub.
pub fn names_hub(app: Application<'_>) -> bool {
    let destination = app.destination();
    destination.name == IN_CLUSTER || normal_url(destination.server) == IN_CLUSTER_SERVER
}

fn names_a_cluster(destination: Destination<'_>, clusters: &Clusters) -> bool {
    clusters.contains(destination.name) || clusters.by_server(destination.server).is_some()
}

fn normal_url(url: &str) -> &str {
    url.trim_end_matches('/')
}

/// One Application that goes to a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Namespace on the hub.
    pub namespace: String,
    /// Its name, on both sides.
    pub name: String,
    /// UID on the hub.
    pub uid: String,
    /// `metadata.creationTimestamp`; RFC 3339 in UTC sorts as text.
    pub created: String,
    /// The target cluster.
    pub cluster: String,
    /// The namespace there.
    pub spoke_namespace: SpokeNamespace,
}

/// The Applications that lose their name on the spoke, each with the hub namespace of the one that keeps it.
///
/// The older one keeps it; of two with the same age, the one with the lesser UID, so that every run decides alike. Keyed
/// by the loser's UID.
pub fn resolve_names(deliveries: impl IntoIterator<Item = Delivery>) -> BTreeMap<String, String> {
    let mut claims: BTreeMap<(String, SpokeNamespace, String), Vec<Delivery>> = BTreeMap::new();
    for delivery in deliveries {
        let place = (
            delivery.cluster.clone(),
            delivery.spoke_namespace.clone(),
            delivery.name.clone(),
        );
        claims.entry(place).or_default().push(delivery);
    }
    let mut losers = BTreeMap::new();
    for mut claim in claims.into_values() {
        claim.sort_by(|a, b| (&a.created, &a.uid).cmp(&(&b.created, &b.uid)));
        let mut claim = claim.into_iter();
        let Some(keeper) = claim.next() else { continue };
        losers.extend(claim.map(|loser| (loser.uid, keeper.namespace.clone())));
    }
    losers
}
