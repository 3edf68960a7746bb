//! kubectl with the access of an administrator, or of a cluster Secret.

use std::{net::SocketAddr, path::PathBuf};

use anyhow::{Context as _, Result};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use lab::{
    Cluster, Lab,
    call::{Following, Output, call},
    kubeconfig, product,
    steps::{At, enrol::cluster_secret},
    wait,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use crate::stage::{SOON, Stage, text};

/// kubectl with one kubeconfig.
pub(crate) struct Kubectl {
    program: PathBuf,
    config: PathBuf,
    /// Its cache, and its own kubeconfig if it has one.
    folder: TempDir,
}

impl Kubectl {
    /// As cluster admin.
    pub(crate) fn of(lab: &Lab, cluster: &Cluster) -> Result<Self> {
        Ok(Self {
            program: lab.tools().kubectl.clone(),
            config: cluster.kubeconfig(),
            folder: TempDir::new()?,
        })
    }

    /// With the credentials in the cluster Secret of one cluster.
    pub(crate) async fn with_secret_of(stage: &Stage, cluster: &str) -> Result<Self> {
        let secret = stage.hub.read(&cluster_secret(cluster)).await?;
        let server = text(&secret, "server")?;
        // As client-go does, which drops the query; the name is one of the hub's own, which only its Pods can look up.
        let (address, _) = server.split_once('?').context("a query")?;
        let host = address
            .strip_prefix("https://")
            .and_then(|rest| rest.strip_suffix(":9090"));
        let host = host.with_context(|| format!("an address of the resource proxy: {address}"))?;
        let service = At::service(product::NAMESPACE, "argocd-agent-resource-proxy");
        let service = stage.hub.read(&service).await?;
        let ip = service["spec"]["clusterIP"].as_str().context("an IP")?;
        let access: Value = serde_json::from_str(&text(&secret, "config")?)?;
        let server = format!("https://{}", SocketAddr::new(ip.parse()?, 9090));
        let config = kubeconfig::of_cluster_secret(&server, Some(host), &access);
        Self::with(&stage.lab, &config)
    }

    /// With this kubeconfig.
    pub(crate) fn with(lab: &Lab, config: &Value) -> Result<Self> {
        let folder = TempDir::new()?;
        let file = folder.path().join("kubeconfig");
        std::fs::write(&file, config.to_string())?;
        Ok(Self {
            program: lab.tools().kubectl.clone(),
            config: file,
            folder,
        })
    }

    /// A client with the same access.
    pub(crate) async fn client(&self) -> Result<Client> {
        let config = Kubeconfig::read_from(&self.config)?;
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        Client::try_from(config).context("a client")
    }

    /// A client with the same access that does not retry on `Retry-After`.
    pub(crate) async fn client_that_asks_once(&self) -> Result<Client> {
        let config = Kubeconfig::read_from(&self.config)?;
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(config, &options).await?;
        config.default_retry = false;
        Client::try_from(config).context("a client")
    }

    /// A call of it, which ends when it is dropped.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("--kubeconfig")
            .arg(&self.config)
            .arg("--cache-dir")
            .arg(self.folder.path().join("cache"))
            .args(arguments)
            .kill_on_drop(true);
        command
    }

    /// A call that keeps printing.
    pub(crate) fn follows(&self, arguments: &[&str]) -> Result<Following> {
        Following::begin(self.command(arguments))
    }

    /// A call of it, to its end.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Result<Output> {
        call(self.command(arguments), SOON).await
    }

    /// Its output, when it succeeds.
    pub(crate) async fn prints(&self, arguments: &[&str]) -> Result<String> {
        self.run(arguments).await?.printed()
    }

    /// Waits until it succeeds: a tunnel opens a moment after its session.
    pub(crate) async fn until_it_sees(&self, arguments: &[&str]) -> Result<()> {
        let looking = || self.run(arguments);
        wait::until("the cluster is seen", looking, Output::succeeded)
            .await
            .map(drop)
    }

    /// Its error output, when it fails.
    pub(crate) async fn fails(&self, arguments: &[&str]) -> Result<String> {
        self.run(arguments).await?.complained()
    }
}
