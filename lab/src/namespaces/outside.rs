//! The supervisor: creates the namespaces, starts init in them, and handles signals.

use std::{
    fs,
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Child, Command, ExitCode, ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use nix::{
    errno::Errno,
    sched::{CloneFlags, unshare},
    sys::signal::{Signal, kill},
    unistd::{Pid, getgid, getppid, getuid},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};

use super::{EnterOptions, GRACE, INIT, INSIDE, Inside, listener, relay};

/// The interval of checks whether our parent still runs.
const PARENT_LOOK: Duration = Duration::from_millis(250);

/// A far deadline, for one that is not set yet.
const NEVER: Duration = Duration::from_hours(24 * 365 * 100);

/// Runs this program inside, and returns its exit code.
pub(super) fn supervise(options: EnterOptions) -> Result<ExitCode> {
    let parent = getppid();
    let (listeners, ports): (Vec<_>, Vec<_>) = (0..options.ports)
        .map(|_| listener())
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .unzip();
    leave()?;
    let inside = Inside {
        ports,
        supervisor: std::process::id(),
    };
    // The main thread starts init: the death signal is for the thread that did, not for the process.
    let init = start_init(&inside)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the supervisor's runtime")?;
    runtime.block_on(async {
        let _relays = relay::start(listeners)?;
        watch_over(init, options.follow_parent.then_some(parent)).await
    })
}

/// Leaves the caller's network, and its process namespace for the children.
fn leave() -> Result<()> {
    let wanted = CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWPID;
    match unshare(wanted) {
        Ok(()) => return Ok(()),
        Err(Errno::EPERM) => {}
        Err(error) => bail!("the kernel gives no namespaces ({error}); the lab cannot run here"),
    }
    let (user, group) = (getuid(), getgid());
    unshare(wanted | CloneFlags::CLONE_NEWUSER).map_err(|error| {
        anyhow::anyhow!(
            "the lab needs root, or user namespaces, and has neither ({error}). Run it as root (in a container: \
             with --privileged), or allow user namespaces: sysctl kernel.unprivileged_userns_clone=1, \
             user.max_user_namespaces=10000, kernel.apparmor_restrict_unprivileged_userns=0"
        )
    })?;
    let map = |file: &str, text: String| {
        fs::write(format!("/proc/self/{file}"), text)
            .with_context(|| format!("become root in a user namespace: write {file}"))
    };
    map("setgroups", "deny".to_owned())?;
    map("uid_map", format!("0 {user} 1"))?;
    map("gid_map", format!("0 {group} 1"))
}

fn start_init(inside: &Inside) -> Result<Child> {
    Command::new("/proc/self/exe")
        .arg0(INIT)
        .args(std::env::args_os())
        .env(INSIDE, serde_json::to_string(inside)?)
        // The end of this pipe signals our end to init.
        .stdin(Stdio::piped())
        // Ctrl-C at the terminal must reach only us.
        .process_group(0)
        .spawn()
        .context("start init in the new namespaces")
}

/// An event that wakes the supervisor.
enum Woke {
    Ended(std::io::Result<ExitStatus>),
    Interrupted,
    GraceIsOver,
    Look,
}

async fn watch_over(mut init: Child, parent: Option<Pid>) -> Result<ExitCode> {
    let pid = Pid::from_raw(i32::try_from(init.id()).context("a process number")?);
    let mut interrupts = signal(SignalKind::interrupt()).context("listen for signals")?;
    let mut terminations = signal(SignalKind::terminate()).context("listen for signals")?;
    let mut hangups = signal(SignalKind::hangup()).context("listen for signals")?;
    let mut children = signal(SignalKind::child()).context("listen for signals")?;
    let mut look = interval(PARENT_LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut deadline = Instant::now() + NEVER;
    let mut interrupted = false;
    loop {
        // Checked before each wait: a child's signal from before we listened is not repeated.
        if let Some(status) = init.try_wait().transpose() {
            return ended(status);
        }
        let woke = tokio::select! {
            biased;
            _ = children.recv() => init.try_wait().transpose().map_or(Woke::Look, Woke::Ended),
            _ = interrupts.recv() => Woke::Interrupted,
            _ = terminations.recv() => Woke::Interrupted,
            _ = hangups.recv() => Woke::Interrupted,
            () = sleep_until(deadline) => Woke::GraceIsOver,
            _ = look.tick() => Woke::Look,
        };
        let parent_is_gone = parent.is_some_and(|parent| getppid() != parent);
        match woke {
            Woke::Ended(status) => return ended(status),
            Woke::Interrupted if interrupted => finish(pid),
            Woke::GraceIsOver => finish(pid),
            Woke::Interrupted => {
                interrupted = true;
                deadline = Instant::now() + GRACE;
                // Fails only when init has ended, and we are about to see that.
                let _ended = kill(pid, Signal::SIGTERM);
            }
            // The second request does not wait for an orderly end.
            Woke::Look if parent_is_gone => finish(pid),
            Woke::Look => {}
        }
    }
}

/// Ends init, and everything with it.
fn finish(init: Pid) {
    // Fails only when it has ended already.
    let _ended = kill(init, Signal::SIGKILL);
}

fn ended(status: std::io::Result<ExitStatus>) -> Result<ExitCode> {
    let status = status.context("wait for init")?;
    // As in shells: 128 and the signal.
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}
