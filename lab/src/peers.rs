//! A principal and an agent as bare processes without OCM: ours, those of the Go argocd-agent, or one of each.
//!
//! Two [`Pair`]s share only the clusters: each has its own Argo CD namespaces, credentials and
//! agent name, so that a test does not have to clean up after another. Both processes are on the lab's loopback, so
//! only one pair can run at a time.

mod credentials;
mod programs;

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    Cluster, Lab, argocd,
    process::Process,
    steps::{At, Objects},
    wait,
};

pub use credentials::{Credentials, HUB};
pub use programs::{
    AGENT_HEALTH, GO, PRINCIPAL_HEALTH, Setting, Way, further_namespace, ours, principal,
};

/// The make of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Make {
    /// Ours.
    Ours,
    /// The Go argocd-agent, from the path in the variable [`GO`].
    Go,
}

/// The makes of principal and agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pairing {
    /// The make of the principal.
    pub principal: Make,
    /// The make of the agent.
    pub agent: Make,
}

impl Pairing {
    /// The environment variable that this pairing needs.
    pub const fn needs(self) -> Option<&'static str> {
        match (self.principal, self.agent) {
            (Make::Ours, Make::Ours) => None,
            (Make::Go, _) | (_, Make::Go) => Some(GO),
        }
    }
}

/// How Applications are routed to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// The hub namespace is the agent's name.
    Namespace,
    /// `spec.destination.name` is the agent's name, and namespaces stay.
    Destination,
    /// No routing: the agent owns them, and the hub shows them in the namespace that has its name.
    Autonomous,
}

/// The names of one pair.
#[derive(Clone, Debug)]
pub struct Names {
    /// The agent, and its namespace on the hub.
    pub agent: String,
    /// Argo CD's namespace on the hub.
    pub hub: String,
    /// Argo CD's namespace on the spoke.
    pub spoke: String,
}

/// A running principal and a running agent.
#[derive(Debug)]
pub struct Pair {
    /// Objects on the hub.
    pub hub: Objects,
    /// Objects on the spoke.
    pub spoke: Objects,
    /// The names of the pair.
    pub names: Names,
    /// The makes of the programs.
    pub pairing: Pairing,
    /// The principal's process.
    pub principal: Process,
    /// The agent's process.
    pub agent: Process,
}

/// How long the two may take to connect: the Go agent backs off while the principal does not listen.
const CONNECT: Duration = Duration::from_mins(1);

impl Pair {
    /// Creates the objects on the clusters, starts both programs and waits until they are connected.
    pub async fn start(lab: &Lab, name: &str, pairing: Pairing, mapping: Mapping) -> Result<Self> {
        let setting = prepare(lab, name, mapping).await?;
        Self::start_in(lab, setting, pairing).await
    }

    /// Like [`Self::start`], with a given setting.
    pub async fn start_in(lab: &Lab, setting: Setting, pairing: Pairing) -> Result<Self> {
        let mut pair = Self::launch(lab, setting, pairing)?;
        pair.connected().await?;
        Ok(pair)
    }

    /// Starts both without waiting.
    pub fn launch(lab: &Lab, setting: Setting, pairing: Pairing) -> Result<Self> {
        Ok(Self {
            hub: Objects::new(lab.hub().client()),
            spoke: Objects::new(lab.spoke(1).client()),
            principal: principal(pairing.principal, &setting)?.start()?,
            agent: programs::agent(pairing.agent, &setting)?.start()?,
            names: setting.names,
            pairing,
        })
    }

    /// Waits until the agent reports that it is connected.
    pub async fn connected(&mut self) -> Result<()> {
        let found = healthy(AGENT_HEALTH, CONNECT).await;
        self.check()?;
        found.with_context(|| self.logs())
    }

    /// Fails if one of the two has ended.
    pub fn check(&mut self) -> Result<()> {
        self.principal.check()?;
        self.agent.check()
    }

    /// Ends both, and waits until they are gone.
    pub async fn stop(mut self) {
        self.agent.stop().await;
        self.principal.stop().await;
    }

    /// The ends of both logs.
    pub fn logs(&self) -> String {
        format!(
            "principal:\n{}\nagent:\n{}",
            self.principal.log_tail(),
            self.agent.log_tail()
        )
    }

    /// Starts an ended principal, and waits until the agent is connected again.
    pub async fn start_principal(&mut self) -> Result<()> {
        self.principal.restart()?;
        healthy(PRINCIPAL_HEALTH, CONNECT).await?;
        self.connected().await
    }

    /// Starts an ended agent, and waits until it is connected again.
    pub async fn start_agent(&mut self) -> Result<()> {
        self.agent.restart()?;
        self.connected().await
    }
}

/// Creates namespaces, credentials and the cluster Secret, and returns the setting of the two programs.
pub async fn prepare(lab: &Lab, name: &str, mapping: Mapping) -> Result<Setting> {
    prepare_on(lab, [lab.hub(), lab.spoke(1)], name, mapping).await
}

/// Like [`prepare`], on the given hub and spoke, which may be one cluster.
pub async fn prepare_on(
    lab: &Lab,
    [hub, spoke]: [&Cluster; 2],
    name: &str,
    mapping: Mapping,
) -> Result<Setting> {
    let names = Names {
        agent: name.to_owned(),
        hub: format!("{name}-hub"),
        spoke: format!("{name}-spoke"),
    };
    for cluster in [hub, spoke] {
        crds(cluster, lab).await?;
    }
    for (cluster, namespace) in [
        (hub, &names.agent),
        (hub, &names.hub),
        (spoke, &names.spoke),
    ] {
        cluster
            .apply(&format!(
                "{{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}}}}}"
            ))
            .await?;
    }
    let credentials = Credentials::new(&names.agent)?;
    credentials
        .provide(
            &Objects::new(hub.client()),
            &Objects::new(spoke.client()),
            &names,
            mapping,
        )
        .await?;
    let directory: PathBuf = lab.dir().join("peers").join(name);
    Ok(Setting {
        names,
        mapping,
        hub: hub.clone(),
        hub_kubeconfig: hub.kubeconfig(),
        admitted: Vec::new(),
        spoke: spoke.clone(),
        directory,
        credentials,
        way: Way::default(),
        log_level: "debug",
    })
}

/// Applies the CRDs of Argo CD where they are missing.
async fn crds(cluster: &Cluster, lab: &Lab) -> Result<()> {
    let definitions = cluster
        .api("apiextensions.k8s.io/v1", "CustomResourceDefinition", None)
        .await?;
    if definitions
        .get_opt("applications.argoproj.io")
        .await?
        .is_none()
    {
        argocd::prepare_hub(cluster, lab.tools()).await?;
    }
    Ok(())
}

/// Waits until `/healthz` on a port of the loopback answers 200.
pub async fn healthy(port: u16, within: Duration) -> Result<()> {
    let look = || async { get(port, "/healthz").await };
    let what = format!("port {port} says that all is well");
    wait::until_within(within, &what, look, |answer: &String| {
        answer.starts_with("HTTP/1.1 200") || answer.starts_with("HTTP/1.0 200")
    })
    .await
    .map(drop)
}

/// The response of a port of the loopback to a GET, headers and all.
pub async fn get(port: u16, path: &str) -> Result<String> {
    get_at("127.0.0.1", port, path).await
}

/// Like [`get`], at another address, such as the loopback of IPv6.
pub async fn get_at(address: &str, port: u16, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect((address, port)).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    ensure!(!answer.is_empty(), "an empty answer");
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// A project on the hub that permits the pair's agent everything.
pub async fn allow(pair: &Pair, project: &str) -> Result<Value> {
    let Names { agent, hub, .. } = &pair.names;
    let body = json!({"spec": {
        "description": "for everything",
        "sourceRepos": ["*"],
        "sourceNamespaces": ["*"],
        "destinations": [{"name": agent, "server": "*", "namespace": "*"}],
    }});
    pair.hub.apply(&At::project(hub, project), body).await
}
