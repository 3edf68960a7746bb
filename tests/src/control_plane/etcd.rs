//! The etcd that all clusters of a lab share, each under a prefix of its own.

use std::path::Path;

use anyhow::{Result, anyhow};
use tokio::net::TcpStream;

use crate::{
    process::{Process, Program},
    wait,
};

/// In a network namespace of our own every port is free.
const CLIENTS: &str = "127.0.0.1:2379";
const PEERS: &str = "127.0.0.1:2380";

/// A running etcd.
#[derive(Debug)]
pub(crate) struct Etcd {
    process: Process,
}

impl Etcd {
    /// Starts etcd and waits until it listens. The data go to `state`, which should be in memory.
    pub(crate) async fn start(program: &Path, state: &Path, logs: &Path) -> Result<Self> {
        let mut process = Program::new("etcd", program, logs)
            .arg("--data-dir")
            .arg(state.join("etcd"))
            .flag("listen-client-urls", format!("http://{CLIENTS}"))
            .flag("advertise-client-urls", format!("http://{CLIENTS}"))
            .flag("listen-peer-urls", format!("http://{PEERS}"))
            .flag("initial-advertise-peer-urls", format!("http://{PEERS}"))
            .flag("initial-cluster", format!("default=http://{PEERS}"))
            .flag("log-level", "warn")
            // A lab that loses power is made anew.
            .arg("--unsafe-no-fsync")
            .start()?;
        wait::until(
            "etcd listens",
            || async {
                TcpStream::connect(CLIENTS)
                    .await
                    .map(drop)
                    .map_err(|error| anyhow!(error))
            },
            |()| true,
        )
        .await
        .map_err(|error| match process.check() {
            Ok(()) => error,
            Err(ended) => ended,
        })?;
        Ok(Self { process })
    }

    /// Where clients find it.
    pub(crate) fn url() -> String {
        format!("http://{CLIENTS}")
    }

    pub(crate) async fn stop(&mut self) {
        self.process.kill().await;
    }
}
