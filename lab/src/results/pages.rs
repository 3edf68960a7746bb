//! The tables of pages, between a comment `results: TABLE` and another one that ends them.
//!
//! | table | content |
//! |---|---|
//! | `summary` | the versions of each peer |
//! | `versions PEER` | a row for each version |
//! | `pairings PEER` | a row for each version and pairing of programs |
//! | `rows PEER N` | the rows that are there, of which the first N columns stay, with a column for each version |

use std::{collections::BTreeMap, fs};

use anyhow::{Context as _, Result, bail, ensure};

use super::{Peer, Record, Store, Test, tally::Tally};
use crate::{progress::print, tools::workspace};

/// The pages with such tables.
pub const PAGES: [&str; 4] = [
    "README.md",
    "docs/compatibility.md",
    "docs/interop.md",
    "docs/ocm.md",
];

const BEGIN: &str = "<!-- results: ";
const END: &str = "<!-- end of the results -->";

/// Two programs of the peer, without one of ours: what they fail is no fault of ours, and they prove nothing of ours.
const REFERENCE: &str = "a go principal and a go agent";

/// The peers of the summary.
const SUMMARY: [Peer; 4] = [Peer::Kubernetes, Peer::Ocm, Peer::Argocd, Peer::ArgocdAgent];

/// A page with all its tables made of the results.
pub fn rendered(page: &str, store: &Store) -> Result<String> {
    let (mut made, mut rest) = (String::new(), page);
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (order, after) = after.split_once(" -->").context("a comment has no end")?;
        let ended = after.split_once(END);
        let (present, after) =
            ended.with_context(|| format!("the results `{order}` have no end"))?;
        let lines = table(order, present, store)?.join("\n");
        made.extend([
            before,
            BEGIN,
            order,
            " -->\n\n",
            lines.as_str(),
            "\n\n",
            END,
        ]);
        rest = after;
    }
    made.push_str(rest);
    Ok(made)
}

/// Rows outside of these tables with a result in a cell: written by hand.
pub fn by_hand(page: &str) -> Vec<String> {
    let mut outside = true;
    let mut found = Vec::new();
    for line in page.lines() {
        if line.starts_with(BEGIN) {
            outside = false;
        }
        if line.starts_with(END) {
            outside = true;
        }
        let claims = |cell: &String| cell.starts_with("passed") || cell.starts_with("failed");
        if outside && line.starts_with('|') && cells(line).iter().any(claims) {
            found.push(line.to_owned());
        }
    }
    found
}

/// Writes the pages.
pub(super) fn update() -> Result<()> {
    let store = Store::load()?;
    for page in PAGES {
        let path = workspace().join(page);
        let present = fs::read_to_string(&path).with_context(|| format!("read {page}"))?;
        let made = rendered(&present, &store).with_context(|| format!("tables of {page}"))?;
        if made != present {
            fs::write(&path, made).with_context(|| format!("write {page}"))?;
            print(format_args!("updated {page}"));
        }
    }
    Ok(())
}

fn table(order: &str, present: &str, store: &Store) -> Result<Vec<String>> {
    let words: Vec<&str> = order.split_whitespace().collect();
    let peer = |name: &str| Peer::named(name).with_context(|| format!("no peer is named {name}"));
    match words.as_slice() {
        ["summary"] => Ok(summary(store)),
        ["versions", name] => Ok(versions(peer(name)?, store)),
        ["pairings", name] => Ok(pairings(peer(name)?, store)),
        ["rows", name, count] => {
            let kept = count.parse::<usize>().context("how many columns stay")?;
            rows(peer(name)?, kept, present, store)
        }
        _ => bail!("there is no table of results `{order}`"),
    }
}

/// A row for each peer.
fn summary(store: &Store) -> Vec<String> {
    let mut lines = header(&["part", "versions run", "not run"]);
    for peer in SUMMARY {
        let run = store.of(peer).into_iter().map(|record| {
            let (version, commit) = (&record.version, &record.commit);
            format!("{version} ({}, commit {commit})", whole(record).counted())
        });
        let missing = store.missing(peer).into_iter();
        let missing = missing.map(|it| it.version.clone());
        lines.push(row(&[
            peer.title().to_owned(),
            list(run, "; "),
            list(missing, ", "),
        ]));
    }
    lines
}

/// A row for each version, first those that were run.
fn versions(peer: Peer, store: &Store) -> Vec<String> {
    let mut lines = header(&["version", "result", "together with", "our commit", "date"]);
    for record in store.of(peer) {
        let with = record.with.iter();
        let with = with.map(|(other, version)| format!("{} {version}", other.title()));
        lines.push(row(&[
            record.version.clone(),
            whole(record).counted(),
            list(with, ", "),
            format!("{} ({})", record.commit, record.release),
            record.date.clone(),
        ]));
    }
    for it in store.missing(peer) {
        let not_run = format!("not run: {}", it.reason);
        lines.push(format!("| {} | {not_run} | – | – | – |", it.version));
    }
    lines
}

/// A row for each version and pairing.
fn pairings(peer: Peer, store: &Store) -> Vec<String> {
    let mut lines = header(&["version", "programs", "result"]);
    for record in store.of(peer) {
        let mut tallies = BTreeMap::<String, Tally>::new();
        for (name, test) in &record.tests {
            let programs = pairing(name).unwrap_or_else(|| "other tests".to_owned());
            let tally = tallies.entry(programs).or_default();
            tally.add(name, test);
        }
        for (programs, tally) in tallies {
            lines.push(row(&[record.version.clone(), programs, tally.counted()]));
        }
    }
    for it in store.missing(peer) {
        lines.push(format!("| {} | – | not run: {} |", it.version, it.reason));
    }
    lines
}

/// The rows that are there, with a column for each version.
fn rows(peer: Peer, kept: usize, present: &str, store: &Store) -> Result<Vec<String>> {
    let records = store.of(peer);
    let mut lines = Vec::new();
    for line in present.lines().filter(|line| line.starts_with("| ")) {
        let mut cells = cells(line);
        ensure!(cells.len() >= kept, "a row lacks columns: {line}");
        cells.truncate(kept);
        let is_first = lines.is_empty();
        let made: Vec<String> = match records.as_slice() {
            [] if is_first => vec!["result".to_owned()],
            [] => vec!["not run".to_owned()],
            records if is_first => records.iter().map(|it| it.version.clone()).collect(),
            records => {
                let tests = named_tests(&cells);
                records.iter().map(|it| result(it, &tests)).collect()
            }
        };
        cells.extend(made);
        lines.push(row(&cells));
        if is_first {
            lines.push(separator(cells.len()));
        }
    }
    ensure!(lines.len() > 2, "a table without rows");
    Ok(lines)
}

/// The result of the tests of one row.
fn result(record: &Record, functions: &[String]) -> String {
    let mut tally = Tally::default();
    for function in functions {
        let ours =
            tests(record).filter(|(name, _)| name.rsplit("::").next() == Some(function.as_str()));
        let ours: Vec<_> = ours.collect();
        for (name, test) in &ours {
            tally.add(name, test);
        }
        if ours.is_empty() {
            tally.add_absent("not in this run");
        }
    }
    tally.brief()
}

/// End-to-end tests in the cells of a row: unit tests follow behind a word of their own.
fn named_tests(cells: &[String]) -> Vec<String> {
    let is_test = |it: &&str| {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        it.matches('_').count() > 1 && it.chars().all(plain)
    };
    let mut found = Vec::new();
    for cell in cells {
        let end_to_end = cell.split("unit: ").next().unwrap_or_default();
        let quoted = end_to_end.split('`').skip(1).step_by(2);
        found.extend(quoted.filter(is_test).map(str::to_owned));
    }
    found
}

/// The tests that say something of ours.
fn tests(record: &Record) -> impl Iterator<Item = (&str, &Test)> {
    let tests = record.tests.iter();
    tests
        .filter(|(name, _)| pairing(name).is_none_or(|it| it != REFERENCE))
        .map(|(name, test)| (name.as_str(), test))
}

fn whole(record: &Record) -> Tally {
    Tally::of(tests(record))
}

/// The pairing of programs of a test: `interop::a_go_principal_and_our_agent::x` has one.
pub(super) fn pairing(name: &str) -> Option<String> {
    let parts: Vec<&str> = name.split("::").collect();
    match parts.as_slice() {
        ["interop", programs, _] if programs.contains("_and_") => Some(programs.replace('_', " ")),
        _ => None,
    }
}

fn cells(line: &str) -> Vec<String> {
    let line = line.trim().trim_matches('|');
    let cells = line.split('|').map(str::trim);
    cells.map(str::to_owned).collect()
}

fn header(cells: &[&str]) -> Vec<String> {
    vec![format!("| {} |", cells.join(" | ")), separator(cells.len())]
}

fn separator(columns: usize) -> String {
    format!("|{}", "---|".repeat(columns))
}

fn row(cells: &[String]) -> String {
    format!("| {} |", cells.join(" | "))
}

fn list(items: impl Iterator<Item = String>, between: &str) -> String {
    let items: Vec<String> = items.collect();
    if items.is_empty() {
        "–".to_owned()
    } else {
        items.join(between)
    }
}
