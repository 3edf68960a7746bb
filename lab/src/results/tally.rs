//! Several results in one cell of a table.

use std::collections::BTreeMap;

use super::{Outcome, Test};

/// Results of some tests, counted.
#[derive(Debug, Default)]
pub(super) struct Tally {
    passed: usize,
    failed: Vec<String>,
    sometimes: Vec<String>,
    /// How many for each reason.
    not_run: BTreeMap<String, usize>,
}

impl Tally {
    /// Counts all of these.
    pub(super) fn of<'a>(tests: impl IntoIterator<Item = (&'a str, &'a Test)>) -> Self {
        let mut tally = Self::default();
        for (name, test) in tests {
            tally.add(name, test);
        }
        tally
    }

    /// Counts the result of the test with this name.
    pub(super) fn add(&mut self, name: &str, test: &Test) {
        match test.result {
            Outcome::Passed => self.passed += 1,
            Outcome::Failed => self.failed.push(label(name)),
            Outcome::Sometimes => self.sometimes.push(label(name)),
            Outcome::NotRun => self.add_absent(test.reason.as_deref().unwrap_or("no reason noted")),
        }
    }

    /// Counts a test of which there is no result, for a reason.
    pub(super) fn add_absent(&mut self, reason: &str) {
        *self.not_run.entry(reason.to_owned()).or_default() += 1;
    }

    const fn run(&self) -> usize {
        self.passed + self.failed.len() + self.sometimes.len()
    }

    /// `47 of 48 passed`, the names of the others, and the reasons of those that were not run.
    pub(super) fn counted(&self) -> String {
        let run = self.run();
        let mut parts = Vec::new();
        if run > 0 {
            parts.push(format!("{} of {run} passed", self.passed));
        }
        for (word, names) in [("failed", &self.failed), ("sometimes", &self.sometimes)] {
            if !names.is_empty() {
                parts.push(format!("{word}: {}", names.join(", ")));
            }
        }
        if !self.not_run.is_empty() {
            let reasons = self.not_run.iter();
            let reasons: Vec<_> = reasons
                .map(|(reason, count)| format!("{count} ({reason})"))
                .collect();
            parts.push(format!("not run: {}", reasons.join(", ")));
        }
        if parts.is_empty() {
            return "not run".to_owned();
        }
        parts.join("; ")
    }

    /// One word where that is enough.
    pub(super) fn brief(&self) -> String {
        let (run, is_complete) = (self.run(), self.not_run.is_empty());
        if is_complete && run > 0 && self.passed == run {
            "passed".to_owned()
        } else if is_complete && run == 1 && self.failed.len() == run {
            "failed".to_owned()
        } else if is_complete && run == 1 {
            "sometimes".to_owned()
        } else {
            self.counted()
        }
    }
}

/// A test in a table: its function, and its pairing of programs if it has one.
fn label(name: &str) -> String {
    let function = name.rsplit("::").next().unwrap_or(name);
    match super::pages::pairing(name) {
        Some(pairing) => format!("`{function}` ({pairing})"),
        None => format!("`{function}`"),
    }
}
