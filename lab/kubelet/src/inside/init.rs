//! A small init for images that bring one: passes signals to the program and collects orphans, as
//! tini does.

use std::{fs::File, process::Child};

use anyhow::Context;
use nix::{
    errno::Errno,
    sys::{
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use tokio::signal::unix::{SignalKind, signal};

use super::{Process, first};

/// Starts the program as a child. [`attend`] waits for it.
pub(super) fn spawn(process: &Process, log: &File) -> anyhow::Result<Child> {
    let program = process.argv.first().cloned().unwrap_or_default();
    first::command(process, log)?
        .spawn()
        .with_context(|| format!("execute {program}"))
}

/// Waits until the program ends, and returns the code to end with.
pub(super) fn attend(program: &Child) -> i32 {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
    else {
        return 1;
    };
    let Ok(id) = i32::try_from(program.id()) else {
        return 1;
    };
    runtime
        .block_on(pass_and_collect(Pid::from_raw(id)))
        .unwrap_or(1)
}

async fn pass_and_collect(program: Pid) -> std::io::Result<i32> {
    let mut child = signal(SignalKind::child())?;
    let mut term = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut quit = signal(SignalKind::quit())?;
    loop {
        // Also before the first signal: the program may have ended before we listened.
        if let Some(code) = collect(program) {
            return Ok(code);
        }
        let passed = tokio::select! {
            _ = child.recv() => None,
            _ = term.recv() => Some(Signal::SIGTERM),
            _ = interrupt.recv() => Some(Signal::SIGINT),
            _ = hangup.recv() => Some(Signal::SIGHUP),
            _ = quit.recv() => Some(Signal::SIGQUIT),
        };
        if let Some(signal) = passed {
            let _already_gone = kill(program, signal);
        }
    }
}

/// Collects every process that has ended, and returns the program's code if it is among them.
fn collect(program: Pid) -> Option<i32> {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) if pid == program => return Some(code),
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == program => {
                return Some(128 + signal as i32);
            }
            Ok(WaitStatus::StillAlive) => return None,
            // Unreachable: without a child to wait for, the program would have been collected before.
            Err(Errno::ECHILD) => return Some(1),
            Ok(_) | Err(_) => {}
        }
    }
}
