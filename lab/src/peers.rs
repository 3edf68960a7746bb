//! A principal and an agent as bare processes without OCM: ours, those of the Go argocd-agent, or one of each.
//!
//! Nothing of them is shared between two [`Pair`]s but the clusters: each has its own Argo CD namespaces, papers and
//! agent name, so that a test does not have to clean up after another. Both processes are on the lab's loopback, so
//! only one pair can run at a time.

mod papers;
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

pub use papers::{HUB, Papers};
pub use programs::{
    AGENT_HEALTH, GO, PRINCIPAL_HEALTH, Setting, Way, further_namespace, ours, principal,
};

/// Whose program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Make {
    /// Ours.
    Ours,
    /// The Go argocd-agent, from the path in the variable [`GO`].
    Go,
}

/// Which principal with which agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pairing {
    /// Whose principal.
    pub principal: Make,
    /// Whose agent.
    pub agent: Make,
}

impl Pairing {
    /// The environment variable without which this pairing cannot be had.
    pub const fn needs(self) -> Option<&'static str> {
        match (self.principal, self.agent) {
            (Make::Ours, Make::Ours) => None,
            (Make::Go, _) | (_, Make::Go) => Some(GO),
        }
    }
}

/// How Applications find their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// The hub namespace is the agent's name.
    Namespace,
    /// `spec.destination.name` is the agent's name, and namespaces stay.
    Destination,
    /// None has to: the agent owns them, and the hub shows them in the namespace that has its name.
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
    /// What things are called.
    pub names: Names,
    /// Whose programs they are.
    pub pairing: Pairing,
    /// The principal's process.
    pub principal: Process,
    /// The agent's process.
    pub agent: Process,
}

/// How long the two may take to find each other: the Go agent backs off while nobody listens.
const CONNECT: Duration = Duration::from_mins(1);

impl Pair {
    /// Makes what the two need on the clusters, starts them and waits until they are connected.
    pub async fn start(lab: &Lab, name: &str, pairing: Pairing, mapping: Mapping) -> Result<Self> {
        let setting = prepare(lab, name, mapping).await?;
        Self::start_in(lab, setting, pairing).await
    }

    /// The same in a setting of one's own.
    pub async fn start_in(lab: &Lab, setting: Setting, pairing: Pairing) -> Result<Self> {
        let mut pair = Self::launch(lab, setting, pairing)?;
        pair.connected().await?;
        Ok(pair)
    }

    /// Starts both and waits for nothing.
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

    /// Waits until the agent says that it is connected.
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

    /// Starts a principal that was ended, and waits until the agent is back.
    pub async fn start_principal(&mut self) -> Result<()> {
        self.principal.restart()?;
        healthy(PRINCIPAL_HEALTH, CONNECT).await?;
        self.connected().await
    }

    /// Starts an agent that was ended, and waits until it is back.
    pub async fn start_agent(&mut self) -> Result<()> {
        self.agent.restart()?;
        self.connected().await
    }
}

/// Makes namespaces, papers and the cluster Secret, and says with what the two programs are to be started.
pub async fn prepare(lab: &Lab, name: &str, mapping: Mapping) -> Result<Setting> {
    prepare_on(lab, [lab.hub(), lab.spoke(1)], name, mapping).await
}

/// The same on these two clusters, hub and spoke, which may be one.
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
    let papers = Papers::new(&names.agent)?;
    papers
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
        papers,
        way: Way::default(),
        log_level: "debug",
    })
}

/// The CRDs of Argo CD, where they are not yet.
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

/// What a port of the loopback answers to a GET, headers and all.
pub async fn get(port: u16, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    ensure!(!answer.is_empty(), "an empty answer");
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// A project on the hub that lets the pair's agent have everything.
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
