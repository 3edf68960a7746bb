//! Commands in running containers: probes, hooks, and commands that users run.

use std::{process::Stdio, time::Duration};

use anyhow::Context;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite},
    process::{Child, Command},
};

use crate::{
    container::KILL,
    inside::{EnterSpec, Input, JoinedSpec, Part, Process},
    sandbox::send,
    terminal::{Opened, Terminal},
};

/// The streams that the caller of a command asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each stream is requested or not"
)]
pub(crate) struct Wanted {
    pub(crate) stdin: bool,
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
    /// A terminal instead of all three.
    pub(crate) terminal: bool,
}

/// A running command. Dropping it ends the command.
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
    // It has copies of the inner end of the terminal, which must close with the command.
    drop(command);
    let mut stdin = child
        .stdin
        .take()
        .context("the command has no standard input")?;
    let input = match (&opened, wanted.stdin) {
        (Some(_), _) => Input::Terminal,
        (None, true) => Input::Rest,
        (None, false) => Input::None,
    };
    // If the write fails, the exit status explains why.
    let reply = async {
        send(&mut stdin, &EnterSpec { target }).await?;
        send(&mut stdin, &JoinedSpec { process, input }).await
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

/// The result of a command in a container.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) code: i32,
    /// The beginning of its output.
    pub(crate) text: String,
}

/// The part of a command's output that fits into a readable message.
const READ: u64 = 4096;

/// Runs a command until it ends. Dropping the future ends the command.
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

/// The exit code of a command. A command that was killed with its container has no code of its own.
pub(crate) fn code(status: std::process::ExitStatus) -> i32 {
    status.code().unwrap_or(128 + KILL)
}
