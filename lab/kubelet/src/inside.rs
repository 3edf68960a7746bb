//! The other life of this program: what runs inside the namespaces.
//!
//! The kubelet calls the running program again (`/proc/self/exe`, so a rebuild meanwhile does no
//! harm) under the name [`NAME`] and with the part to play as its only argument. What the part
//! needs to know comes through standard input, so that no secret shows in a process list; what it
//! has to say goes to standard output, one JSON value a line.
//!
//! ```text
//!   kubelet --(stdin: spec, "up", then silence)--> sandbox            holds net, ipc and uts namespaces
//!   kubelet --(stdin: spec, then signal numbers)--> shim --> first    first: process 1, builds the root, execs
//!   kubelet --(stdin: two specs, then the command's own)--> enter --> joined      a command in a running container
//! ```
//!
//! Invariant: when the kubelet's end of standard input closes, however that comes about, the part
//! ends and takes everything below it along. Nothing here may start a thread before its namespaces
//! are entered.

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
    EnterSpec, Input, JoinedSpec, Mount, Process, Root, SandboxSaid, SandboxSpec, ShimSaid,
    ShimSpec, Text,
};

/// The name (`argv[0]`) this program is called by when it shall play a part.
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

/// Becomes a part of a container if that is what this program was called for, and then never
/// returns.
///
/// Must be the first call in `main`, before any thread is started.
pub fn maybe_become_container() {
    let mut args = std::env::args_os();
    if args.next().is_none_or(|name| name != NAME) {
        return;
    }
    // Whoever called may wait for signals in its own way; a container begins with a clean slate.
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

#[expect(clippy::exit, reason = "the program this is part of must not go on")]
fn leave(code: i32) -> ! {
    std::process::exit(code)
}

/// Says one value to whoever called, as a line of JSON.
fn say<T: Serialize>(value: &T) -> anyhow::Result<()> {
    let mut line = serde_json::to_string(value)?;
    line.push('\n');
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes())?;
    out.flush().context("the caller went away")
}

/// Reads one value from the next line of standard input.
fn take_in<T: DeserializeOwned>() -> anyhow::Result<T> {
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .context("read standard input")?;
    serde_json::from_str(&line).context("understand what the caller wants")
}

/// The longest line that [`hear_line`] reads.
const LONGEST: usize = 1 << 20;

/// The same, but takes no byte behind the line: that is for others who have this standard input.
fn hear_line<T: DeserializeOwned>() -> anyhow::Result<T> {
    let stdin = std::io::stdin().as_fd().try_clone_to_owned()?;
    let (mut stdin, mut line, mut byte) = (File::from(stdin), Vec::new(), [0]);
    loop {
        stdin.read_exact(&mut byte).context("read standard input")?;
        if byte == [b'\n'] {
            return serde_json::from_slice(&line).context("understand what the caller wants");
        }
        anyhow::ensure!(line.len() < LONGEST, "the caller says too much");
        line.extend(byte);
    }
}
