//! The parts of this program that run inside the namespaces.
//!
//! The kubelet executes the running program again (`/proc/self/exe`, so a rebuild meanwhile does no
//! harm) under the name [`NAME`] and with the part to play as its only argument. The part reads its
//! input from standard input, so that no secret shows in a process list, and writes its messages to
//! standard output, one JSON value a line.
//!
//! ```text
//!   kubelet --(stdin: spec, "up", then silence)--> sandbox            holds net, ipc and uts namespaces
//!   kubelet --(stdin: spec, then signal numbers)--> shim --> first    first: process 1, builds the root, execs
//!   kubelet --(stdin: two specs, then the command's own)--> enter --> joined      a command in a running container
//! ```
//!
//! Invariant: when the kubelet's end of standard input closes, for any reason, the part
//! ends and everything below it too. Nothing here may start a thread before it has entered its
//! namespaces.

mod enter;
mod first;
mod init;
mod root;
mod sandbox;
mod shim;
mod spec;

use std::{
    fs::File,
    io::{BufRead, Read, Write},
    os::{fd::AsFd, unix::process::CommandExt},
    process::Command,
};

use anyhow::Context;
use nix::sys::signal::SigSet;
use serde::{Serialize, de::DeserializeOwned};

pub(crate) use spec::{
    EnterSpec, Input, JoinedSpec, Mount, Process, Root, SandboxMessage, SandboxSpec, ShimMessage,
    ShimSpec, Text,
};

/// The name (`argv[0]`) under which this program is executed when it shall play a part.
const NAME: &str = "lab-container";

/// A part to play.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Holds the namespaces that the containers of a Pod share.
    Sandbox,
    /// Starts, signals and waits for process 1 of a container.
    Shim,
    /// Process 1 of a container, until it becomes the container's own program.
    First,
    /// Enters a running container from outside.
    Enter,
    /// Has entered, and becomes the command.
    Joined,
}

impl Part {
    const ALL: [Self; 5] = [
        Self::Sandbox,
        Self::Shim,
        Self::First,
        Self::Enter,
        Self::Joined,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
            Self::Shim => "shim",
            Self::First => "first",
            Self::Enter => "enter",
            Self::Joined => "joined",
        }
    }

    /// The command that plays this part, with a clean environment.
    pub(crate) fn command(self) -> Command {
        let mut command = Command::new("/proc/self/exe");
        command.arg0(NAME).arg(self.name()).env_clear();
        // `ip` is the only program the parts look for.
        command.env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        );
        command
    }
}

/// Becomes a part of a container if this program was executed for that, and then never
/// returns.
///
/// Must be the first call in `main`, before any thread is started.
pub fn maybe_become_container() {
    let mut args = std::env::args_os();
    if args.next().is_none_or(|name| name != NAME) {
        return;
    }
    // The caller may have blocked signals; a container starts with none blocked.
    if SigSet::all().thread_unblock().is_err() {
        leave(1);
    }
    let part = args.next();
    let part = Part::ALL
        .into_iter()
        .find(|known| part.as_deref() == Some(known.name().as_ref()));
    let code = match part {
        Some(Part::Sandbox) => sandbox::play(),
        Some(Part::Shim) => shim::play(),
        Some(Part::First) => first::play(),
        Some(Part::Enter) => enter::play(),
        Some(Part::Joined) => enter::play_joined(),
        None => 64, // EX_USAGE of sysexits.h
    };
    leave(code)
}

#[expect(clippy::exit, reason = "the program this is part of must not continue")]
fn leave(code: i32) -> ! {
    std::process::exit(code)
}

/// Writes one value to the caller, as a line of JSON.
fn reply<T: Serialize>(value: &T) -> anyhow::Result<()> {
    let mut line = serde_json::to_string(value)?;
    line.push('\n');
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes())?;
    out.flush().context("the caller went away")
}

/// Reads one value from the next line of standard input.
fn read_value<T: DeserializeOwned>() -> anyhow::Result<T> {
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .context("read standard input")?;
    serde_json::from_str(&line).context("understand what the caller wants")
}

/// The longest line that [`read_line_only`] reads.
const LONGEST: usize = 1 << 20;

/// Reads one value like [`read_value`], but no byte after its line: the rest belongs to another reader.
fn read_line_only<T: DeserializeOwned>() -> anyhow::Result<T> {
    let stdin = std::io::stdin().as_fd().try_clone_to_owned()?;
    let (mut stdin, mut line, mut byte) = (File::from(stdin), Vec::new(), [0]);
    loop {
        stdin.read_exact(&mut byte).context("read standard input")?;
        if byte == [b'\n'] {
            return serde_json::from_slice(&line).context("understand what the caller wants");
        }
        anyhow::ensure!(line.len() < LONGEST, "the caller's line is too long");
        line.extend(byte);
    }
}
