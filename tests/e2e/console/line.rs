//! Argo CD's own command line, logged in at the server of the hub.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use lab::{
    argocd,
    call::{Following, Output, call},
    product,
    steps::{At, enrol::ARGOCD, ui::Server},
    wait,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use crate::{
    sets,
    stage::{SOON, Stage},
};

/// `argocd`, logged in at the hub's Argo CD.
pub(crate) struct Console {
    program: PathBuf,
    pub(crate) server: String,
    // The command line keeps its session in it.
    pub(crate) home: TempDir,
}

impl Console {
    /// Installs a server on the hub, configured as in docs/live.md, and logs in.
    pub(crate) async fn open(stage: &Stage) -> Result<Self> {
        sets::prepare(stage, "console").await?;
        product::upgrade(
            &stage.lab.helm(),
            &["--set", "redisProxy.enabled=true", "--wait"],
        )
        .await?;
        let settings = json!({"data": {
            "application.namespaces": "*",
            "redis.server": product::REDIS_PROXY,
        }});
        stage.hub.merge(&argocd::parameters(), settings).await?;
        // Argo CD disables terminals by default.
        let wanted = json!({"data": {"exec.enabled": "true"}});
        let at = At::config_map(ARGOCD, "argocd-cm");
        stage.hub.merge(&at, wanted).await?;
        argocd::install_server(stage.lab.hub(), stage.lab.tools()).await?;
        Self::on(stage).await
    }

    /// Logs in at the server that the hub has.
    pub(crate) async fn on(stage: &Stage) -> Result<Self> {
        let server = Server::of(&stage.hub).await?;
        let console = Self {
            program: stage.lab.tools().argocd.clone(),
            server: format!("{}:443", server.ip),
            home: TempDir::new()?,
        };
        console.logs_in("admin", &server.password).await?;
        Ok(console)
    }

    /// The same server for a local account, which `argocd-cm` has: the admin sets its password, and it logs in.
    pub(crate) async fn for_account(&self, stage: &Stage, account: &str) -> Result<Self> {
        const PASSWORD: &str = "of-a-local-account";
        let admin = Server::of(&stage.hub).await?.password;
        let set = ["account", "update-password", "--account", account];
        let passwords = ["--current-password", &admin, "--new-password", PASSWORD];
        let set = [&set[..], &passwords].concat();
        // The server reads its accounts a moment after they are written.
        let is_set = || self.run(&set);
        wait::until("the account has a password", is_set, Output::succeeded).await?;
        let console = Self {
            program: self.program.clone(),
            server: self.server.clone(),
            home: TempDir::new()?,
        };
        console.logs_in(account, PASSWORD).await?;
        Ok(console)
    }

    async fn logs_in(&self, account: &str, password: &str) -> Result<()> {
        let login = ["login", &self.server, "--username", account, "--password"];
        let login = [&login[..], &[password, "--insecure"]].concat();
        let logged_in = || self.run(&login);
        wait::until("argocd logs in", logged_in, Output::succeeded)
            .await
            .map(drop)
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
    pub(crate) fn follows(&self, arguments: &[&str]) -> Result<Following> {
        Following::begin(self.command(arguments))
    }

    /// A call, to its end.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Result<Output> {
        call(self.command(arguments), SOON).await
    }

    /// Its output, when it succeeds.
    pub(crate) async fn prints(&self, arguments: &[&str]) -> Result<String> {
        self.run(arguments).await?.printed()
    }

    /// Waits until it prints something like this.
    pub(crate) async fn until_it_prints(
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
    pub(crate) async fn syncs(&self, app: &str) -> Result<()> {
        let sync = ["app", "sync", app, "--timeout", "60"];
        self.prints(&sync).await?;
        let wait = ["app", "wait", app, "--health", "--sync", "--timeout", "60"];
        self.prints(&wait).await.map(drop)
    }

    /// Argo CD's connection state of a cluster, with its counts of Applications and resources.
    pub(crate) async fn cluster(&self, name: &str) -> Result<Value> {
        let all = self.prints(&["cluster", "list", "-o", "json"]).await?;
        let all: Value = serde_json::from_str(&all)?;
        let mut all_of_them = all.as_array().into_iter().flatten();
        let cluster = all_of_them.find(|cluster| cluster["name"] == name);
        Ok(cluster.with_context(|| format!("no {name} in {all}"))?["info"].clone())
    }

    pub(crate) async fn until_cluster(
        &self,
        name: &str,
        what: &str,
        fits: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        wait::until(what, async || self.cluster(name).await, fits).await
    }
}
