//! Runs programs as users do: to their end or line by line, and never without a time limit.

use std::{
    process::{ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

/// The result of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The command line: the program and its arguments.
    pub call: String,
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

impl Output {
    /// Whether its exit code is 0.
    pub const fn succeeded(&self) -> bool {
        matches!(self.code, Some(0))
    }

    /// Its standard output, if it succeeded.
    pub fn printed(self) -> Result<String> {
        let Self { call, out, err, .. } = &self;
        ensure!(self.succeeded(), "{call}: {}\n{}", err.trim(), out.trim());
        Ok(self.out)
    }

    /// Its standard error, if it failed.
    pub fn complained(self) -> Result<String> {
        ensure!(!self.succeeded(), "{} succeeds: {}", self.call, self.out);
        Ok(self.err)
    }
}

/// Runs a program without input, and waits for its end.
pub async fn call(mut command: Command, within: Duration) -> Result<Output> {
    let call = shown(&command);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let ended = timeout(within, command.output()).await;
    let ended = ended.with_context(|| format!("{call}: no end within {within:?}"))?;
    let ended = ended.with_context(|| format!("start {call}"))?;
    let [out, err] =
        [ended.stdout, ended.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    let code = ended.status.code();
    Ok(Output {
        call,
        code,
        out,
        err,
    })
}

fn shown(command: &Command) -> String {
    let command = command.as_std();
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

/// A running program whose output is read line by line; it ends when this is dropped.
#[derive(Debug)]
pub struct Following {
    call: String,
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Following {
    /// Starts it.
    pub fn begin(mut command: Command) -> Result<Self> {
        let call = shown(&command);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let mut child = command.spawn().with_context(|| format!("start {call}"))?;
        let lines = child.stdout.take().context("its output")?;
        Ok(Self {
            call,
            child,
            lines: BufReader::new(lines),
        })
    }

    /// The next line with its break; none at the end.
    pub async fn line(&mut self, within: Duration) -> Result<Option<String>> {
        let mut line = String::new();
        let read = timeout(within, self.lines.read_line(&mut line)).await;
        let read = read.with_context(|| format!("{}: no line within {within:?}", self.call))??;
        Ok(Some(line).filter(|_| read > 0))
    }

    /// Waits for a line with this text.
    pub async fn until_it_prints(&mut self, text: &str, within: Duration) -> Result<()> {
        let looking = async {
            while let Some(line) = self.line(within).await? {
                if line.contains(text) {
                    return Ok(true);
                }
            }
            anyhow::Ok(false)
        };
        let found = timeout(within, looking).await;
        let found = found.with_context(|| format!("no {text:?} within {within:?}"))??;
        ensure!(found, "{} ended, with no {text:?}", self.call);
        Ok(())
    }

    /// Waits for its end.
    pub async fn ended(&mut self, within: Duration) -> Result<ExitStatus> {
        let ended = timeout(within, self.child.wait()).await;
        let ended = ended.with_context(|| format!("{}: no end within {within:?}", self.call))?;
        ended.context("wait for a program")
    }
}
