//! Long-running programs that the lab starts: their logs, and their end.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::{self, File},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::{
    process::{Child, Command},
    time::timeout,
};

/// How long a program may take to end when it is asked, before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// How many lines of a log a failure shows.
const SHOWN_LINES: usize = 30;

/// The command line, environment and log of a program.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its name in messages and of its log file.
    pub name: String,
    /// The executable.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its environment without `PATH` and `HOME`: the caller's environment must make no difference.
    pub environment: BTreeMap<String, OsString>,
    /// The file for standard output and error, appended at each start.
    pub log: PathBuf,
}

impl Program {
    /// A program that logs to `<dir>/<name>.log`.
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>, dir: &Path) -> Self {
        let name = name.into();
        let log = dir.join(format!("{name}.log"));
        Self {
            name,
            path: path.into(),
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            log,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds `--name=value`.
    #[must_use]
    pub fn flag(self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        let mut argument = OsString::from(format!("--{name}="));
        argument.push(value);
        self.arg(argument)
    }

    /// Sets a variable of the environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.insert(name.to_owned(), value.into());
        self
    }

    /// Starts it.
    pub fn start(self) -> Result<Process> {
        let child = self.spawn()?;
        Ok(Process {
            program: self,
            child: Some(child),
        })
    }

    fn spawn(&self) -> Result<Child> {
        if let Some(dir) = self.log.parent() {
            fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
        }
        let log = File::options().create(true).append(true).open(&self.log);
        let log = log.with_context(|| format!("open {}", self.log.display()))?;
        let mut command = std::process::Command::new(&self.path);
        command
            .args(&self.arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.log.parent().unwrap_or_else(|| Path::new("/")))
            .envs(&self.environment)
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("share the log")?)
            .stderr(log)
            // Ctrl-C at the terminal is for the lab, which ends its programs in order.
            .process_group(0);
        let mut command = Command::from(command);
        command.kill_on_drop(true);
        command
            .spawn()
            .with_context(|| format!("start {} ({})", self.name, self.path.display()))
    }
}

/// A running program. Dropping it ends it at once.
#[derive(Debug)]
pub struct Process {
    program: Program,
    child: Option<Child>,
}

impl Process {
    /// Its name in messages.
    pub fn name(&self) -> &str {
        &self.program.name
    }

    /// Its log file.
    pub fn log(&self) -> &Path {
        &self.program.log
    }

    /// The number of the process, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.child.as_ref().and_then(Child::id)
    }

    /// Fails if it has ended, with the end of its log.
    pub fn check(&mut self) -> Result<()> {
        let Some(child) = &mut self.child else {
            bail!("{} was stopped", self.program.name)
        };
        match child.try_wait().context("look after a child")? {
            None => Ok(()),
            Some(status) => bail!("{} ended: {status}\n{}", self.program.name, self.log_tail()),
        }
    }

    /// Asks it to end, and kills it if that takes too long. Waits until it is gone.
    pub async fn stop(&mut self) -> Option<ExitStatus> {
        let child = self.child.as_mut()?;
        if let Some(id) = child.id().and_then(|id| i32::try_from(id).ok()) {
            // Fails only when it has ended by itself.
            let _gone = kill(Pid::from_raw(id), Signal::SIGTERM);
        }
        let Ok(status) = timeout(GRACE, child.wait()).await else {
            tracing::debug!(program = self.program.name, "did not end when asked");
            return self.kill().await;
        };
        self.child = None;
        status.ok()
    }

    /// Kills it, like a crash. Waits until it is gone.
    pub async fn kill(&mut self) -> Option<ExitStatus> {
        let mut child = self.child.take()?;
        // Fails only when it has ended by itself.
        let _gone = child.start_kill();
        child.wait().await.ok()
    }

    /// Starts it again, with the same arguments, if it does not run.
    pub fn restart(&mut self) -> Result<()> {
        if self.check().is_err() {
            self.child = Some(self.program.spawn()?);
        }
        Ok(())
    }

    /// The last lines of its log.
    pub fn log_tail(&self) -> String {
        let text = fs::read(&self.program.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines
            .get(lines.len().saturating_sub(SHOWN_LINES)..)
            .unwrap_or_default()
            .join("\n")
    }
}
