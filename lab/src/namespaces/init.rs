//! Process 1 of a lab: sets up its mounts, starts the program, collects orphans, and ends with its supervisor.

use std::{
    fs,
    io::Read,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use anyhow::{Context, Result};
use nix::{
    errno::Errno,
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    sys::{
        prctl,
        signal::{SigSet, Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

use super::scratch;

/// The exit code after the end of our supervisor, as if it had killed us.
const ORPHANED: i32 = 137;

/// Plays init to the end, and returns its exit code.
pub(super) fn play() -> i32 {
    match run() {
        Ok(code) => code,
        Err(error) => {
            complain(&error);
            1
        }
    }
}

fn run() -> Result<i32> {
    prctl::set_pdeathsig(Signal::SIGKILL).context("ask to end with the supervisor")?;
    let mut awaited = SigSet::empty();
    for signal in [
        Signal::SIGCHLD,
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
    ] {
        awaited.add(signal);
    }
    // Before the first thread, so that they are blocked in all of them.
    awaited.thread_block().context("block signals")?;
    follow_supervisor()?;
    mounts()?;
    let program = start()?;
    loop {
        let signal = awaited.wait().context("wait for a signal")?;
        if signal != Signal::SIGCHLD {
            // Fails only when the program has ended, and SIGCHLD says so next.
            let _ended = kill(program, signal);
        } else if let Some(code) = collect(program)? {
            return Ok(code);
        }
    }
}

/// Ends this process, and so everything in its namespace, at the end of standard input. The death signal alone would
/// miss a supervisor that died before we asked for it.
fn follow_supervisor() -> Result<()> {
    let wait = || {
        let mut nothing = [0];
        while std::io::stdin()
            .read(&mut nothing)
            .is_ok_and(|read| read > 0)
        {}
        #[expect(clippy::exit, reason = "no process is left to end in order for")]
        std::process::exit(ORPHANED);
    };
    std::thread::Builder::new()
        .spawn(wait)
        .map(drop)
        .context("start a thread")
}

/// Leaves the machine's mounts: ours are invisible to other processes, and disappear with us.
fn mounts() -> Result<()> {
    const NOTHING: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS).context("get a mount namespace")?;
    mount(
        NOTHING,
        "/",
        NOTHING,
        MsFlags::MS_REC | MsFlags::MS_PRIVATE,
        NOTHING,
    )
    .context("keep our mounts to ourselves")?;
    mount(
        Some("proc"),
        "/proc",
        Some("proc"),
        MsFlags::empty(),
        NOTHING,
    )
    .context("mount /proc (a container must not mask it)")?;
    // The data of labs are here: in memory, since they are temporary, and since overlays can be mounted on it.
    mount(
        Some("lab"),
        "/run",
        Some("tmpfs"),
        MsFlags::empty(),
        Some("mode=0755"),
    )
    .context("mount memory on /run")?;
    fs::create_dir_all(scratch()).context("make the scratch directory")
}

/// Starts the program with its own name and arguments.
fn start() -> Result<Pid> {
    let mut arguments = std::env::args_os().skip(1);
    let name = arguments.next().context("the name of the program")?;
    let child = Command::new("/proc/self/exe")
        .arg0(name)
        .args(arguments)
        .stdin(Stdio::null())
        .spawn()
        .context("start the program inside")?;
    Ok(Pid::from_raw(
        i32::try_from(child.id()).context("a process number")?,
    ))
}

/// Collects every child that has ended; the program's exit code if it is among them.
fn collect(program: Pid) -> Result<Option<i32>> {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) if pid == program => return Ok(Some(code)),
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == program => {
                return Ok(Some(128 + signal as i32));
            }
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return Ok(None),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error).context("wait for children"),
        }
    }
}

fn complain(error: &anyhow::Error) {
    use std::io::Write;
    let _ignored = writeln!(std::io::stderr(), "lab: {error:#}");
}
