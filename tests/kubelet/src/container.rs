//! One run of one container: a shim and what it says.

use std::{process::Stdio, time::Duration};

use anyhow::Context;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::Command,
    sync::mpsc,
};

use crate::{
    inside::{EnterSpec, Part, Process, ShimSaid, ShimSpec},
    sandbox::{hear, start, tell},
};

/// The signal that asks a program to end.
pub(crate) const TERM: i32 = 15;
/// The signal that ends it.
pub(crate) const KILL: i32 = 9;

/// Runs a container until it has ended, passing the signals that arrive, and sends what happens,
/// made into news by `tag`; [`ShimSaid::Failed`] or [`ShimSaid::Exited`] comes last, when no
/// process is left.
///
/// When `signals` closes, the container is ended by force.
pub(crate) async fn run<T>(
    spec: ShimSpec,
    mut signals: mpsc::Receiver<i32>,
    news: mpsc::Sender<T>,
    tag: impl Fn(ShimSaid) -> T,
) {
    let mut last = ShimSaid::Failed("the shim ended without a word".to_owned());
    let attended = async {
        let (mut child, mut stdin, mut said) = start(Part::Shim, Stdio::null())?;
        tell(&mut stdin, &spec).await?;
        let mut control = Some(stdin);
        loop {
            tokio::select! {
                heard = hear::<ShimSaid>(&mut said) => match heard? {
                    Some(started @ ShimSaid::Started(_)) => {
                        // If nobody wants to know, the signals are closed too.
                        let _nobody = news.send(tag(started)).await;
                    }
                    Some(end @ (ShimSaid::Failed(_) | ShimSaid::Exited { .. })) => last = end,
                    None => break,
                },
                signal = signals.recv(), if control.is_some() => match (signal, control.as_mut()) {
                    (Some(signal), Some(stdin)) => {
                        // A shim that does not listen any more is about to say why.
                        let _ended = stdin.write_all(format!("{signal}\n").as_bytes()).await;
                    }
                    (None, _) | (_, None) => control = None,
                },
            }
        }
        anyhow::Ok(child.wait().await?)
    };
    if let Err(error) = attended.await {
        last = ShimSaid::Failed(format!("{error:#}"));
    }
    let _nobody = news.send(tag(last)).await;
}

/// What a command in a container did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) code: i32,
    /// The beginning of what it printed.
    pub(crate) text: String,
}

/// As much of the output of a command as anybody wants to read in a message.
const READ: u64 = 4096;

/// Runs a command in the container whose process 1 is `target`. Dropping the future ends the
/// command.
pub(crate) async fn enter(
    target: u32,
    process: Process,
    limit: Duration,
) -> anyhow::Result<Output> {
    let running = async {
        let mut command = Command::from(Part::Enter.command());
        let command = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .kill_on_drop(true)
            .spawn()
            .context("start a command in a container")?;
        let mut stdin = child.stdin.take().context("no way to talk")?;
        tell(&mut stdin, &EnterSpec { target, process }).await?;
        drop(stdin);
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let read = async |pipe: Option<&mut (dyn tokio::io::AsyncRead + Send + Unpin)>| {
            let mut text = Vec::new();
            if let Some(pipe) = pipe {
                pipe.take(READ).read_to_end(&mut text).await?;
            }
            anyhow::Ok(String::from_utf8_lossy(&text).into_owned())
        };
        let (mut out, mut err) = (out, err);
        let (out, err) = tokio::try_join!(
            read(out.as_mut().map(|pipe| pipe as _)),
            read(err.as_mut().map(|pipe| pipe as _))
        )?;
        let status = child.wait().await?;
        anyhow::Ok(Output {
            code: status.code().unwrap_or(128 + KILL),
            text: out + &err,
        })
    };
    tokio::time::timeout(limit, running)
        .await
        .with_context(|| format!("not within {limit:?}"))?
}
