//! Argo CD's own command line, logged in at the server of the hub.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use lab::{
    argocd,
    call::{Following, Output, call},
    product,
    steps::{At, enrol::ARGOCD},
    wait,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use crate::{
    sets,
    stage::{SOON, Stage, text},
};

/// `argocd`, logged in at the hub's Argo CD.
pub(super) struct Console {
    program: PathBuf,
    pub(super) server: String,
    // The command line keeps its session in it.
    pub(super) home: TempDir,
}

impl Console {
    /// Installs a server on the hub, configured as in docs/live.md, and logs in.
    pub(super) async fn open(stage: &Stage) -> Result<Self> {
        sets::prepare(stage, "console").await?;
        product::upgrade(
            &stage.lab.helm(),
            &["--set", "redisProxy.enabled=true", "--wait"],
        )
        .await?;
        let settings = json!({"data": {
            "application.namespaces": "*",
            "redis.server": "argocd-agent-redis-proxy.argocd-agent-addon.svc:6379",
        }});
        let at = At::config_map(ARGOCD, "argocd-cmd-params-cm");
        stage.hub.merge(&at, settings).await?;
        // Argo CD disables terminals by default.
        let wanted = json!({"data": {"exec.enabled": "true"}});
        let at = At::config_map(ARGOCD, "argocd-cm");
        stage.hub.merge(&at, wanted).await?;
        argocd::install_server(stage.lab.hub(), stage.lab.tools()).await?;
        let service = stage.hub.read(&At::service(ARGOCD, argocd::SERVER)).await?;
        let ip = service["spec"]["clusterIP"].as_str().context("an IP")?;
        let console = Self {
            program: stage.lab.tools().argocd.clone(),
            server: format!("{ip}:443"),
            home: TempDir::new()?,
        };
        let at = At::secret(ARGOCD, "argocd-initial-admin-secret");
        let password = text(&stage.hub.until_there(&at, SOON).await?, "password")?;
        let login = [
            "login",
            &console.server,
            "--username",
            "admin",
            "--password",
        ];
        let login = [&login[..], &[&password, "--insecure"]].concat();
        let logged_in = || console.run(&login);
        wait::until("argocd logs in", logged_in, Output::succeeded).await?;
        Ok(console)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .env("HOME", self.home.path())
            .env("ARGOCD_CONFIG_DIR", self.home.path());
        command
    }

    /// A call that keeps printing.
    pub(super) fn follows(&self, arguments: &[&str]) -> Result<Following> {
        Following::begin(self.command(arguments))
    }

    /// A call, to its end.
    pub(super) async fn run(&self, arguments: &[&str]) -> Result<Output> {
        call(self.command(arguments), SOON).await
    }

    /// Its output, when it succeeds.
    pub(super) async fn prints(&self, arguments: &[&str]) -> Result<String> {
        self.run(arguments).await?.printed()
    }

    /// Waits until it prints something like this.
    pub(super) async fn until_it_prints(
        &self,
        arguments: &[&str],
        fits: impl Fn(&str) -> bool,
    ) -> Result<()> {
        let looking = || self.run(arguments);
        let fits = |output: &Output| output.succeeded() && fits(&output.out);
        let what = format!("argocd {arguments:?} prints it");
        wait::until(&what, looking, fits).await.map(drop)
    }

    /// Syncs an Application, and waits until it is well.
    pub(super) async fn syncs(&self, app: &str) -> Result<()> {
        let sync = ["app", "sync", app, "--timeout", "60"];
        self.prints(&sync).await?;
        let wait = ["app", "wait", app, "--health", "--sync", "--timeout", "60"];
        self.prints(&wait).await.map(drop)
    }

    /// Argo CD's connection state of a cluster, with its counts of Applications and resources.
    pub(super) async fn cluster(&self, name: &str) -> Result<Value> {
        let all = self.prints(&["cluster", "list", "-o", "json"]).await?;
        let all: Value = serde_json::from_str(&all)?;
        let mut all_of_them = all.as_array().into_iter().flatten();
        let cluster = all_of_them.find(|cluster| cluster["name"] == name);
        Ok(cluster.with_context(|| format!("no {name} in {all}"))?["info"].clone())
    }

    pub(super) async fn until_cluster(
        &self,
        name: &str,
        what: &str,
        fits: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        wait::until(what, async || self.cluster(name).await, fits).await
    }
}
