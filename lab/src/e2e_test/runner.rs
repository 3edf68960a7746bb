//! Runs tests: selects them, orders them, starts labs, and reports failures.

use std::{
    env,
    num::NonZero,
    path::Path,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    thread::available_parallelism,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::{
    runtime::{Handle, Runtime},
    signal::unix::{SignalKind, signal},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    E2eTest, TestGroup,
    durations::{self, Durations},
    lowest, parts,
};
use crate::{
    Lab, Tools,
    namespaces::{self, EnterOptions, Entered},
    progress::Progress,
    results, world,
};

/// The bound of one test: longer than the work agent of real OCM takes to notice drift, which is six minutes, and
/// several times what any other test takes on two slow processors.
const BOUND: Duration = Duration::from_mins(12);

/// The most parts that run at the same time: each has control planes of its own, which need memory.
const MOST_PARTS: usize = 6;

/// The variable with the path of the table of durations that a run rewrites.
const RECORD: &str = "LAB_DURATIONS";

/// The main of a test runner: understands the arguments of Rust's test harness.
///
/// Several parts of the groups run at the same time, each by a process of its own on labs of its own; all groups one
/// after the other with `--test-threads=1`. `durations` is the table that balances the parts.
pub fn main(groups: Vec<TestGroup>, durations: &str) -> ExitCode {
    lab_kubelet::maybe_become_container();
    namespaces::maybe_become_init();
    match run_parts(groups, durations) {
        Ok(code) => code,
        Err(error) => {
            complain(format_args!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run_parts(groups: Vec<TestGroup>, durations: &str) -> Result<ExitCode> {
    let durations = Durations::parse(durations)?;
    lowest::check(&groups)?;
    let mut arguments = Arguments::from_args();
    let count = count_for(available_parallelism().map_or(1, NonZero::get));
    let part = parts::ours()?.filter(|part| *part < count);
    let is_whole = part.is_none() && arguments.test_threads != Some(1);
    if is_whole && !arguments.list && !namespaces::are_ours() {
        Tools::ensure()?;
        return parts::run(count);
    }
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
        Entered::Inside(_) => {
            let groups = durations::divide(groups);
            let names: Vec<String> = groups.iter().map(TestGroup::name).collect();
            let ours = match part {
                Some(part) => durations.part(groups, part, count, |it| is_selected(&arguments, it)),
                None => groups,
            };
            run_groups(&arguments, &ours, &names)
        }
    }
}

/// How many parts run at the same time: one more than processors, because about half of the time a test waits.
fn count_for(processors: usize) -> usize {
    processors.saturating_add(1).min(MOST_PARTS)
}

/// Whether the arguments select a test by its name.
fn is_selected(arguments: &Arguments, e2e_test: &E2eTest) -> bool {
    !arguments.is_filtered_out(&trial(e2e_test, || Ok(())))
}

/// Runs groups; `names` are those of all groups, also of the other part.
fn run_groups(arguments: &Arguments, groups: &[TestGroup], names: &[String]) -> Result<ExitCode> {
    world::log_to(&namespaces::scratch().join("lab.log"))?;
    let e2e_tests = groups.iter().flat_map(|group| &group.e2e_tests);
    results::note_all(e2e_tests.filter(|it| is_selected(arguments, it)))?;
    let runtime = Runtime::new().context("start a runtime")?;
    let stop = CancellationToken::new();
    let runner = Arc::new(Runner {
        runtime: runtime.handle().clone(),
        stop: stop.clone(),
        lab: Mutex::new(None),
        passed: Mutex::new(Vec::new()),
    });
    let mut trials = Vec::new();
    for group in groups {
        let shared = Arc::new(group.clone());
        for e2e_test in group.e2e_tests.iter().copied() {
            let (runner, group) = (Arc::clone(&runner), Arc::clone(&shared));
            let run = move || runner.run_and_note(e2e_test, &group);
            trials.push(trial(&e2e_test, run));
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
    if let Some(table) = env::var_os(RECORD).filter(|path| !path.is_empty()) {
        let passed = runner.passed.lock().unwrap_or_else(PoisonError::into_inner);
        let new = durations::of_complete(groups, &passed);
        durations::save(Path::new(&table), &new, names).context(RECORD)?;
    }
    // The last lab ends with the namespaces.
    Ok(conclusion.exit_code())
}

/// A test for the test harness: one with a missing requirement names it, and is ignored unless requested.
fn trial(e2e_test: &E2eTest, run: impl FnOnce() -> Result<(), Failed> + Send + 'static) -> Trial {
    let trial = Trial::test(e2e_test.title(), run);
    match e2e_test.obstacle() {
        None => trial,
        Some(reason) => trial.with_kind(reason).with_ignored_flag(true),
    }
}

/// Runs one test after the other.
struct Runner {
    runtime: Handle,
    stop: CancellationToken,
    // The lab of the last test if it succeeded, and its group; taken out while a test runs.
    lab: Mutex<Option<(Arc<TestGroup>, Arc<Lab>)>>,
    // The tests that succeeded: their groups, and how long each took with the start of its lab.
    passed: Mutex<Vec<(String, Duration)>>,
}

impl Runner {
    /// Runs a test, and notes its end for the results. An interrupted one has none.
    fn run_and_note(&self, e2e_test: E2eTest, group: &Arc<TestGroup>) -> Result<(), Failed> {
        let began = Instant::now();
        let result = self.run(e2e_test, group);
        if self.stop.is_cancelled() {
            return result;
        }
        let took = began.elapsed();
        let noted = results::note_end(&e2e_test, result.is_ok(), took);
        result?;
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        passed.push((group.name(), took));
        drop(passed);
        noted.map_err(|error| Failed::from(format!("{error:#}")))
    }

    fn run(&self, e2e_test: E2eTest, group: &Arc<TestGroup>) -> Result<(), Failed> {
        if self.stop.is_cancelled() {
            return Err("not run: interrupted".into());
        }
        let lab = self
            .lab(group)
            .map_err(|error| Failed::from(format!("{error:#}")))?;
        let reply = self
            .runtime
            .block_on(self.listen(e2e_test, Arc::clone(&lab)));
        let Err(error) = reply else {
            if group.shared {
                let kept = Some((Arc::clone(group), lab));
                *self.lab.lock().unwrap_or_else(PoisonError::into_inner) = kept;
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

    /// The lab of the previous test if that is of the same group; else a new one.
    fn lab(&self, group: &Arc<TestGroup>) -> Result<Arc<Lab>> {
        let last = self
            .lab
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        match last {
            Some((of, lab)) if group.shared && Arc::ptr_eq(&of, group) => return Ok(lab),
            Some((_, other)) => self.end(other),
            None => {}
        }
        let dir = namespaces::scratch().join("lab");
        if dir.exists() {
            std::fs::remove_dir_all(&dir).context("clear the directory of the previous lab")?;
        }
        let mut progress = Progress::silent();
        let start = Lab::start(group.options.clone(), &dir, &[], &mut progress);
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
