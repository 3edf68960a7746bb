//! Runs tests: selects them, orders them, starts labs, and reports failures.

use std::{
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::{
    runtime::{Handle, Runtime},
    signal::unix::{SignalKind, signal},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{E2eTest, TestGroup, parts};
use crate::{
    Lab, Options, Tools,
    namespaces::{self, EnterOptions, Entered},
    progress::Progress,
    world,
};

/// The bound of one test: longer than the work agent of real OCM takes to notice drift, which is six minutes, and
/// several times what any other test takes on two slow processors.
const BOUND: Duration = Duration::from_mins(12);

/// The main of a test runner: understands the arguments of Rust's test harness.
///
/// The parts run at the same time, each by a process of its own on labs of its own; one after the other with
/// `--test-threads=1`.
pub fn main(parts: Vec<Vec<TestGroup>>) -> ExitCode {
    lab_kubelet::maybe_become_container();
    namespaces::maybe_become_init();
    match run_parts(parts) {
        Ok(code) => code,
        Err(error) => {
            complain(format_args!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run_parts(mut parts: Vec<Vec<TestGroup>>) -> Result<ExitCode> {
    let mut arguments = Arguments::from_args();
    let part = parts::ours()?.filter(|part| *part < parts.len());
    let is_whole = part.is_none() && arguments.test_threads != Some(1);
    if is_whole && !arguments.list && !namespaces::are_ours() {
        Tools::ensure()?;
        return parts::run(parts.len());
    }
    let groups = match part {
        Some(part) => parts.swap_remove(part),
        None => parts.into_iter().flatten().collect(),
    };
    // Labs of one process use the same addresses.
    arguments.test_threads = Some(1);
    let e2e_tests = groups.iter().flat_map(|group| &group.e2e_tests);
    let trials: Vec<_> = e2e_tests
        .map(|e2e_test| trial(e2e_test, || Ok(())))
        .collect();
    let nothing_to_run = trials.iter().all(|trial| arguments.is_filtered_out(trial));
    if arguments.list || nothing_to_run {
        return Ok(libtest_mimic::run(&arguments, trials).exit_code());
    }
    // The supervisor builds: inside there is no network.
    if !namespaces::are_ours() {
        Tools::ensure()?;
    }
    match namespaces::enter(EnterOptions {
        ports: 0,
        follow_parent: true,
    })? {
        Entered::Ended(code) => Ok(code),
        Entered::Inside(_) => run_groups(&arguments, groups),
    }
}

fn run_groups(arguments: &Arguments, groups: Vec<TestGroup>) -> Result<ExitCode> {
    world::log_to(&namespaces::scratch().join("lab.log"))?;
    let runtime = Runtime::new().context("start a runtime")?;
    let stop = CancellationToken::new();
    let runner = Arc::new(Runner {
        runtime: runtime.handle().clone(),
        stop: stop.clone(),
        lab: Mutex::new(None),
    });
    let mut trials = Vec::new();
    for TestGroup {
        options,
        shared,
        e2e_tests,
    } in groups
    {
        for e2e_test in e2e_tests {
            let (runner, options) = (Arc::clone(&runner), options.clone());
            trials.push(trial(&e2e_test, move || {
                runner.run(e2e_test, &options, shared)
            }));
        }
    }
    let listen = runtime.block_on(async { signal(SignalKind::terminate()) });
    let mut terminated = listen.context("listen for signals")?;
    let listener = async move {
        terminated.recv().await;
        stop.cancel();
    };
    let _listener = runtime.spawn(listener);
    let conclusion = libtest_mimic::run(arguments, trials);
    // The last lab ends with the namespaces.
    Ok(conclusion.exit_code())
}

/// A test for the test harness: one with a missing requirement names it, and is ignored unless requested.
fn trial(e2e_test: &E2eTest, run: impl FnOnce() -> Result<(), Failed> + Send + 'static) -> Trial {
    let trial = Trial::test(e2e_test.title(), run);
    match e2e_test.is_missing() {
        None => trial,
        Some(variable) => trial
            .with_kind(format!("needs {variable}"))
            .with_ignored_flag(true),
    }
}

/// Runs one test after the other.
struct Runner {
    runtime: Handle,
    stop: CancellationToken,
    // The lab of the last test if it succeeded; taken out while a test runs.
    lab: Mutex<Option<Arc<Lab>>>,
}

impl Runner {
    fn run(&self, e2e_test: E2eTest, options: &Options, shared: bool) -> Result<(), Failed> {
        if self.stop.is_cancelled() {
            return Err("not run: interrupted".into());
        }
        let lab = self
            .lab(options, shared)
            .map_err(|error| Failed::from(format!("{error:#}")))?;
        let reply = self
            .runtime
            .block_on(self.listen(e2e_test, Arc::clone(&lab)));
        let Err(error) = reply else {
            if shared {
                *self.lab.lock().unwrap_or_else(PoisonError::into_inner) = Some(lab);
            } else {
                self.end(lab);
            }
            return Ok(());
        };
        let kept = world::directory(&e2e_test.title().replace("::", "."));
        let seen = self.runtime.block_on(world::keep(&lab, &kept));
        self.end(lab);
        let seen = seen.unwrap_or_else(|error| format!("it could not be kept: {error:#}"));
        // The error is last: the end of an output is what a log viewer keeps.
        Err(format!("the world ({}):\n{seen}\n\n{error:#}", kept.display()).into())
    }

    /// Runs a test to its end: in a task of its own, so that a panic is its failure and not ours.
    async fn listen(&self, e2e_test: E2eTest, lab: Arc<Lab>) -> Result<()> {
        let mut task = self.runtime.spawn((e2e_test.run)(lab));
        let reply = tokio::select! {
            reply = timeout(BOUND, &mut task) => reply,
            () = self.stop.cancelled() => {
                task.abort();
                bail!("interrupted");
            }
        };
        match reply {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => Err(anyhow!("{panic}")),
            Err(_) => {
                task.abort();
                bail!("not finished within {BOUND:?}");
            }
        }
    }

    /// The lab of the previous test if it has the same options; else a new one.
    fn lab(&self, options: &Options, shared: bool) -> Result<Arc<Lab>> {
        let last = self
            .lab
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        match last {
            Some(lab) if shared && lab.options() == options => return Ok(lab),
            Some(other) => self.end(other),
            None => {}
        }
        let dir = namespaces::scratch().join("lab");
        if dir.exists() {
            std::fs::remove_dir_all(&dir).context("clear the directory of the previous lab")?;
        }
        let mut progress = Progress::silent();
        let start = Lab::start(options.clone(), &dir, &[], &mut progress);
        let started = self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => Err(anyhow!("interrupted")),
                started = start => started,
            }
        });
        Ok(Arc::new(started.context("start a lab")?))
    }

    fn end(&self, lab: Arc<Lab>) {
        // A task that a test left running may still use the lab; then the lab ends with the task, or with this process.
        if let Some(lab) = Arc::into_inner(lab) {
            self.runtime.block_on(lab.stop());
        }
    }
}

fn complain(text: impl std::fmt::Display) {
    use std::io::Write;
    let _ignored = writeln!(std::io::stderr(), "lab: {text}");
}
