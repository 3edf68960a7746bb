//! A user at a terminal in a Pod.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::SinkExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{AttachParams, AttachedProcess, TerminalSize},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, SimplexStream, WriteHalf},
    time::timeout,
};

use crate::stage::SOON;

/// A shell at a terminal, as argocd-server opens it. Dropping it closes the window.
pub(crate) struct Viewer {
    process: AttachedProcess,
    keys: WriteHalf<SimplexStream>,
    screen: ReadHalf<SimplexStream>,
    /// The output so far.
    read: String,
}

impl Viewer {
    pub(crate) async fn open(pods: &Api<Pod>, pod: &str) -> Result<Self> {
        let params = AttachParams::interactive_tty();
        let opening = timeout(SOON, pods.exec(pod, ["sh"], &params)).await;
        let mut process = opening.context("the terminal does not open")??;
        Ok(Self {
            keys: process.stdin().context("keys")?,
            screen: process.stdout().context("a screen")?,
            process,
            read: String::new(),
        })
    }

    pub(crate) async fn types(&mut self, keys: &str) -> Result<()> {
        self.keys.write_all(keys.as_bytes()).await?;
        self.keys.flush().await.context("type")
    }

    /// Gives the window a size, and waits until the shell has it.
    pub(crate) async fn resized(&mut self, width: u16, height: u16) -> Result<()> {
        let mut sizes = self.process.terminal_size().context("a terminal")?;
        let size = TerminalSize { width, height };
        sizes.send(size).await.context("resize")?;
        let wait = format!("until test \"$(stty size)\" = '{height} {width}'; do sleep 0.05; done");
        // The terminal echoes the input too, but not its result.
        self.types(&format!("{wait}; echo size $((1 + 1))\n"))
            .await?;
        self.until_it_reads("size 2").await
    }

    /// Waits until the screen shows this text.
    pub(crate) async fn until_it_reads(&mut self, text: &str) -> Result<()> {
        let mut buffer = vec![0; 4096];
        while !self.read.contains(text) {
            let read = timeout(SOON, self.screen.read(&mut buffer)).await;
            let read = read.with_context(|| format!("no {text:?} in {:?}", self.read))??;
            ensure!(read > 0, "it ended, with no {text:?} in {:?}", self.read);
            let more = String::from_utf8_lossy(&buffer[..read]).into_owned();
            self.read.push_str(&more);
        }
        Ok(())
    }
}

/// Waits until the terminal closes, for any reason.
pub(crate) async fn ended(viewer: Viewer) -> Result<()> {
    let Viewer { process, .. } = viewer;
    let ended = timeout(SOON, process.join()).await;
    // It may end with an error of the connection, or without one.
    ended.context("the terminal does not end").map(drop)
}

/// Waits until the shell has ended by itself, with this code.
pub(crate) async fn ended_with(mut viewer: Viewer, code: u8) -> Result<()> {
    let status = viewer.process.take_status().context("a status")?;
    // The status arrives only after all output.
    let mut rest = Vec::new();
    let reading = viewer.screen.read_to_end(&mut rest);
    timeout(SOON, reading).await.context("it does not end")??;
    let status = timeout(Duration::from_secs(5), status).await;
    let status = status.context("no status")?.context("no status")?;
    let causes = status.details.and_then(|details| details.causes);
    let cause = causes.unwrap_or_default().into_iter().find_map(|cause| {
        let is_code = cause.reason.as_deref() == Some("ExitCode");
        cause.message.filter(|_| is_code)
    });
    ensure!(cause == Some(code.to_string()), "it ended with {cause:?}");
    Ok(())
}
