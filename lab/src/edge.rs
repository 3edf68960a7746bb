//! Proxies between an agent and a principal on the loopback: the real programs, with the configurations of docs/network.md.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};

use crate::{certs::Pair, process::Process, tools, wait};

mod haproxy;
mod nginx;

/// The common name of a proxy's client certificate, by which a principal knows it.
pub const NAME: &str = "edge-proxy";
/// Its port.
pub const PORT: u16 = 18543;

/// What it shows to agents and to the principal, and whom it trusts to be the principal.
#[derive(Debug)]
pub struct Papers {
    /// For agents.
    pub serving: Pair,
    /// For the principal.
    pub client: Pair,
    /// The CA of the principal's certificate, PEM.
    pub authority: String,
}

/// How it passes on what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// Bytes as they are, TLS and all.
    Through,
    /// Ends TLS and speaks HTTP/2.
    Http2,
    /// Ends TLS and speaks HTTP/1.1 only.
    Http1,
    /// As the sidecar of a mesh does: plaintext on both sides, and a header that says who it is.
    Mesh,
}

/// Which program it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// nginx.
    Nginx,
    /// `haproxy`.
    Haproxy,
}

impl Kind {
    /// The name of the program.
    fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
        }
    }
}

/// Starts it in front of a principal on port 8443 of the loopback, and waits until it listens.
pub async fn start(
    kind: Kind,
    directory: &Path,
    passing: Passing,
    papers: &Papers,
    agent: &str,
) -> Result<Process> {
    let name = kind.name();
    let path = tools::package(name)?;
    let directory = directory.join(name);
    fs::create_dir_all(&directory).with_context(|| format!("make {name}'s directory"))?;
    for (name, text) in [
        ("serving.crt", &papers.serving.cert),
        ("serving.key", &papers.serving.key),
        ("client.crt", &papers.client.cert),
        ("client.key", &papers.client.key),
        ("ca.crt", &papers.authority),
    ] {
        fs::write(directory.join(name), text).with_context(|| format!("write {name}"))?;
    }
    let mut process = match kind {
        Kind::Nginx => nginx::program(path, &directory, passing, agent)?,
        Kind::Haproxy => haproxy::program(path, &directory, passing, papers, agent)?,
    }
    .start()?;
    let look = || async {
        Ok(tokio::net::TcpStream::connect(("127.0.0.1", PORT))
            .await
            .is_ok())
    };
    let what = format!("{name} listens");
    let listening = wait::until_within(Duration::from_secs(20), &what, look, |up| *up).await;
    process.check()?;
    listening?;
    Ok(process)
}

/// Writes what the program is to do, where it will look for it.
fn write(directory: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let path = directory.join(name);
    fs::write(&path, text).with_context(|| format!("write {name}"))?;
    Ok(path)
}
