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

/// The common name of a proxy's client certificate, by which a principal identifies it.
pub const NAME: &str = "edge-proxy";
/// Its port.
pub const PORT: u16 = 18543;

/// The certificates of a proxy, and the CA of the principal.
#[derive(Debug)]
pub struct Credentials {
    /// For agents.
    pub serving: Pair,
    /// For the principal.
    pub client: Pair,
    /// The CA of the principal's certificate, PEM.
    pub authority: String,
}

/// How a proxy forwards connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// Forwards TCP unchanged, with TLS passing through.
    Through,
    /// Terminates TLS and uses HTTP/2.
    Http2,
    /// Terminates TLS and uses only HTTP/1.1.
    Http1,
    /// Like the sidecar of a mesh: plaintext on both sides, and a header with the identity.
    Mesh,
}

/// The proxy program.
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
    credentials: &Credentials,
    agent: &str,
) -> Result<Process> {
    let name = kind.name();
    let path = tools::package(name)?;
    let directory = directory.join(name);
    fs::create_dir_all(&directory).with_context(|| format!("make {name}'s directory"))?;
    for (name, text) in [
        ("serving.crt", &credentials.serving.cert),
        ("serving.key", &credentials.serving.key),
        ("client.crt", &credentials.client.cert),
        ("client.key", &credentials.client.key),
        ("ca.crt", &credentials.authority),
    ] {
        fs::write(directory.join(name), text).with_context(|| format!("write {name}"))?;
    }
    let mut process = match kind {
        Kind::Nginx => nginx::program(path, &directory, passing, agent)?,
        Kind::Haproxy => haproxy::program(path, &directory, passing, credentials, agent)?,
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

/// Writes a file into the directory of the proxy.
fn write(directory: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let path = directory.join(name);
    fs::write(&path, text).with_context(|| format!("write {name}"))?;
    Ok(path)
}
