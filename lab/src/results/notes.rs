//! The file to which processes of the test runner append a line for each test, if the caller names one.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::{Outcome, Peer, Test};
use crate::{e2e_test::E2eTest, peers::GO};

/// The variable with the path of the file.
pub(super) const VARIABLE: &str = "RESULTS";

/// A line of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Note {
    /// The test, by its name on the command line.
    pub(super) test: String,
    /// The variable that it needs.
    needs: Option<String>,
    /// How it ended.
    pub(super) result: Test,
}

impl Note {
    /// Whether it is a result with this peer: of the tests that run beside the Go argocd-agent, some run without it.
    pub(super) fn concerns(&self, peer: Peer) -> bool {
        peer != Peer::ArgocdAgent || self.needs.as_deref() == Some(GO)
    }
}

/// Notes that these tests are about to run: one that never ends stays so, and one without its requirement does not begin.
pub(crate) fn note_all<'a>(tests: impl Iterator<Item = &'a E2eTest>) -> Result<()> {
    let Some(path) = path() else {
        return Ok(());
    };
    for test in tests {
        let reason = test.obstacle().unwrap_or_else(|| "did not end".to_owned());
        let result = Test {
            result: Outcome::NotRun,
            seconds: 0,
            reason: Some(reason),
        };
        append(&path, test, result)?;
    }
    Ok(())
}

/// Notes the end of a test.
pub(crate) fn note_end(test: &E2eTest, passed: bool, took: Duration) -> Result<()> {
    let outcome = if passed {
        Outcome::Passed
    } else {
        Outcome::Failed
    };
    let result = Test {
        result: outcome,
        seconds: took.as_secs(),
        reason: None,
    };
    path().map_or(Ok(()), |path| append(&path, test, result))
}

fn path() -> Option<PathBuf> {
    let named = std::env::var_os(VARIABLE).filter(|path| !path.is_empty());
    named.map(PathBuf::from)
}

fn append(path: &Path, test: &E2eTest, result: Test) -> Result<()> {
    let note = Note {
        test: test.title(),
        needs: test.needs.map(str::to_owned),
        result,
    };
    let line = serde_json::to_string(&note).context("write a result")? + "\n";
    let file = File::options().create(true).append(true).open(path);
    let mut file = file.with_context(|| format!("open {}", path.display()))?;
    // In one piece: other processes append, too.
    file.write_all(line.as_bytes())
        .with_context(|| format!("write {}", path.display()))
}

/// Removes the notes of an earlier run.
pub(super) fn clear(path: &Path) -> Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).context("make the directory of the notes")?;
    }
    if path.exists() {
        fs::remove_file(path).with_context(|| format!("remove {}", path.display()))?;
    }
    Ok(())
}

/// All notes of a run; none if no test began.
pub(super) fn read(path: &Path) -> Result<Vec<Note>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let notes = text.lines().map(serde_json::from_str::<Note>);
    let notes: Result<Vec<_>, serde_json::Error> = notes.collect();
    notes.with_context(|| format!("read {}", path.display()))
}
