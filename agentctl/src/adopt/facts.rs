//! What `cluster adopt` reads of objects on the hub, and no more. Pure and lenient: a field of another form is absent.

use argocd::{
    cluster_secret::is_predecessors,
    keys::{AGENT_NAME, IN_CLUSTER, IN_CLUSTER_SERVER, SECRET_TYPE, addon::MODE},
};
use diagnosis::object::{list, secret_text, text};
use ocm::api::cluster::ID_CLAIM;
use serde_json::{Value, json};

/// Where an API server is, so that two ways to write it are one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    host: String,
    port: u16,
    path: String,
    /// The agent that the resource proxy of argocd-agent leads to.
    pub agent: Option<String>,
}

impl Address {
    /// Reads a URL; none if it is none.
    pub fn parse(url: &str) -> Option<Self> {
        let url: http::Uri = url.trim().parse().ok()?;
        let usual = match url.scheme_str()? {
            "https" => 443,
            "http" => 80,
            _ => return None,
        };
        let query = url.query().unwrap_or_default().split('&');
        let mut agents = query.filter_map(|part| part.strip_prefix("agentName="));
        let agent = agents.find(|name| !name.is_empty());
        Some(Self {
            host: url.host()?.to_ascii_lowercase(),
            port: url.port_u16().unwrap_or(usual),
            path: url.path().trim_end_matches('/').to_owned(),
            agent: agent.map(str::to_owned),
        })
    }
}

/// A Secret of the hub's Argo CD namespace. Of what is in it only the name and the server; no credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSecret {
    /// Its name.
    pub name: String,
    /// Whether Argo CD takes it for a cluster.
    pub is_cluster: bool,
    /// How Argo CD calls the cluster.
    pub shown: String,
    /// The server.
    pub server: String,
    /// The agent that it names, by its label.
    pub agent: Option<String>,
    /// The cluster as whose Secret the add-on takes it over, or has it already.
    taken_over: Option<String>,
}

impl ClusterSecret {
    /// Reads one, if it is a cluster's or has the name of one of ours.
    pub fn read(object: &Value) -> Option<Self> {
        let meta = argocd::Meta::of(object);
        let is_cluster = meta.label(SECRET_TYPE) == Some("cluster");
        if !is_cluster && !meta.name().starts_with("cluster-") {
            return None;
        }
        let server = secret_text(object, "server").unwrap_or_default();
        let shown = secret_text(object, "name").filter(|name| !name.is_empty());
        let agent = meta.label(AGENT_NAME);
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        let labels = meta.labels().into_iter().map(owned).collect();
        let annotations = meta.annotations().into_iter().map(owned).collect();
        let taken_over = agent.filter(|cluster| {
            meta.name() == argocd::cluster_secret::name(cluster)
                && is_predecessors(cluster, &labels, &annotations)
        });
        Some(Self {
            name: meta.name().to_owned(),
            is_cluster,
            // As Argo CD does.
            shown: shown.unwrap_or_else(|| server.clone()),
            server,
            agent: agent.map(str::to_owned),
            taken_over: taken_over.map(str::to_owned),
        })
    }

    /// Whether the add-on takes it over, or has it already, as the Secret of this cluster.
    pub fn becomes_ours(&self, cluster: &str) -> bool {
        self.taken_over.as_deref() == Some(cluster)
    }

    /// Whether it is the hub itself, as its Argo CD reaches it.
    pub fn is_hub(&self) -> bool {
        self.server.trim_end_matches('/') == IN_CLUSTER_SERVER || self.shown == IN_CLUSTER
    }
}

/// A `ManagedCluster`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManagedCluster {
    /// Its name.
    pub name: String,
    /// Its API servers, as its ManagedCluster declares them.
    pub declared: Vec<String>,
    /// Those of them that are URLs.
    pub servers: Vec<Address>,
    /// The label that opts it in.
    pub mode: Option<String>,
    /// Whether the hub has accepted it.
    pub accepted: bool,
    /// Whether it goes away.
    pub deleting: bool,
    /// Which cluster it says that it is.
    pub id: Option<String>,
}

impl ManagedCluster {
    /// Reads one.
    pub fn read(object: &Value) -> Self {
        let meta = argocd::Meta::of(object);
        let configs = list(object, "/spec/managedClusterClientConfigs").iter();
        let urls = configs.filter_map(|config| config.get("url")?.as_str());
        let declared: Vec<_> = urls.map(str::to_owned).collect();
        let servers = declared.iter().filter_map(|it| Address::parse(it));
        let mut claims = list(object, "/status/clusterClaims").iter();
        let id = claims.find(|claim| text(claim, "/name") == ID_CLAIM);
        let id = id.and_then(|claim| claim.get("value")?.as_str());
        Self {
            name: meta.name().to_owned(),
            servers: servers.collect(),
            declared,
            mode: meta.label(MODE).map(str::to_owned),
            accepted: object.pointer("/spec/hubAcceptsClient") == Some(&Value::Bool(true)),
            deleting: meta.is_deleting(),
            id: id.map(str::to_owned),
        }
    }
}

/// What routing and this plan need of an Application.
pub fn brief(application: &Value) -> Value {
    let part = |pointer: &str| application.pointer(pointer).cloned().unwrap_or_default();
    let mut annotations = part("/metadata/annotations");
    if let Some(annotations) = annotations.as_object_mut() {
        // It has the whole object in it.
        annotations.remove(argocd::keys::LAST_APPLIED);
    }
    json!({
        "metadata": {
            "namespace": part("/metadata/namespace"),
            "name": part("/metadata/name"),
            "annotations": annotations,
            "ownerReferences": part("/metadata/ownerReferences"),
        },
        "spec": {"destination": part("/spec/destination")},
    })
}

/// The `ApplicationSet` that makes an Application.
pub fn maker(application: &Value) -> Option<&str> {
    let mut owners = list(application, "/metadata/ownerReferences").iter();
    let set = owners.find(|owner| text(owner, "/kind") == "ApplicationSet")?;
    set.get("name")?.as_str()
}
