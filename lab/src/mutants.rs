//! Mutation testing: whether the tests notice small changes of the code that decides what is sent and written.
//!
//! A seed draws a sample of the mutants that cargo-mutants lists. The unit tests and the simulation judge each. A survivor is
//! either explained in `tests/mutants/survivors.yaml` or counts against the tests.

mod sample;
mod verdict;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    progress::print,
    tools::{self, workspace},
};
use sample::{digest, drawn, escaped};
use verdict::{Explained, Outcome, Verdict, parse, stale, written};

/// The files with the mutants.
const FILES: [&str; 6] = [
    "principal/src/sync/hub.rs",
    "principal/src/sync/hub/**/*.rs",
    "principal/src/sync/session.rs",
    "principal/src/sync/session/**/*.rs",
    "agent/src/sync/replica.rs",
    "agent/src/sync/replica/**/*.rs",
];

/// The packages whose tests judge a mutant, and which of their tests do.
const JUDGES: [&str; 6] = [
    "--test-package=principal",
    "--test-package=agent",
    "--test-package=tests",
    "--cargo-arg=--locked",
    "--cargo-arg=--lib",
    "--cargo-arg=--test=simulation",
];

/// For the test programs: histories of the hub program without the principal run none of the code with the mutants.
const SKIPPED: [&str; 3] = ["--", "--", "--skip=of_the_manager"];

/// The survivors with a reason.
const EXPLAINED: &str = "tests/mutants/survivors.yaml";

/// Files of cargo-mutants with names of mutants, by their outcome. A mutant that never ends is noticed, too.
const OUTCOMES: [(&str, Outcome); 4] = [
    ("missed.txt", Outcome::Survived),
    ("caught.txt", Outcome::Caught),
    ("timeout.txt", Outcome::Caught),
    ("unviable.txt", Outcome::Unviable),
];

/// Which mutants are tested.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The seed that draws the sample.
    pub seed: u64,
    /// The size of the sample.
    pub sample: usize,
}

/// Tests the mutants of the sample that no earlier run finished, and judges all of them.
pub fn run(request: &Request) -> Result<ExitCode> {
    let program = tools::cargo_mutants()?;
    let listed = list(&program)?;
    let sample = drawn(&listed, request.seed, request.sample);
    ensure!(!sample.is_empty(), "there are no mutants in {FILES:?}");
    let explained = explained()?;
    let stale = stale(&explained, &listed);
    ensure!(
        stale.is_empty(),
        "{EXPLAINED} has mutants that do not exist, remove them:\n  {}",
        stale.join("\n  ")
    );
    // Results are of exactly these sources: a change of them moves or renames mutants.
    let dir = workspace().join("target/mutants").join(digest(&listed));
    let results = test(&program, &dir, &sample, &explained)?;
    let verdict = Verdict::of(&sample, &results, &explained);
    print(&verdict);
    print(format_args!("all results: {}", results_of(&dir).display()));
    Ok(if verdict.is_met() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn list(program: &Path) -> Result<Vec<String>> {
    let mut command = command(program);
    let text = tools::output(command.args(["--list", "--colors=never"]))?;
    Ok(text.lines().map(str::to_owned).collect())
}

fn explained() -> Result<Vec<Explained>> {
    let text = fs::read_to_string(workspace().join(EXPLAINED));
    let text = text.with_context(|| format!("read {EXPLAINED}"))?;
    let explained: Vec<Explained> =
        serde_saphyr::from_str(&text).with_context(|| format!("read {EXPLAINED}"))?;
    for entry in &explained {
        ensure!(
            !entry.reason.trim().is_empty(),
            "{EXPLAINED}: {} has no reason",
            entry.mutant
        );
    }
    Ok(explained)
}

/// The results of this and earlier runs, in a file of the directory. Survivors without an explanation are tested again: there
/// may be new tests.
fn test(
    program: &Path,
    dir: &Path,
    sample: &[String],
    explained: &[Explained],
) -> Result<BTreeMap<String, Outcome>> {
    fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
    let path = results_of(dir);
    let mut results = parse(&read(&path)?);
    // Of a run that was interrupted.
    collect(dir, &mut results)?;
    fs::write(&path, written(&results)).context("write results of mutants")?;
    let remaining: Vec<&String> = sample
        .iter()
        .filter(|mutant| match results.get(*mutant) {
            None => true,
            Some(Outcome::Survived) => !explained.iter().any(|entry| entry.is_of(mutant)),
            Some(Outcome::Caught | Outcome::Unviable) => false,
        })
        .collect();
    if remaining.is_empty() {
        return Ok(results);
    }
    print(format_args!("testing {} mutants", remaining.len()));
    let names = remaining.iter().map(|it| format!("--re=^{}$", escaped(it)));
    let status = command(program)
        .args(JUDGES)
        .arg("--output")
        .arg(dir)
        .args(names)
        .args(SKIPPED)
        .status()
        .context("start cargo-mutants")?;
    collect(dir, &mut results)?;
    fs::write(&path, written(&results)).context("write results of mutants")?;
    // All caught, some missed, some timed out.
    if !matches!(status.code(), Some(0 | 2 | 3)) {
        bail!("cargo-mutants: {status}; the next run continues here");
    }
    Ok(results)
}

fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(workspace()).arg("mutants");
    for file in FILES {
        command.args(["--file", file]);
    }
    command
}

fn results_of(dir: &Path) -> PathBuf {
    dir.join("results.txt")
}

/// Adds the results of the last run of cargo-mutants.
fn collect(dir: &Path, results: &mut BTreeMap<String, Outcome>) -> Result<()> {
    for (file, outcome) in OUTCOMES {
        let names = read(&dir.join("mutants.out").join(file))?;
        results.extend(names.lines().map(|name| (name.to_owned(), outcome)));
    }
    Ok(())
}

/// The text of a file, empty if there is none.
fn read(path: &Path) -> Result<String> {
    if !path.exists() {
        return Ok(String::new());
    }
    fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
}
