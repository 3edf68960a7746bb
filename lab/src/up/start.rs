//! Starts a lab that stays.

use std::{
    fs::{self, File},
    io::Read,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::sleep,
};

use super::{LOG, Phase, STATE, State, down::clear, inside, list, started};
use crate::{
    Options, Tools,
    namespaces::{self, EnterOptions, Entered},
    progress::print,
};

/// The interval of checks of the lab in the background.
const LOOK: Duration = Duration::from_millis(50);

/// The options of `lab up`.
#[derive(Clone, Debug)]
pub struct Request {
    /// The parts of the lab.
    pub options: Options,
    /// The directory for its kubeconfigs and logs.
    pub dir: PathBuf,
    /// Whether to stay attached until it is interrupted, instead of returning when it is ready.
    pub foreground: bool,
    /// Whether this is the lab in the background, whose directory and tools are ready.
    pub prepared: bool,
    /// Whether to show the main job on it.
    pub demo: bool,
}

/// Starts a lab. In the background unless asked otherwise; then this returns when the lab is ready.
pub fn up(request: &Request) -> Result<ExitCode> {
    if namespaces::are_ours() || request.prepared {
        return attached(request);
    }
    let dir = &request.dir;
    if State::read(dir)?.is_some_and(|state| state.is_running()) {
        bail!(
            "a lab runs in {} already: `lab status`, `lab down`",
            dir.display()
        );
    }
    Tools::ensure()?;
    clear(dir)?;
    fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
    let hidden = dir.canonicalize().context("look at the lab's directory")?;
    ensure!(
        !["/run", "/proc"]
            .iter()
            .any(|mount| hidden.starts_with(mount)),
        "{} cannot be seen from inside the lab, which has a /run and /proc of its own",
        dir.display()
    );
    if request.foreground {
        attached(request)
    } else {
        detached(dir)
    }
}

/// Becomes the supervisor; and inside, the lab.
fn attached(request: &Request) -> Result<ExitCode> {
    let dir = &request.dir;
    if !namespaces::are_ours() {
        let pid = std::process::id();
        let started = started(pid).context("this process's own start")?;
        State {
            pid,
            started,
            phase: Phase::Starting,
            clusters: Vec::new(),
        }
        .write(dir)?;
        list::add(dir)?;
    }
    // A browser of the demo has a port of its own, after those of the clusters.
    let options = EnterOptions {
        ports: request.options.spokes + 1 + u8::from(request.demo),
        follow_parent: request.demo,
    };
    match namespaces::enter(options)? {
        Entered::Inside(seen) => inside::run(request, &seen),
        Entered::Ended(code) => {
            // A lab that could not be started leaves its logs, and records the reason in its state.
            let failed =
                State::read(dir)?.is_some_and(|state| matches!(state.phase, Phase::Failed(_)));
            if !failed {
                clear(dir)?;
            }
            Ok(code)
        }
    }
}

/// Starts the supervisor in the background, and prints its log until the lab is ready.
fn detached(dir: &Path) -> Result<ExitCode> {
    let log = dir.join(LOG);
    let into = File::create(&log).with_context(|| format!("create {}", log.display()))?;
    let child = Command::new("/proc/self/exe")
        .args(std::env::args_os().skip(1))
        .arg("--prepared")
        .stdin(Stdio::null())
        .stdout(into.try_clone()?)
        .stderr(into)
        // The input of this terminal is not for it.
        .process_group(0)
        .spawn()
        .context("start the lab in the background")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(follow(child, dir, &log))
}

async fn follow(mut child: Child, dir: &Path, log: &Path) -> Result<ExitCode> {
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut log = File::open(log).context("open the lab's log")?;
    let pid = child.id();
    loop {
        let ended = child.try_wait().context("look after the lab")?;
        let state = State::read(dir)?.filter(|state| state.pid == pid);
        show_more(&mut log)?;
        if let Some(status) = ended {
            let code = status
                .code()
                .or_else(|| status.signal().map(|signal| 128 + signal));
            return Ok(ExitCode::from(u8::try_from(code.unwrap_or(1)).unwrap_or(1)));
        }
        if let Some(State {
            phase: Phase::Ready,
            clusters,
            ..
        }) = state
        {
            for cluster in clusters {
                print(format_args!(
                    "export KUBECONFIG={}   # {}",
                    cluster.kubeconfig.display(),
                    cluster.name
                ));
            }
            return Ok(ExitCode::SUCCESS);
        }
        tokio::select! {
            () = sleep(LOOK) => {}
            _ = interrupts.recv() => {
                print("interrupted");
                let pid = nix::unistd::Pid::from_raw(i32::try_from(pid)?);
                // Fails only when it has ended already.
                let _ended = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
                child.wait().context("wait for the lab")?;
                show_more(&mut log)?;
                return Ok(ExitCode::from(130));
            }
        }
    }
}

/// Prints the new part of the log.
fn show_more(log: &mut File) -> Result<()> {
    let mut more = Vec::new();
    log.read_to_end(&mut more).context("read the lab's log")?;
    if !more.is_empty() {
        print(String::from_utf8_lossy(&more).trim_end());
    }
    Ok(())
}

/// The names of a lab's files in its directory, beside the clusters' directories.
pub(super) const OURS: [&str; 5] = [STATE, LOG, "etcd.log", "etcd-hub.log", "git-daemon.log"];
