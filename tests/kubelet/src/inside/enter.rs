//! Runs a command in a running container: exec probes and hooks.

use std::{
    fs::File,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use anyhow::Context;
use nix::sched::{CloneFlags, setns};

use super::{EnterSpec, Part, Process, first, hear};

/// What a shell ends with when a command cannot be executed.
const CANNOT_EXECUTE: i32 = 126;

/// Enters the namespaces of the container. The process namespace takes effect for children only,
/// hence a second part.
pub(super) fn play() -> i32 {
    enter().unwrap_or_else(|error| complain(&error))
}

fn enter() -> anyhow::Result<i32> {
    let spec: EnterSpec = hear()?;
    let kinds = [
        ("ipc", CloneFlags::CLONE_NEWIPC),
        ("uts", CloneFlags::CLONE_NEWUTS),
        ("net", CloneFlags::CLONE_NEWNET),
        ("pid", CloneFlags::CLONE_NEWPID),
        ("mnt", CloneFlags::CLONE_NEWNS),
    ];
    // All before the first is entered: the last one takes this /proc away.
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
    let mut child = Part::Joined
        .command()
        .stdin(Stdio::piped())
        .spawn()
        .context("start inside")?;
    if let Some(mut stdin) = child.stdin.take() {
        let _gone = serde_json::to_writer(&mut stdin, &spec.process);
    }
    let status = child.wait()?;
    Ok(status.code().unwrap_or(128))
}

/// Inside all namespaces: becomes the command.
pub(super) fn play_joined() -> i32 {
    let Err(error) = become_command();
    complain(&error)
}

fn become_command() -> anyhow::Result<std::convert::Infallible> {
    let process: Process = hear()?;
    first::become_user(&process)?;
    let (program, args) = process.argv.split_first().context("no command")?;
    let failure = Command::new(program)
        .args(args)
        .env_clear()
        .envs(&process.env)
        .current_dir(&process.working_dir)
        .stdin(Stdio::null())
        .exec();
    Err(failure).with_context(|| format!("execute {program}"))
}

fn complain(error: &anyhow::Error) -> i32 {
    use std::io::Write;
    let _nobody_listens = writeln!(std::io::stderr(), "{error:#}");
    CANNOT_EXECUTE
}
