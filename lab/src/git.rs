//! A git server with repositories that tests commit to. Argo CD's git client needs a smart server, so this is
//! `git daemon`; [`private`] serves them with a password.

pub mod private;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, anyhow};
use tokio::net::TcpStream;

use crate::{
    process::{Process, Program},
    tools::output,
    wait,
};

/// The port of the git protocol.
const PORT: u16 = 9418;

/// The name of the server for Pods of every cluster.
pub const HOST: &str = "git.lab";

/// A running server and its repositories.
#[derive(Debug)]
pub struct Server {
    git: PathBuf,
    dir: PathBuf,
    process: Process,
}

impl Server {
    /// Serves the repositories below `dir`.
    pub(crate) async fn start(git: &Path, dir: &Path, logs: &Path) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
        let process = Program::new("git-daemon", git, logs)
            .arg("daemon")
            .flag("base-path", dir)
            .arg("--export-all")
            .arg("--reuseaddr")
            .flag("port", PORT.to_string())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            // The repositories belong to the lab's user, under any number in this user namespace.
            .env("GIT_CONFIG_COUNT", "1")
            .env("GIT_CONFIG_KEY_0", "safe.directory")
            .env("GIT_CONFIG_VALUE_0", "*")
            .start()?;
        let look = || async {
            TcpStream::connect(("127.0.0.1", PORT))
                .await
                .map(drop)
                .map_err(|error| anyhow!(error))
        };
        wait::until("git daemon listens", look, |()| true).await?;
        Ok(Self {
            git: git.to_owned(),
            dir: dir.to_owned(),
            process,
        })
    }

    /// Makes an empty repository, or opens the one of that name.
    pub fn repository(&self, name: &str) -> Result<Repository> {
        let served = self.dir.join(format!("{name}.git"));
        let work = self.dir.join("work").join(name);
        let repository = Repository {
            git: self.git.clone(),
            name: name.to_owned(),
            work,
        };
        if !served.exists() {
            fs::create_dir_all(&repository.work)?;
            repository.run(&[
                "init",
                "--quiet",
                "--bare",
                "--initial-branch=main",
                &path(&served),
            ])?;
            repository.run(&["init", "--quiet", "--initial-branch=main", "."])?;
            repository.run(&["remote", "add", "origin", &path(&served)])?;
        }
        Ok(repository)
    }

    pub(crate) async fn stop(&mut self) {
        self.process.kill().await;
    }
}

/// One repository that a test commits to.
#[derive(Clone, Debug)]
pub struct Repository {
    git: PathBuf,
    name: String,
    work: PathBuf,
}

impl Repository {
    /// The address for Argo CD in a Pod of any cluster.
    pub fn url(&self) -> String {
        format!("git://{HOST}/{}.git", self.name)
    }

    /// The address for programs of the lab that are not in a Pod.
    pub fn local_url(&self) -> String {
        format!("git://127.0.0.1/{}.git", self.name)
    }

    /// Writes files (path and content), commits them to `main` and publishes that. Returns the commit's id.
    pub fn commit(&self, message: &str, files: &[(&str, &str)]) -> Result<String> {
        for (name, content) in files {
            let file = self.work.join(name);
            if let Some(dir) = file.parent() {
                fs::create_dir_all(dir)?;
            }
            fs::write(&file, content).with_context(|| format!("write {}", file.display()))?;
        }
        self.publish(message)
    }

    /// Removes a file, commits and publishes that. Returns the commit's id.
    pub fn remove(&self, message: &str, name: &str) -> Result<String> {
        fs::remove_file(self.work.join(name)).with_context(|| format!("remove {name}"))?;
        self.publish(message)
    }

    /// Gives the last commit a tag.
    pub fn tag(&self, tag: &str) -> Result<()> {
        self.run(&["tag", tag])?;
        self.run(&["push", "--quiet", "origin", tag]).map(drop)
    }

    fn publish(&self, message: &str) -> Result<String> {
        self.run(&["add", "--all"])?;
        self.run(&["commit", "--quiet", "--allow-empty", "--message", message])?;
        self.run(&["push", "--quiet", "origin", "main"])?;
        self.run(&["rev-parse", "HEAD"])
    }

    fn run(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.git);
        command
            .current_dir(&self.work)
            .args([
                "-c",
                "safe.directory=*",
                "-c",
                "user.name=lab",
                "-c",
                "user.email=lab@lab",
            ])
            .args(arguments)
            // Ignore the caller's configuration of signing, hooks and branches.
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null");
        output(&mut command)
    }
}

fn path(path: &Path) -> String {
    path.display().to_string()
}
