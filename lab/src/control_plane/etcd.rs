//! The etcd of the hub, which can be restored from a copy, and the one that all spokes share, each under a prefix of
//! its own.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, anyhow};
use tokio::net::TcpStream;

use crate::{
    process::{Process, Program},
    wait,
};

/// The clusters that use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Hub,
    Spokes,
}

impl Of {
    /// Of the cluster with this number.
    pub(crate) const fn cluster(index: u8) -> Self {
        if index == 0 { Self::Hub } else { Self::Spokes }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Hub => "etcd-hub",
            Self::Spokes => "etcd",
        }
    }

    /// In a network namespace of our own every port is free.
    const fn clients(self) -> &'static str {
        match self {
            Self::Hub => "127.0.0.1:2389",
            Self::Spokes => "127.0.0.1:2379",
        }
    }

    const fn peers(self) -> &'static str {
        match self {
            Self::Hub => "127.0.0.1:2390",
            Self::Spokes => "127.0.0.1:2380",
        }
    }

    /// Where clients find it.
    pub(crate) fn url(self) -> String {
        format!("http://{}", self.clients())
    }
}

/// A running etcd.
#[derive(Debug)]
pub(crate) struct Etcd {
    of: Of,
    data: PathBuf,
    process: Process,
}

impl Etcd {
    /// Starts etcd and waits until it listens. The data go to `state`, which should be in memory.
    pub(crate) async fn start(of: Of, program: &Path, state: &Path, logs: &Path) -> Result<Self> {
        let data = state.join(of.name());
        let peers = format!("http://{}", of.peers());
        let process = Program::new(of.name(), program, logs)
            .arg("--data-dir")
            .arg(&data)
            .flag("listen-client-urls", of.url())
            .flag("advertise-client-urls", of.url())
            .flag("listen-peer-urls", &peers)
            .flag("initial-advertise-peer-urls", &peers)
            .flag("initial-cluster", format!("default={peers}"))
            .flag("log-level", "warn")
            // A lab that loses power is recreated.
            .arg("--unsafe-no-fsync")
            .start()?;
        let mut started = Self { of, data, process };
        started.listens().await?;
        Ok(started)
    }

    async fn listens(&mut self) -> Result<()> {
        let clients = self.of.clients();
        wait::until(
            "etcd listens",
            || async {
                TcpStream::connect(clients)
                    .await
                    .map(drop)
                    .map_err(|error| anyhow!(error))
            },
            |()| true,
        )
        .await
        .map_err(|error| match self.process.check() {
            Ok(()) => error,
            Err(ended) => ended,
        })
    }

    pub(crate) async fn stop(&mut self) {
        self.process.kill().await;
    }

    /// Stops it in order, copies its data, and starts it again.
    pub(crate) async fn save(&mut self, to: &Path) -> Result<()> {
        self.process.stop().await;
        copy(&self.data, to)?;
        self.resume().await
    }

    /// Stops it and starts it with the saved data.
    pub(crate) async fn put_back(&mut self, saved: &Path) -> Result<()> {
        self.empty().await?;
        copy(saved, &self.data)
    }

    /// Stops it and deletes its data.
    pub(crate) async fn empty(&mut self) -> Result<()> {
        self.process.stop().await;
        fs::remove_dir_all(&self.data).context("clear the data of an etcd")
    }

    /// Starts it if it does not run, and waits until it listens.
    pub(crate) async fn resume(&mut self) -> Result<()> {
        self.process.restart()?;
        self.listens().await
    }
}

/// Copies a folder with all that is in it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("make {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("list {}", from.display()))? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy(&path, &target)?;
        } else {
            fs::copy(&path, &target).with_context(|| format!("copy {}", path.display()))?;
        }
    }
    Ok(())
}
