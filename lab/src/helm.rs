//! The real Helm, as a user installs the product with it.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};
use tokio::process::Command;

use crate::{
    Cluster, Tools,
    call::{Output, call},
    tools::workspace,
};

/// How long a call of Helm may take, its own waiting included.
const BOUND: Duration = Duration::from_mins(4);

/// The chart that we ship.
pub fn chart() -> PathBuf {
    workspace().join("manifests/hub")
}

/// Helm on one cluster, with the rights of a cluster administrator.
#[derive(Clone, Debug)]
pub struct Helm {
    program: PathBuf,
    kubeconfig: PathBuf,
    home: PathBuf,
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

    /// Runs it, and fails if it does; returns its output.
    pub async fn run(&self, arguments: &[&str]) -> Result<String> {
        self.attempt(arguments).await?.printed()
    }

    /// Runs it and returns its result, also after a failure.
    pub async fn attempt(&self, arguments: &[&str]) -> Result<Output> {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .env_clear()
            .env("HOME", &self.home)
            .env("KUBECONFIG", &self.kubeconfig);
        call(command, BOUND).await
    }
}

/// The path as an argument.
pub fn text(path: &Path) -> Result<&str> {
    path.to_str()
        .with_context(|| format!("{} is not text", path.display()))
}
