//! `docs/metrics.md` has a row for every metric that our programs register, made of what they register.
//!
//! `UPDATE_GOLDEN=1 cargo test -p tests --test rules metrics` updates the tables.

use std::{collections::BTreeSet, fs, path::PathBuf};

use crate::shared::{registered, updates_golden};

use registered::{Metric, Metrics, asked_as};

const PAGE: &str = "docs/metrics.md";
const MIGRATION: &str = "docs/migration.md";
const BEGIN: &str =
    "<!-- tables: made by `UPDATE_GOLDEN=1 cargo test -p tests --test rules metrics` -->";
const END: &str = "<!-- end of the tables -->";

#[test]
fn every_metric_has_its_row() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(PAGE);
    let page = fs::read_to_string(&path).expect(PAGE);
    let (before, rest) = page.split_once(BEGIN).expect("where the tables begin");
    let (_, after) = rest.split_once(END).expect("where the tables end");
    let made = format!("{before}{BEGIN}\n\n{}{END}{after}", tables());
    if updates_golden() {
        fs::write(&path, &made).expect(PAGE);
    }
    let is: Vec<&str> = page.lines().collect();
    let should: Vec<&str> = made.lines().collect();
    let missing: Vec<_> = should.iter().filter(|line| !is.contains(line)).collect();
    let extra: Vec<_> = is.iter().filter(|line| !should.contains(line)).collect();
    let hint = "UPDATE_GOLDEN=1 updates the page";
    assert!(
        page == made || updates_golden(),
        "{PAGE}: {hint}\nmissing {missing:#?}\nnot registered {extra:#?}"
    );
}

/// One table for each set of programs that has the same metrics.
fn tables() -> String {
    let (agent, whole, alone) = (
        registered::agent(),
        registered::manager(),
        registered::principal(),
    );
    let all: BTreeSet<&String> = agent
        .keys()
        .chain(whole.keys())
        .chain(alone.keys())
        .collect();
    let of = |agents, wholes, alones| {
        let is = |name: &&&String| {
            let there = |metrics: &Metrics| metrics.contains_key(name.as_str());
            (there(&agent), there(&whole), there(&alone)) == (agents, wholes, alones)
        };
        let names = all.iter().filter(is);
        let rows = names.map(|name| {
            let metric = [&whole, &agent].iter().find_map(|it| it.get(name.as_str()));
            row(name, metric.expect("it is in one of them"))
        });
        rows.collect::<Vec<_>>()
    };
    let sections = [
        (
            "The principal: in the hub program, and alone",
            of(false, true, true),
        ),
        ("The hub program besides", of(false, true, false)),
        ("The agent", of(true, false, false)),
        ("Every program", of(true, true, true)),
    ];
    let rows: usize = sections.iter().map(|(_, rows)| rows.len()).sum();
    assert_eq!(rows, all.len(), "each metric is in one table");
    let table = |(title, rows): (&str, Vec<String>)| {
        let head = "| metric | type | labels | unit | meaning |\n|---|---|---|---|---|";
        format!("### {title}\n\n{head}\n{}\n\n", rows.join("\n"))
    };
    sections.map(table).concat()
}

fn row(name: &str, metric: &Metric) -> String {
    let labels = metric.labels.iter().filter(|(label, _)| *label != "le");
    // Which build it is has no fixed values.
    let described = labels.map(|(label, values)| {
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        if metric.kind == "info" {
            return format!("`{label}`");
        }
        format!("`{label}`: {}", values.join(", "))
    });
    let labels = described.collect::<Vec<_>>().join("; ");
    let labels = if labels.is_empty() { "–" } else { &labels };
    format!(
        "| `{}` | {} | {labels} | {} | {} |",
        asked_as(name, metric),
        metric.kind,
        unit(name),
        metric.help
    )
}

fn unit(name: &str) -> &'static str {
    if name.ends_with("_timestamp_seconds") || name == "process_start_time_seconds" {
        "Unix seconds"
    } else if name.ends_with("_seconds") {
        "seconds"
    } else if name.ends_with("_bytes") {
        "bytes"
    } else {
        "–"
    }
}

/// Prefixes of metric names: ours, those of the Go agent, and those of every exporter.
const PREFIXES: [&str; 5] = [
    "addon_",
    "agent_events_",
    "argocd_agent_",
    "argocd_principal_",
    "process_",
];

/// No base units, or added by the encoding.
const ENDINGS: [&str; 9] = [
    "_bucket",
    "_count",
    "_kb",
    "_mb",
    "_milliseconds",
    "_minutes",
    "_ms",
    "_sum",
    "_total",
];

/// The page has the metrics of argocd-agent in the first column, and those to use here in the second.
#[test]
fn metrics_that_replace_those_of_argocd_agent_exist() {
    let programs = [
        registered::agent(),
        registered::manager(),
        registered::principal(),
    ];
    let all = programs.iter().flatten();
    let known: BTreeSet<String> = all.map(|(name, metric)| asked_as(name, metric)).collect();
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(MIGRATION);
    let page = fs::read_to_string(path).expect(MIGRATION);
    let (_, below) = page.split_once("\n### Metrics\n").expect("a heading");
    let rows = below.lines().take_while(|line| !line.starts_with('#'));
    let cells = rows.filter_map(|row| row.split(" | ").nth(1));
    let quoted = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let names = quoted.filter_map(|name| name.split('{').next());
    let names: BTreeSet<&str> = names.filter(|name| name.contains('_')).collect();
    assert!(names.len() > 15, "only {names:?} were found");
    let unknown: Vec<_> = names
        .iter()
        .filter(|name| !known.contains(**name))
        .collect();
    assert!(unknown.is_empty(), "{MIGRATION}: {unknown:?} do not exist");
}

#[test]
fn every_metric_has_help_and_a_valid_name() {
    let programs = [
        registered::agent(),
        registered::manager(),
        registered::principal(),
    ];
    let all: Vec<_> = programs.iter().flatten().collect();
    assert!(all.len() > 90, "only {} were seen", all.len());
    for (name, metric) in all {
        let help = &metric.help;
        assert!(help.len() >= 20, "{name}: {help:?} is no help");
        assert!(!help.contains('|'), "{name}: it would break the table");
        let is_shown = !metric.kind.is_empty() && !metric.series.is_empty();
        assert!(is_shown, "{name} is not shown at the start");
        let whose = PREFIXES.iter().any(|it| name.starts_with(it));
        assert!(whose && is_plain(name), "{name}: whose is it?");
        let ending = ENDINGS.iter().find(|it| name.ends_with(**it));
        assert_eq!(ending, None, "{name}");
        for (label, values) in &metric.labels {
            // No label may grow with the fleet: the state of one cluster is at /debug/state.
            assert!(is_plain(label) && label != "cluster", "{name}: {label}");
            let count = values.len();
            assert!(count <= 32, "{name}: {label} has {count} values");
        }
    }
}

fn is_plain(name: &str) -> bool {
    let mut letters = name.chars();
    letters.all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_')
}

#[test]
fn registered_metrics_are_read() {
    let text = "# HELP a_b What it is, in detail.\n# TYPE a_b counter\na_b_total{why=\"x\"} 0\na_b_total{why=\"y\"} 2\n# EOF\n";
    let metrics = registered::read(text);
    let metric = &metrics["a_b"];
    assert_eq!(
        (metric.kind.as_str(), metric.help.as_str()),
        ("counter", "What it is, in detail")
    );
    assert_eq!(metric.labels["why"], ["x", "y"].map(str::to_owned).into());
    assert_eq!(asked_as("a_b", metric), "a_b_total");
    assert_eq!(unit("a_timestamp_seconds"), "Unix seconds");
}
