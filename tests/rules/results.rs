//! Tables of results on the pages, compared with the records in `docs/results`, and the records with the tests and releases.
//!
//! `UPDATE_GOLDEN=1 cargo test -p tests --test rules results` updates the tables.

use std::fs;

use lab::results::{Outcome, PAGES, Store, by_hand, directory, rendered};
use regex::Regex;

use crate::shared::{
    names::test_names,
    sources::{file, root},
    updates_golden,
};

#[test]
fn tables_show_the_recorded_results() {
    let store = Store::load().expect("the records");
    let mut old = Vec::new();
    for page in PAGES {
        let present = file(page);
        let made = rendered(&present, &store).expect(page);
        if updates_golden() {
            fs::write(root().join(page), &made).expect(page);
        } else if made != present {
            old.push(page);
        }
    }
    assert!(
        old.is_empty(),
        "{old:?} differ from docs/results; UPDATE_GOLDEN=1 updates them"
    );
}

/// A page without its comments would have no table to compare.
#[test]
fn every_page_of_results_has_its_tables() {
    for (page, table) in [
        ("README.md", "summary"),
        ("docs/compatibility.md", "versions kubernetes"),
        ("docs/compatibility.md", "versions ocm"),
        ("docs/compatibility.md", "versions argocd"),
        ("docs/compatibility.md", "versions argocd-agent"),
        ("docs/interop.md", "pairings argocd-agent"),
        ("docs/interop.md", "rows argocd-agent 2"),
        ("docs/ocm.md", "rows ocm 3"),
    ] {
        let comment = format!("<!-- results: {table} -->");
        assert!(file(page).contains(&comment), "{page}: {comment}");
    }
}

#[test]
fn results_are_claimed_by_records_only() {
    let mut claims = Vec::new();
    for page in PAGES {
        let found = by_hand(&file(page)).into_iter();
        claims.extend(found.map(|row| format!("{page}: {row}")));
    }
    assert!(
        claims.is_empty(),
        "`make conformance` and `make interop` write results, people do not:\n{}",
        claims.join("\n")
    );
}

#[test]
fn every_recorded_test_exists() {
    let known = test_names();
    let store = Store::load().expect("the records");
    let mut unknown = Vec::new();
    for record in &store.records {
        let gone = record.tests.keys().filter(|name| {
            let function = name.rsplit("::").next().unwrap_or_default();
            !known.contains(function)
        });
        unknown.extend(gone.map(|name| format!("{}: {name}", record.file_name())));
    }
    assert!(
        unknown.is_empty(),
        "these tests are gone; run the records again:\n{}",
        unknown.join("\n")
    );
}

#[test]
fn records_are_of_this_release_or_the_one_before() {
    let releases = releases(&file("CHANGELOG.md"));
    let recent: Vec<_> = releases.iter().take(2).map(String::as_str).collect();
    let current = env!("CARGO_PKG_VERSION");
    assert_eq!(recent.first(), Some(&current), "the top of CHANGELOG.md");
    let store = Store::load().expect("the records");
    let old = store
        .records
        .iter()
        .filter(|it| !recent.contains(&it.release.as_str()));
    let old: Vec<_> = old.map(lab::results::Record::file_name).collect();
    assert!(
        old.is_empty(),
        "{old:?} are older than the releases {recent:?}: run them again, or remove them"
    );
}

/// The versions in the headings of a changelog, newest first.
fn releases(changelog: &str) -> Vec<String> {
    let version = Regex::new(r"^## .*?(\d+\.\d+\.\d+)").expect("a pattern");
    let lines = changelog.lines();
    lines
        .filter_map(|line| Some(version.captures(line)?.get(1)?.as_str().to_owned()))
        .collect()
}

#[test]
fn releases_are_read_from_the_changelog() {
    let text = "# Changelog\n\n## Unreleased (0.3.0)\n\n### Fixed\n- 9.9.9\n\n## [0.2.1] - 2027-01-02\n## 0.2.0\n";
    assert_eq!(releases(text), ["0.3.0", "0.2.1", "0.2.0"]);
}

/// Edited records would be neither small nor stable.
#[test]
fn records_are_as_a_run_writes_them() {
    let store = Store::load().expect("the records");
    for record in &store.records {
        let name = record.file_name();
        let present = fs::read_to_string(directory().join(&name)).expect(&name);
        assert_eq!(present, record.text().expect("JSON"), "{name}");
        assert!(
            record.commit.len() == 12 && record.commit.chars().all(|it| it.is_ascii_hexdigit()),
            "{name}: {}",
            record.commit
        );
        assert!(!record.tests.is_empty(), "{name} has no test");
        let mut tests = record.tests.iter();
        let unclear =
            tests.find(|(_, test)| (test.result == Outcome::NotRun) != test.reason.is_some());
        assert_eq!(
            unclear, None,
            "{name}: a reason, for a test that was not run"
        );
    }
    for wanted in &store.wanted {
        let (version, reason) = (&wanted.version, &wanted.reason);
        assert!(
            reason.len() > 10 && !reason.contains('|'),
            "{version}: {reason}"
        );
    }
}
