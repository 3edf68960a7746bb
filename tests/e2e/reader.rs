//! Runs the command blocks of a documentation page in a shell, exactly as they are.

use std::{collections::BTreeMap, fmt::Write as _, fs, os::unix::fs::symlink, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use lab::{
    Cluster,
    call::{Output, call},
    pages::{self, Block},
    tools,
};
use tempfile::TempDir;
use tokio::process::Command;

use crate::stage::Stage;

/// How long all commands of one page may take, their own waiting included.
const BOUND: Duration = Duration::from_mins(9);
/// How many lines of output are shown when a command fails.
const LAST: usize = 60;

/// The programs and variables for the commands of a page.
#[derive(Debug)]
pub(crate) struct Reader {
    home: TempDir,
    variables: BTreeMap<String, String>,
}

impl Reader {
    /// At a terminal in the root of the source tree, with `kubectl` and `helm`, which talk to the hub.
    pub(crate) fn of(stage: &Stage) -> Result<Self> {
        let home = tempfile::tempdir().context("make a home")?;
        let programs = home.path().join("bin");
        fs::create_dir(&programs)?;
        let tools = stage.lab.tools();
        for (name, program) in [("kubectl", &tools.kubectl), ("helm", &tools.helm)] {
            symlink(program, programs.join(name)).with_context(|| format!("link {name}"))?;
        }
        let usual = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned());
        let path = format!("{}:{usual}", programs.display());
        let reader = Self {
            variables: BTreeMap::from([("PATH".to_owned(), path)]),
            home,
        };
        Ok(reader.with_cluster("KUBECONFIG", stage.lab.hub()))
    }

    /// Sets a variable that the page explains.
    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.insert(name.to_owned(), value.into());
        self
    }

    /// Sets it to a kubeconfig of a cluster.
    pub(crate) fn with_cluster(self, name: &str, cluster: &Cluster) -> Self {
        let kubeconfig = cluster.kubeconfig().to_string_lossy().into_owned();
        self.with(name, kubeconfig)
    }

    /// Runs the blocks of a page that are for this test, in one shell, until a command fails. Returns their output.
    pub(crate) async fn follow(&self, page: &str, e2e_test: &str, least: usize) -> Result<String> {
        self.follow_some(page, e2e_test, least, |_| true).await
    }

    /// Like [`follow`](Self::follow), for the blocks that fit.
    pub(crate) async fn follow_some(
        &self,
        page: &str,
        e2e_test: &str,
        least: usize,
        fits: impl Fn(&Block) -> bool,
    ) -> Result<String> {
        let mut blocks = pages::blocks_of(&text_of(page)?, e2e_test);
        blocks.retain(fits);
        let count = blocks.len();
        ensure!(count >= least, "only {count} blocks of {page} are for it");
        let mut script = "set -euo pipefail\nexec 2>&1\n".to_owned();
        for block in blocks {
            writeln!(script, "echo '--- {page}:{}'\n{}", block.line, block.text)?;
        }
        self.run(page, &script).await
    }

    async fn run(&self, page: &str, script: &str) -> Result<String> {
        let file = self.home.path().join("script");
        fs::write(&file, script)?;
        let mut shell = Command::new("bash");
        shell
            .arg(&file)
            .current_dir(tools::workspace())
            .env_clear()
            .envs(&self.variables)
            .env("HOME", self.home.path());
        // The script redirects standard error into standard output, so errors are in order.
        let Output {
            code, out: output, ..
        } = call(shell, BOUND).await?;
        if code != Some(0) {
            let lines: Vec<_> = output.lines().collect();
            let last = lines.get(lines.len().saturating_sub(LAST)..);
            let last = last.unwrap_or_default().join("\n");
            bail!("a command of {page} failed ({code:?}):\n{last}");
        }
        Ok(output)
    }
}

/// The text of a page of the source tree.
pub(crate) fn text_of(page: &str) -> Result<String> {
    fs::read_to_string(tools::workspace().join(page)).with_context(|| page.to_owned())
}
