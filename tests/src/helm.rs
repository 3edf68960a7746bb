//! Helm, the real one, as whoever installs the product uses it.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use tokio::{process::Command, time::timeout};

use crate::{Cluster, Tools, tools::workspace};

/// How long a call of Helm may take, its own waiting included.
const BOUND: Duration = Duration::from_mins(4);

/// The chart that we ship.
pub fn chart() -> PathBuf {
    workspace().join("manifests/hub")
}

/// Helm on one cluster, with the rights of whoever set the cluster up.
#[derive(Clone, Debug)]
pub struct Helm {
    program: PathBuf,
    kubeconfig: PathBuf,
    home: PathBuf,
}

/// What Helm said, and whether it was content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Whether it succeeded.
    pub success: bool,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

impl Helm {
    /// Helm on `cluster`; its caches are among the cluster's own files.
    pub fn on(tools: &Tools, cluster: &Cluster) -> Self {
        Self {
            program: tools.helm.clone(),
            kubeconfig: cluster.kubeconfig(),
            home: cluster.dir().join("helm"),
        }
    }

    /// Calls it, and fails if it does; returns what it printed.
    pub async fn run(&self, arguments: &[&str]) -> Result<String> {
        let said = self.attempt(arguments).await?;
        if !said.success {
            bail!(
                "helm {}: {}\n{}",
                arguments.join(" "),
                said.err.trim(),
                said.out.trim()
            );
        }
        Ok(said.out)
    }

    /// Calls it and returns what it said, whatever that is.
    pub async fn attempt(&self, arguments: &[&str]) -> Result<Said> {
        let shown = arguments.join(" ");
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .env_clear()
            .env("HOME", &self.home)
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let done = timeout(BOUND, command.output())
            .await
            .with_context(|| format!("helm {shown}: no end within {BOUND:?}"))?
            .with_context(|| format!("start {}", self.program.display()))?;
        Ok(Said {
            success: done.status.success(),
            out: String::from_utf8_lossy(&done.stdout).into_owned(),
            err: String::from_utf8_lossy(&done.stderr).into_owned(),
        })
    }
}

/// The path as an argument.
pub fn text(path: &Path) -> Result<&str> {
    path.to_str()
        .with_context(|| format!("{} is not text", path.display()))
}
