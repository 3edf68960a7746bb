//! Runs a command in a running container: exec probes, hooks, and commands of users.

use std::{
    fs::File,
    os::{
        fd::AsFd,
        unix::process::{CommandExt, ExitStatusExt},
    },
    process::{Command, Stdio},
};

use anyhow::Context;
use nix::sched::{CloneFlags, setns};
use rustix::process::{ioctl_tiocsctty, setsid};

use super::{EnterSpec, Input, JoinedSpec, Part, first, read_line_only};

/// The exit code of a shell when a command cannot be executed.
const CANNOT_EXECUTE: i32 = 126;

/// Enters the namespaces of the container. The process namespace takes effect for children only,
/// hence a second part, which has this one's streams.
pub(super) fn play() -> i32 {
    enter().unwrap_or_else(|error| complain(&error))
}

fn enter() -> anyhow::Result<i32> {
    let spec: EnterSpec = read_line_only()?;
    let kinds = [
        ("ipc", CloneFlags::CLONE_NEWIPC),
        ("uts", CloneFlags::CLONE_NEWUTS),
        ("net", CloneFlags::CLONE_NEWNET),
        ("pid", CloneFlags::CLONE_NEWPID),
        ("mnt", CloneFlags::CLONE_NEWNS),
    ];
    // Open all before entering the first: entering the last one removes this /proc.
    let namespaces: Vec<(File, CloneFlags)> = kinds
        .into_iter()
        .map(|(name, kind)| {
            Ok((
                File::open(format!("/proc/{}/ns/{name}", spec.target))?,
                kind,
            ))
        })
        .collect::<std::io::Result<_>>()
        .context("the container is gone")?;
    for (namespace, kind) in namespaces {
        setns(namespace, kind).context("enter the container")?;
    }
    let status = Part::Joined.command().status().context("start inside")?;
    let by_signal = || 128 + status.signal().unwrap_or_default();
    Ok(status.code().unwrap_or_else(by_signal))
}

/// Inside all namespaces: becomes the command.
pub(super) fn play_joined() -> i32 {
    let Err(error) = become_command();
    complain(&error)
}

fn become_command() -> anyhow::Result<std::convert::Infallible> {
    let JoinedSpec { process, input } = read_line_only()?;
    let stdin = match input {
        Input::None => Stdio::null(),
        Input::Rest => Stdio::inherit(),
        Input::Terminal => take_terminal().context("take the terminal")?,
    };
    first::become_user(&process)?;
    let (program, args) = process.argv.split_first().context("no command")?;
    let failure = Command::new(program)
        .args(args)
        .env_clear()
        .envs(&process.env)
        .current_dir(&process.working_dir)
        .stdin(stdin)
        .exec();
    Err(failure).with_context(|| format!("execute {program}"))
}

/// Makes the terminal behind standard output the one that controls this process: its keys are
/// signals, and its end is a hang-up.
fn take_terminal() -> anyhow::Result<Stdio> {
    setsid()?;
    let terminal = std::io::stdout().as_fd().try_clone_to_owned()?;
    ioctl_tiocsctty(&terminal)?;
    Ok(Stdio::from(terminal))
}

fn complain(error: &anyhow::Error) -> i32 {
    use std::io::Write;
    let _ignored = writeln!(std::io::stderr(), "{error:#}");
    CANNOT_EXECUTE
}
