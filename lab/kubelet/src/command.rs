//! Commands in running containers: probes, hooks, and what people run there.

use std::{process::Stdio, time::Duration};

use anyhow::Context;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite},
    process::{Child, Command},
};

use crate::{
    container::KILL,
    inside::{EnterSpec, Input, JoinedSpec, Part, Process},
    sandbox::notify,
    terminal::{Opened, Terminal},
};

/// What somebody wants to have of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "streams of which each is wanted or not"
)]
pub(crate) struct Wanted {
    pub(crate) stdin: bool,
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
    /// A terminal in place of all three.
    pub(crate) terminal: bool,
}

/// A command that runs. Dropping it ends the command.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    pub(crate) stdout: Option<Box<dyn AsyncRead + Send + Unpin>>,
    pub(crate) stderr: Option<Box<dyn AsyncRead + Send + Unpin>>,
    pub(crate) terminal: Option<Terminal>,
}

/// Runs a command in the container whose process 1 is `target`.
pub(crate) async fn begin(
    target: u32,
    process: Process,
    wanted: Wanted,
) -> anyhow::Result<Running> {
    let mut command = Command::from(Part::Enter.command());
    command.stdin(Stdio::piped()).kill_on_drop(true);
    let opened = wanted.terminal.then(Terminal::open).transpose();
    let opened = opened.context("open a terminal")?;
    if let Some(Opened { inner, .. }) = &opened {
        command
            .stdout(inner.try_clone()?)
            .stderr(inner.try_clone()?);
    } else {
        let pipe = |wanted| {
            if wanted {
                Stdio::piped()
            } else {
                Stdio::null()
            }
        };
        command
            .stdout(pipe(wanted.stdout))
            .stderr(pipe(wanted.stderr));
    }
    let mut child = command.spawn().context("start a command in a container")?;
    // It has copies of the inner end of the terminal, which must end with the command.
    drop(command);
    let mut stdin = child.stdin.take().context("no way to talk")?;
    let input = match (&opened, wanted.stdin) {
        (Some(_), _) => Input::Terminal,
        (None, true) => Input::Rest,
        (None, false) => Input::None,
    };
    // Where it listens no more, its end says why.
    let reply = async {
        notify(&mut stdin, &EnterSpec { target }).await?;
        notify(&mut stdin, &JoinedSpec { process, input }).await
    };
    let _ended = reply.await;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    Ok(match opened {
        Some(Opened {
            terminal,
            keys,
            screen,
            inner: _,
        }) => Running {
            child,
            stdin: wanted.stdin.then(|| Box::new(keys) as _),
            stdout: Some(Box::new(screen)),
            stderr: None,
            terminal: Some(terminal),
        },
        None => Running {
            child,
            stdin: wanted.stdin.then(|| Box::new(stdin) as _),
            stdout: stdout.map(|pipe| Box::new(pipe) as _),
            stderr: stderr.map(|pipe| Box::new(pipe) as _),
            terminal: None,
        },
    })
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

/// Runs a command to its end. Dropping the future ends the command.
pub(crate) async fn output(
    target: u32,
    process: Process,
    limit: Duration,
) -> anyhow::Result<Output> {
    let running = async {
        let wanted = Wanted {
            stdout: true,
            stderr: true,
            ..Wanted::default()
        };
        let Running {
            mut child,
            stdout,
            stderr,
            ..
        } = begin(target, process, wanted).await?;
        let read = async |pipe: Option<Box<dyn AsyncRead + Send + Unpin>>| {
            let mut text = Vec::new();
            if let Some(pipe) = pipe {
                pipe.take(READ).read_to_end(&mut text).await?;
            }
            anyhow::Ok(String::from_utf8_lossy(&text).into_owned())
        };
        let (out, err) = tokio::try_join!(read(stdout), read(stderr))?;
        let status = child.wait().await?;
        anyhow::Ok(Output {
            code: code(status),
            text: out + &err,
        })
    };
    tokio::time::timeout(limit, running)
        .await
        .with_context(|| format!("not within {limit:?}"))?
}

/// What a command ended with. One that was ended together with its container has no code of its own.
pub(crate) fn code(status: std::process::ExitStatus) -> i32 {
    status.code().unwrap_or(128 + KILL)
}
