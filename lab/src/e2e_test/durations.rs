//! Recorded durations of groups, and the division of all groups into parts that end at about the same time.
//!
//! Each process computes the same division from the same table, so nothing passes between them that could be lost.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    fmt::Write as _,
    fs::{self, File},
    path::Path,
    time::Duration,
};

use anyhow::{Context, Result};

use super::{E2eTest, TestGroup};

/// The estimate for a group that the table does not have, in seconds: the start of its lab, and each of its tests.
const LAB: u64 = 40;
const TEST: u64 = 10;

/// Seconds that groups take, by their names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Durations(BTreeMap<String, u64>);

impl Durations {
    /// Parses lines of seconds and the name of a group; a line with `#` is a comment.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let lines = text.lines().map(str::trim);
        lines
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(entry)
            .collect::<Result<_>>()
            .map(Self)
    }

    /// The groups of one of several parts, in their order. Only tests that `is_selected` count for the balance.
    pub(super) fn part(
        &self,
        groups: Vec<TestGroup>,
        part: usize,
        parts: usize,
        is_selected: impl Fn(&E2eTest) -> bool,
    ) -> Vec<TestGroup> {
        let weights: Vec<u64> = groups
            .iter()
            .map(|group| {
                let tests = &group.e2e_tests;
                let selected = tests.iter().filter(|it| is_selected(it)).count();
                let share = self.seconds(group).saturating_mul(number(selected));
                share.checked_div(number(tests.len())).unwrap_or_default()
            })
            .collect();
        let ours = groups.into_iter().zip(balance(&weights, parts));
        ours.filter(|(_, of)| *of == part)
            .map(|(group, _)| group)
            .collect()
    }

    fn seconds(&self, group: &TestGroup) -> u64 {
        let estimate = || LAB.saturating_add(TEST.saturating_mul(number(group.e2e_tests.len())));
        let recorded = self.0.get(&group.name()).copied();
        recorded.unwrap_or_else(estimate)
    }
}

/// Writes new durations into the table at this path; lines of groups that are not `known` go.
///
/// The other parts do the same at about the same time, hence the lock.
pub(super) fn save(path: &Path, new: &BTreeMap<String, u64>, known: &[String]) -> Result<()> {
    let shown = path.display();
    let lock = File::open(path).with_context(|| format!("open {shown}"))?;
    lock.lock().with_context(|| format!("lock {shown}"))?;
    let text = fs::read_to_string(path).with_context(|| format!("read {shown}"))?;
    fs::write(path, rewritten(&text, new, known)?).with_context(|| format!("write {shown}"))
}

/// The seconds of the groups of which every test passed; `passed` has the group and the duration of each such test.
pub(super) fn of_complete(
    groups: &[TestGroup],
    passed: &[(String, Duration)],
) -> BTreeMap<String, u64> {
    let mut complete = BTreeMap::new();
    for group in groups {
        let name = group.name();
        let own: Vec<Duration> = passed
            .iter()
            .filter(|(of, _)| *of == name)
            .map(|(_, took)| *took)
            .collect();
        let can_run = group.e2e_tests.iter().filter(|it| it.obstacle().is_none());
        if !own.is_empty() && own.len() >= can_run.count() {
            let total: Duration = own.iter().sum();
            complete.insert(name, total.as_secs().max(1));
        }
    }
    complete
}

/// Groups that can run apart: of tests that each get a lab to themselves, each is a group.
pub(super) fn divide(groups: Vec<TestGroup>) -> Vec<TestGroup> {
    let divided = groups.into_iter().flat_map(|group| {
        if group.shared {
            return vec![group];
        }
        let TestGroup {
            options, e2e_tests, ..
        } = group;
        let alone = |it| TestGroup::alone(options.clone(), vec![it]);
        e2e_tests.into_iter().map(alone).collect()
    });
    divided.collect()
}

fn entry(line: &str) -> Result<(String, u64)> {
    let words = line.split_once(' ');
    let entry = words.and_then(|(seconds, group)| {
        let seconds = seconds.parse().ok()?;
        Some((group.trim().to_owned(), seconds))
    });
    entry.with_context(|| {
        format!("durations of end-to-end tests: {line:?} is not a number of seconds and a test")
    })
}

/// The part of each weight: the largest first, each to the part with the least so far.
fn balance(weights: &[u64], parts: usize) -> Vec<usize> {
    let mut largest_first: Vec<(usize, u64)> = weights.iter().copied().enumerate().collect();
    largest_first.sort_by_key(|(_, weight)| Reverse(*weight));
    let mut sums = vec![0_u64; parts];
    let mut assigned = vec![0_usize; weights.len()];
    for (index, weight) in largest_first {
        let least = sums.iter_mut().enumerate().min_by_key(|(_, sum)| **sum);
        if let (Some((part, sum)), Some(slot)) = (least, assigned.get_mut(index)) {
            *sum = sum.saturating_add(weight);
            *slot = part;
        }
    }
    assigned
}

fn rewritten(text: &str, new: &BTreeMap<String, u64>, known: &[String]) -> Result<String> {
    let Durations(mut all) = Durations::parse(text)?;
    all.extend(new.iter().map(|(name, seconds)| (name.clone(), *seconds)));
    all.retain(|name, _| known.contains(name));
    let mut rewritten = String::new();
    for comment in text.lines().filter(|line| line.starts_with('#')) {
        writeln!(rewritten, "{comment}")?;
    }
    for (name, seconds) in all {
        writeln!(rewritten, "{seconds:>4} {name}")?;
    }
    Ok(rewritten)
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

    const TABLE: &str = "# seconds\n 500 a::first\n\n  30 b::only\n";

    fn named(name: &'static str) -> E2eTest {
        E2eTest {
            name,
            needs: None,
            run: |_| Box::pin(async { Ok(()) }),
        }
    }

    fn shared(names: &[&'static str]) -> TestGroup {
        let e2e_tests = names.iter().copied().map(named).collect();
        TestGroup::shared(Options::control_planes(1), e2e_tests)
    }

    fn names(groups: &[TestGroup]) -> Vec<String> {
        groups.iter().map(TestGroup::name).collect()
    }

    #[test]
    fn a_table_is_parsed() {
        let Durations(table) = Durations::parse(TABLE).unwrap();
        assert_eq!(table.get("a::first"), Some(&500));
        assert_eq!(table.get("b::only"), Some(&30));
        assert_eq!(table.len(), 2);
        for wrong in ["x a::first", "500", "-1 a::first", "a::first 500"] {
            let error = Durations::parse(wrong).unwrap_err();
            assert!(error.to_string().contains(wrong), "{error}");
        }
    }

    #[test]
    fn parts_have_similar_sums() {
        let cases: [(&[u64], &[usize]); 5] = [
            (&[], &[]),
            (&[5], &[0]),
            (&[0, 0, 7], &[1, 1, 0]),
            (&[1, 5, 3, 3], &[0, 0, 1, 1]),
            (&[500, 300, 100, 90], &[0, 1, 1, 1]),
        ];
        for (weights, expected) in cases {
            assert_eq!(balance(weights, 2), expected, "{weights:?}");
        }
    }

    #[test]
    fn each_group_is_in_exactly_one_part() {
        let groups = || {
            vec![
                shared(&["b::only"]),
                shared(&["a::first", "a::next"]),
                shared(&["c::new"]),
            ]
        };
        let table = Durations::parse(TABLE).unwrap();
        let part = |part| names(&table.part(groups(), part, 2, |_| true));
        assert_eq!(part(0), ["a::first"]);
        assert_eq!(part(1), ["b::only", "c::new"]);
    }

    #[test]
    fn only_selected_tests_have_weight() {
        let groups = vec![
            shared(&["a::first"]),
            shared(&["b::only"]),
            shared(&["c::new"]),
        ];
        let table = Durations::parse(TABLE).unwrap();
        let selected = |it: &E2eTest| !it.name.starts_with('a');
        let first = table.part(groups, 0, 2, selected);
        assert_eq!(names(&first), ["c::new"]);
    }

    #[test]
    fn tests_with_labs_of_their_own_are_divided() {
        let alone = TestGroup::alone(
            Options::control_planes(0),
            vec![named("a::first"), named("a::next")],
        );
        let divided = divide(vec![alone, shared(&["b::only", "b::next"])]);
        assert_eq!(names(&divided), ["a::first", "a::next", "b::only"]);
        assert!(
            divided
                .iter()
                .all(|group| group.shared == (group.name() == "b::only"))
        );
    }

    #[test]
    fn incomplete_groups_are_not_recorded() {
        let groups = [
            shared(&["a::first", "a::next"]),
            shared(&["b::only", "b::next"]),
        ];
        let took = |name: &str, seconds| (name.to_owned(), Duration::from_secs(seconds));
        let passed = [
            took("a::first", 20),
            took("b::only", 5),
            took("a::first", 30),
        ];
        let complete = of_complete(&groups, &passed);
        assert_eq!(complete, BTreeMap::from([("a::first".to_owned(), 50)]));
    }

    #[test]
    fn a_run_rewrites_the_table() {
        let new = BTreeMap::from([("c::new".to_owned(), 7)]);
        let known = ["c::new".to_owned(), "a::first".to_owned()];
        let table = rewritten(TABLE, &new, &known).unwrap();
        assert_eq!(table, "# seconds\n 500 a::first\n   7 c::new\n");
    }
}
