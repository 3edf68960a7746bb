//! The resources that the containers of one Pod share: namespaces, address, device on the bridge.

use std::{net::IpAddr, process::Stdio, time::Duration};

use anyhow::{Context, bail};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use crate::{
    Network,
    inside::{Part, SandboxMessage, SandboxSpec},
    net::{self, Address, Addresses},
};

/// A running sandbox. Dropping it ends it; [`close`](Self::close) also waits and cleans up.
#[derive(Debug)]
pub(crate) struct Sandbox {
    /// None in the network of the machine, where nothing was created.
    own: Option<Own>,
    pub(crate) ip: IpAddr,
}

#[derive(Debug)]
struct Own {
    process: u32,
    child: Child,
    /// Closing it ends the sandbox.
    stdin: ChildStdin,
    device: String,
    /// Kept so that no other Pod gets it.
    _address: Address,
}

/// How long creating the namespaces of a Pod may take on an overloaded machine.
const TIME_LIMIT: Duration = Duration::from_secs(30);

impl Sandbox {
    /// The sandbox of a Pod in the network of the machine.
    pub(crate) const fn of_machine(network: &Network) -> Self {
        Self {
            own: None,
            ip: network.gateway(),
        }
    }

    /// Creates the namespaces of a Pod and connects them to the bridge.
    pub(crate) async fn open(
        network: &Network,
        addresses: &Addresses,
        uid: &str,
        hostname: String,
    ) -> anyhow::Result<Self> {
        let address = addresses
            .take()
            .context("all Pod addresses of the cluster are taken")?;
        let device = net::device(uid);
        let opening = Self::talk(network, address, device.clone(), hostname);
        let opened = tokio::time::timeout(TIME_LIMIT, opening)
            .await
            .context("make the sandbox in time");
        let opened = opened.and_then(|opened| opened);
        if opened.is_err() {
            net::unplug(&device).await;
        }
        opened
    }

    async fn talk(
        network: &Network,
        address: Address,
        device: String,
        hostname: String,
    ) -> anyhow::Result<Self> {
        let (child, mut stdin, mut stated) = start(Part::Sandbox, Stdio::null())?;
        send(&mut stdin, &SandboxSpec { hostname }).await?;
        expect(&mut stated, &SandboxMessage::Made).await?;
        let process = child.id().context("the sandbox ended")?;
        net::plug(network, &device, process).await?;
        send(&mut stdin, &net::inside_commands(network, address.ip)).await?;
        expect(&mut stated, &SandboxMessage::Up).await?;
        let ip = address.ip;
        Ok(Self {
            own: Some(Own {
                process,
                child,
                stdin,
                device,
                _address: address,
            }),
            ip,
        })
    }

    /// Whether its process still runs; a user may have killed it.
    pub(crate) fn is_there(&mut self) -> bool {
        self.own
            .as_mut()
            .is_none_or(|own| matches!(own.child.try_wait(), Ok(None)))
    }

    /// The process that owns the namespaces.
    pub(crate) fn process(&self) -> Option<u32> {
        self.own.as_ref().map(|own| own.process)
    }

    /// Ends the sandbox, and returns when its process and its device are gone.
    pub(crate) async fn close(self) {
        let Some(Own {
            process: _,
            mut child,
            stdin,
            device,
            _address,
        }) = self.own
        else {
            return;
        };
        net::unplug(&device).await;
        drop(stdin);
        if let Err(error) = child.wait().await {
            tracing::warn!(device, %error, "cannot wait for a sandbox");
        }
    }
}

async fn expect(
    stated: &mut Lines<BufReader<ChildStdout>>,
    wanted: &SandboxMessage,
) -> anyhow::Result<()> {
    match receive::<SandboxMessage>(stated).await? {
        Some(message) if message == *wanted => Ok(()),
        Some(SandboxMessage::Failed(why)) => bail!(why),
        Some(other @ (SandboxMessage::Made | SandboxMessage::Up)) => {
            bail!("unexpected message of the sandbox: {other:?}")
        }
        None => bail!("the sandbox ended without a message"),
    }
}

/// Starts a part with pipes for its messages. It is killed when the child is dropped.
pub(crate) fn start(
    part: Part,
    stderr: Stdio,
) -> anyhow::Result<(Child, ChildStdin, Lines<BufReader<ChildStdout>>)> {
    let mut command = Command::from(part.command());
    let command = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(stderr)
        .kill_on_drop(true);
    let mut child = command
        .spawn()
        .with_context(|| format!("start a {part:?}"))?;
    let stdin = child
        .stdin
        .take()
        .context("the part has no standard input")?;
    let stdout = child
        .stdout
        .take()
        .context("the part has no standard output")?;
    Ok((child, stdin, BufReader::new(stdout).lines()))
}

/// Sends a message to a part, as a line of JSON.
pub(crate) async fn send<T: Serialize + Sync>(
    stdin: &mut ChildStdin,
    value: &T,
) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    stdin.write_all(&line).await?;
    Ok(stdin.flush().await?)
}

/// Receives the next message of a part; none when it has ended.
pub(crate) async fn receive<T: DeserializeOwned>(
    stated: &mut Lines<BufReader<ChildStdout>>,
) -> anyhow::Result<Option<T>> {
    let line = stated.next_line().await?;
    line.map(|line| serde_json::from_str(&line))
        .transpose()
        .context("parse the message of a part")
}
