//! The outcomes of mutants, and the judgement of a sample.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
};

use serde::Deserialize;

/// The bound of survivors without an explanation, in per cent of the mutants that compile.
const BOUND: usize = 5;

/// How the tests of a mutant ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A test failed.
    Caught,
    /// No test failed.
    Survived,
    /// It does not compile.
    Unviable,
}

impl Outcome {
    const ALL: [Self; 3] = [Self::Caught, Self::Survived, Self::Unviable];

    const fn name(self) -> &'static str {
        match self {
            Self::Caught => "caught",
            Self::Survived => "survived",
            Self::Unviable => "unviable",
        }
    }
}

/// A survivor that may be.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Explained {
    /// The name of the mutant, without line and column.
    pub(super) mutant: String,
    /// Why no test can or has to notice it.
    pub(super) reason: String,
}

impl Explained {
    /// Whether it is about this mutant.
    pub(super) fn is_of(&self, name: &str) -> bool {
        plain(name) == self.mutant
    }
}

/// Lines of an outcome and a mutant; others are skipped.
pub(super) fn parse(text: &str) -> BTreeMap<String, Outcome> {
    let entry = |line: &str| {
        let (outcome, name) = line.split_once(' ')?;
        let outcome = Outcome::ALL.into_iter().find(|it| it.name() == outcome)?;
        Some((name.to_owned(), outcome))
    };
    text.lines().filter_map(entry).collect()
}

/// The lines that [`parse`] reads.
pub(super) fn written(results: &BTreeMap<String, Outcome>) -> String {
    let mut text = String::new();
    for (name, outcome) in results {
        text.push_str(outcome.name());
        text.push(' ');
        text.push_str(name);
        text.push('\n');
    }
    text
}

/// Explanations of mutants that are not in the list.
pub(super) fn stale(explained: &[Explained], listed: &[String]) -> Vec<String> {
    explained
        .iter()
        .filter(|entry| !listed.iter().any(|name| entry.is_of(name)))
        .map(|entry| entry.mutant.clone())
        .collect()
}

/// `file:12:5: change` without line and column.
fn plain(name: &str) -> String {
    let Some((place, change)) = name.split_once(": ") else {
        return name.to_owned();
    };
    let file = place.split(':').next().unwrap_or(place);
    format!("{file}: {change}")
}

/// The judgement of a sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    caught: usize,
    unviable: usize,
    explained: usize,
    unexplained: Vec<String>,
    untested: usize,
}

impl Verdict {
    pub(super) fn of(
        sample: &[String],
        results: &BTreeMap<String, Outcome>,
        explained: &[Explained],
    ) -> Self {
        let mut verdict = Self::default();
        for mutant in sample {
            match results.get(mutant) {
                None => verdict.untested += 1,
                Some(Outcome::Caught) => verdict.caught += 1,
                Some(Outcome::Unviable) => verdict.unviable += 1,
                Some(Outcome::Survived) if explained.iter().any(|it| it.is_of(mutant)) => {
                    verdict.explained += 1;
                }
                Some(Outcome::Survived) => verdict.unexplained.push(mutant.clone()),
            }
        }
        verdict
    }

    /// Whether all mutants were tested and few enough survived without an explanation.
    pub(super) const fn is_met(&self) -> bool {
        let unexplained = self.unexplained.len();
        let viable = self.caught + self.explained + unexplained;
        self.untested == 0 && unexplained * 100 <= viable * BOUND
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = String::new();
        for mutant in &self.unexplained {
            write!(lines, "\n  {mutant}")?;
        }
        write!(
            f,
            "caught {}, do not compile {}, survived with an explanation {}, not tested {}, survived {} (at most {BOUND} %){lines}",
            self.caught,
            self.unviable,
            self.explained,
            self.untested,
            self.unexplained.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(outcome: &str, count: usize) -> Vec<String> {
        let name = |line| format!("hub.rs:{line}:5: replace {outcome} with ()");
        (0..count).map(name).collect()
    }

    fn explained(mutant: &str) -> Explained {
        Explained {
            mutant: mutant.to_owned(),
            reason: "equal".to_owned(),
        }
    }

    /// The verdict of a sample with as many caught mutants, survivors, and mutants that do not compile.
    fn verdict(caught: usize, survived: usize, unviable: usize, known: &[Explained]) -> Verdict {
        let mut sample = Vec::new();
        let mut results = BTreeMap::new();
        for (outcome, count) in Outcome::ALL.into_iter().zip([caught, survived, unviable]) {
            let names = names(outcome.name(), count);
            results.extend(names.iter().map(|name| (name.clone(), outcome)));
            sample.extend(names);
        }
        Verdict::of(&sample, &results, known)
    }

    #[test]
    fn survivors_are_bounded() {
        for (caught, survived, unviable, met) in [
            (0, 0, 0, true),
            (95, 5, 0, true),
            (94, 6, 0, false),
            // Mutants that do not compile prove nothing.
            (90, 5, 5, false),
            (0, 1, 0, false),
        ] {
            let verdict = verdict(caught, survived, unviable, &[]);
            assert_eq!(verdict.is_met(), met, "{verdict}");
        }
    }

    #[test]
    fn an_explained_survivor_does_not_count() {
        let known = [explained("hub.rs: replace survived with ()")];
        let verdict = verdict(1, 1, 0, &known);
        assert!(verdict.is_met(), "{verdict}");
        assert_eq!(verdict.explained, 1);
    }

    #[test]
    fn an_untested_mutant_is_not_a_success() {
        let verdict = Verdict::of(&names("x", 1), &BTreeMap::new(), &[]);
        assert!(!verdict.is_met());
    }

    #[test]
    fn survivors_are_named() {
        let text = verdict(0, 1, 0, &[]).to_string();
        assert!(
            text.ends_with("\n  hub.rs:0:5: replace survived with ()"),
            "{text}"
        );
    }

    #[test]
    fn stale_explanations_are_found() {
        let known = [
            explained("hub.rs: replace x with ()"),
            explained("hub.rs: gone"),
        ];
        assert_eq!(stale(&known, &names("x", 2)), ["hub.rs: gone"]);
    }

    #[test]
    fn results_survive_a_restart() {
        let results = BTreeMap::from([
            ("a.rs:1:2: replace f with ()".to_owned(), Outcome::Survived),
            (
                "b.rs:1:2: replace || with && in g".to_owned(),
                Outcome::Caught,
            ),
        ]);
        assert_eq!(parse(&written(&results)), results);
        assert!(parse("nonsense\nmoved b.rs:1:2: x\n\n").is_empty());
    }
}
