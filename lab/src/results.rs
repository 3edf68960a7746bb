//! Results of end-to-end tests with programs of other projects: files in `docs/results`, and the tables on pages made of them.
//!
//! The test runner notes each test, `lab results` makes a [`Record`] of the notes, and [`rendered`] makes the tables.
//! A rule test compares the pages with the records.

mod notes;
mod pages;
mod run;
mod tally;
mod versions;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::tools::workspace;

pub(crate) use notes::{note_all, note_end};
pub use pages::{PAGES, by_hand, rendered};
pub use run::{Request, run};

/// The file with the versions that are wanted, beside the records.
const WANTED: &str = "wanted.json";

/// A project whose programs the tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Peer {
    /// Kubernetes: its API server and its controller manager.
    Kubernetes,
    /// Open Cluster Management.
    Ocm,
    /// Argo CD.
    Argocd,
    /// The Go argocd-agent.
    ArgocdAgent,
    /// The command of Open Cluster Management.
    Clusteradm,
}

impl Peer {
    /// Its name in files and in comments of pages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kubernetes => "kubernetes",
            Self::Ocm => "ocm",
            Self::Argocd => "argocd",
            Self::ArgocdAgent => "argocd-agent",
            Self::Clusteradm => "clusteradm",
        }
    }

    /// Its name in tables.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Kubernetes => "Kubernetes",
            Self::Ocm => "Open Cluster Management",
            Self::Argocd => "Argo CD",
            Self::ArgocdAgent => "argocd-agent (Go)",
            Self::Clusteradm => "clusteradm",
        }
    }

    fn named(name: &str) -> Option<Self> {
        let mut all = Self::value_variants().iter().copied();
        all.find(|peer| peer.name() == name)
    }
}

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It passed, each time.
    Passed,
    /// It failed, each time.
    Failed,
    /// Of several runs of one commit, some failed.
    Sometimes,
    /// It did not come to its end, or lacks a requirement.
    NotRun,
}

impl Outcome {
    /// The result of two runs.
    const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::NotRun, known) | (known, Self::NotRun) => known,
            (Self::Passed, Self::Passed) => Self::Passed,
            (Self::Failed, Self::Failed) => Self::Failed,
            _ => Self::Sometimes,
        }
    }
}

/// The result of one test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// How it ended.
    pub result: Outcome,
    /// How long it took, with the start of its lab if it needed a new one.
    pub seconds: u64,
    /// Why it was not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Test {
    /// This and a result of the same test.
    fn and(self, other: Self) -> Self {
        let result = self.result.and(other.result);
        let reason = self.reason.or(other.reason);
        Self {
            result,
            seconds: self.seconds.max(other.seconds),
            reason: reason.filter(|_| result == Outcome::NotRun),
        }
    }
}

/// Adds a result to those of other tests, and to an earlier one of the same test.
fn add(tests: &mut BTreeMap<String, Test>, name: String, test: Test) {
    let whole = match tests.remove(&name) {
        Some(earlier) => earlier.and(test),
        None => test,
    };
    tests.insert(name, whole);
}

/// The results with one version of a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The peer.
    pub peer: Peer,
    /// Its version.
    pub version: String,
    /// Versions of other peers in these runs.
    pub with: BTreeMap<Peer, String>,
    /// Our version.
    pub release: String,
    /// Our commit.
    pub commit: String,
    /// The day of the last run, in UTC.
    pub date: String,
    /// The tests, by their names on the command line.
    pub tests: BTreeMap<String, Test>,
}

impl Record {
    /// The name of its file.
    pub fn file_name(&self) -> String {
        format!("{}-{}.json", self.peer.name(), self.version)
    }

    /// The content of its file: JSON, with a line for each test.
    pub fn text(&self) -> Result<String> {
        let head = Self {
            tests: BTreeMap::new(),
            ..self.clone()
        };
        let head = serde_json::to_string_pretty(&head).context("write a record")?;
        let line = |(name, test): (&String, &Test)| -> Result<String> {
            let (name, test) = (serde_json::to_string(name)?, serde_json::to_string(test)?);
            Ok(format!("    {name}: {test}"))
        };
        let tests: Vec<String> = self.tests.iter().map(line).collect::<Result<_>>()?;
        let tests = tests.join(",\n");
        let filled = format!("\"tests\": {{\n{tests}\n  }}");
        Ok(head.replace("\"tests\": {}", &filled) + "\n")
    }

    /// With an earlier record of this version: a run of the same commit with the same programs is added to it, another one replaces it.
    fn merged(mut self, earlier: Option<Self>) -> Self {
        let same = |it: &Self| it.commit == self.commit && it.with == self.with;
        let Some(earlier) = earlier.filter(same) else {
            return self;
        };
        for (name, before) in earlier.tests {
            add(&mut self.tests, name, before);
        }
        self
    }

    /// Writes it into its file, after merging it with that.
    fn save(self, directory: &Path) -> Result<()> {
        fs::create_dir_all(directory).context("make the directory of the results")?;
        let path = directory.join(self.file_name());
        let earlier = if path.exists() {
            Some(parsed(&path)?)
        } else {
            None
        };
        let text = self.merged(earlier).text()?;
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))
    }
}

/// A version that users ask for, without a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// The peer.
    pub peer: Peer,
    /// Its version, or the start of one: `v1.34` stands for every patch release.
    pub version: String,
    /// Why it was not run.
    pub reason: String,
}

impl Wanted {
    /// Whether this record fulfils it. A build between two releases, such as `v1.3.0-78-g00f84c32b`, is neither of them.
    pub fn is_fulfilled_by(&self, record: &Record) -> bool {
        let is_release = |rest: &str| {
            let numbers = rest.chars().all(|c| c.is_ascii_digit() || c == '.');
            numbers && (rest.is_empty() || rest.starts_with('.'))
        };
        let rest = record.version.strip_prefix(&self.version);
        record.peer == self.peer && rest.is_some_and(is_release)
    }
}

/// All records, and the versions that are wanted.
#[derive(Clone, Debug, Default)]
pub struct Store {
    /// By peer and version.
    pub records: Vec<Record>,
    /// In the order of their file.
    pub wanted: Vec<Wanted>,
}

impl Store {
    /// Reads the results of this source tree; without any it is empty.
    pub fn load() -> Result<Self> {
        Self::load_from(&directory())
    }

    fn load_from(directory: &Path) -> Result<Self> {
        let mut store = Self::default();
        if !directory.exists() {
            return Ok(store);
        }
        for entry in fs::read_dir(directory).context("list the results")? {
            let path = entry.context("list the results")?.path();
            if path.file_name().is_some_and(|name| name == WANTED) {
                store.wanted = parsed(&path)?;
            } else if path.extension().is_some_and(|it| it == "json") {
                store.records.push(parsed(&path)?);
            }
        }
        let order = |it: &Record| (it.peer, numbers(&it.version), it.version.clone());
        store.records.sort_by_cached_key(order);
        Ok(store)
    }

    /// The records of a peer, oldest version first.
    fn of(&self, peer: Peer) -> Vec<&Record> {
        let records = self.records.iter();
        records.filter(|it| it.peer == peer).collect()
    }

    /// The wanted versions of a peer without a record.
    fn missing(&self, peer: Peer) -> Vec<&Wanted> {
        let is_missing = |it: &&Wanted| !self.records.iter().any(|done| it.is_fulfilled_by(done));
        let wanted = self.wanted.iter().filter(|it| it.peer == peer);
        wanted.filter(is_missing).collect()
    }
}

/// Where the records are.
pub fn directory() -> PathBuf {
    workspace().join("docs/results")
}

fn parsed<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("read {}", path.display()))
}

/// The numbers in a version, so that v1.9 precedes v1.10.
fn numbers(version: &str) -> Vec<u64> {
    let parts = version.split(|c: char| !c.is_ascii_digit());
    parts.filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests;
