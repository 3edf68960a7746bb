//! Process 1 of a container, from its birth until it becomes the container's program.

use std::{
    fs::File,
    io::Write,
    os::{fd::AsFd, unix::process::CommandExt},
    process::{Command, Stdio},
};

use anyhow::Context;
use nix::{
    sched::{CloneFlags, unshare},
    sys::{
        prctl::{set_no_new_privs, set_pdeathsig},
        signal::Signal,
    },
    unistd::{Gid, Uid, setgid, setgroups, setuid},
};

use tokio::{
    runtime::Builder,
    signal::unix::{SignalKind, signal},
};

use super::{Process, ShimSpec, init, read_value, root};

pub(super) fn play() -> i32 {
    // A second handle on the shim's pipe: it closes itself when a program is executed, which
    // signals success.
    let Ok(pipe) = std::io::stdout().as_fd().try_clone_to_owned() else {
        return 1;
    };
    let mut pipe = File::from(pipe);
    match prepare() {
        Ok((process, log)) if process.init => match init::spawn(&process, &log) {
            Ok(program) => {
                drop(pipe);
                // Standard output still is the shim's pipe; replace it by the log, so that the
                // pipe closes.
                if nix::unistd::dup2_stdout(&log).is_err() {
                    return 1;
                }
                return init::attend(&program);
            }
            Err(error) => complain(&mut pipe, &error),
        },
        Ok((process, log)) => complain(&mut pipe, &execute(&process, &log)),
        Err(error) => complain(&mut pipe, &error),
    }
    1
}

fn complain(pipe: &mut File, error: &anyhow::Error) {
    // The shim reads the other end while this process lives.
    let _written = write!(pipe, "{error:#}");
}

/// Builds the root and drops the privileges that the container shall not have.
fn prepare() -> anyhow::Result<(Process, File)> {
    let ShimSpec {
        sandbox: _,
        log: _,
        scratch,
        root,
        process,
    } = read_value()?;
    let log = std::io::stderr().as_fd().try_clone_to_owned()?;
    // As containerd does, so that a program can open its /dev/stdout. In a user namespace with
    // one user there is no other owner.
    let (user, group) = (Uid::from_raw(process.user), Gid::from_raw(process.group));
    let _optional = nix::unistd::fchown(&log, Some(user), Some(group));
    unshare(CloneFlags::CLONE_NEWNS).context("make a mount namespace")?;
    root::build(&scratch, &root, &process)?;
    become_user(&process)?;
    Ok((process, File::from(log)))
}

/// Sets the user, the groups and the limits of `process`, and ties this process to its parent's
/// life. The signals are those of a fresh program.
pub(super) fn become_user(process: &Process) -> anyhow::Result<()> {
    with_default_signals().context("begin with fresh signals")?;
    let groups: Vec<Gid> = process
        .groups
        .iter()
        .filter(|group| maps(**group))
        .map(|group| Gid::from_raw(*group))
        .collect();
    // In a user namespace that maps only one user there are no other users to become, nor groups
    // to drop.
    if maps(process.user) && maps(process.group) {
        if setgroups(&groups).is_ok() || process.user != 0 {
            setgid(Gid::from_raw(process.group)).context("take the group")?;
        }
        setuid(Uid::from_raw(process.user)).context("take the user")?;
    }
    if process.no_new_privileges {
        set_no_new_privs().context("give up new privileges")?;
    }
    // After the change of user, which clears it.
    set_pdeathsig(Signal::SIGKILL).context("tie the container to its shim")
}

/// Resets ignored signals, which an executed program would inherit: a script that runs the lab in its background
/// ignores interrupts, and then no key in a terminal of a container would send one. A program does not inherit
/// handlers but gets the default, so setting one is enough.
fn with_default_signals() -> anyhow::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let _within = runtime.enter();
    for kind in [
        SignalKind::interrupt(),
        SignalKind::quit(),
        SignalKind::hangup(),
        SignalKind::terminate(),
    ] {
        drop(signal(kind)?);
    }
    Ok(())
}

/// Whether a user or group number means anything in this user namespace.
pub(super) fn maps(id: u32) -> bool {
    let Ok(map) = std::fs::read_to_string("/proc/self/uid_map") else {
        return true;
    };
    map.lines().any(|line| {
        let mut fields = line.split_whitespace().map(str::parse::<u64>);
        match (fields.next(), fields.next(), fields.next()) {
            (Some(Ok(inside)), Some(Ok(_)), Some(Ok(count))) => {
                (inside..inside + count).contains(&u64::from(id))
            }
            _ => false,
        }
    })
}

/// The command for `process`, printing to `log`.
pub(super) fn command(process: &Process, log: &File) -> anyhow::Result<Command> {
    let (program, args) = process
        .argv
        .split_first()
        .context("the container says no command")?;
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(&process.env)
        .current_dir(&process.working_dir)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?);
    Ok(command)
}

/// Becomes the program; returns only with the error.
fn execute(process: &Process, log: &File) -> anyhow::Error {
    match command(process, log) {
        Ok(mut command) => {
            let program = process.argv.first().cloned().unwrap_or_default();
            anyhow::Error::new(command.exec()).context(format!("execute {program}"))
        }
        Err(error) => error,
    }
}
