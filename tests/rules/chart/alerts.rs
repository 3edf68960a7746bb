//! The alerts as the chart renders them, checked by Prometheus' own `promtool`: the syntax of the rules, and when each of
//! them fires, with the words that a person reads then. The cases are in `tests/rules/alerts`.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use lab::tools;
use serde_json::Value;
use tempfile::TempDir;

use super::rendered::{one, parsed};

/// The rules of the chart, all of them.
fn groups() -> Value {
    let sets = [
        "monitoring.rules.enabled=true",
        "monitoring.rules.agents=true",
    ];
    one(&sets, "PrometheusRule", "argocd-agent-addon-manager")["spec"].take()
}

/// The files with cases.
fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("rules/alerts");
    let files = fs::read_dir(folder).expect("cases").flatten();
    files.map(|file| file.path()).collect()
}

/// A folder with the cases and the rules, under their name `rules.yaml` in the cases.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let rules = serde_saphyr::to_string(&groups()).expect("YAML");
    fs::write(folder.path().join("rules.yaml"), rules).expect("the rules");
    for file in cases() {
        let name = file.file_name().expect("a name");
        fs::copy(&file, folder.path().join(name)).expect("a case");
    }
    folder
}

fn promtool(folder: &TempDir, arguments: &[&str]) -> (bool, String) {
    let program = tools::package("promtool").expect("promtool");
    let done = Command::new(program)
        .args(arguments)
        .current_dir(folder.path())
        .output()
        .expect("promtool runs");
    let text = [done.stdout, done.stderr].concat();
    (
        done.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

#[test]
fn prometheus_takes_the_rules_that_the_chart_renders() {
    let (is_good, text) = promtool(&folder(), &["check", "rules", "rules.yaml"]);
    assert!(is_good, "{text}");
    let count: Option<usize> = text.split_whitespace().find_map(|word| word.parse().ok());
    assert!(
        count.is_some_and(|count| count > 30),
        "few rules were seen: {text}"
    );
}

#[test]
fn alerts_fire_with_the_expected_text() {
    let folder = folder();
    let mut seen = 0;
    for file in cases() {
        let name = file.file_name().expect("a name").to_string_lossy();
        let (is_good, text) = promtool(&folder, &["test", "rules", &name]);
        assert!(is_good, "{name}: {text}");
        seen += 1;
    }
    assert!(seen > 2, "only {seen} files have cases");
}

/// A wrong case fails, so a passing case proves something.
#[test]
fn a_wrong_alert_text_fails_its_case() {
    let folder = folder();
    let path = folder.path().join("hub-work.yaml");
    let cases = fs::read_to_string(&path).expect("cases");
    let other = cases.replace("state on the hub: 7", "state on the hub: 8");
    assert_ne!(cases, other);
    fs::write(&path, other).expect("a wrong case");
    let (is_good, text) = promtool(&folder, &["test", "rules", "hub-work.yaml"]);
    assert!(!is_good && text.contains("HubWritesStuck"), "{text}");
}

#[test]
fn every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() {
    let rules = groups();
    let alerts: BTreeSet<&str> = all(&rules["groups"], "rules")
        .filter_map(|rule| rule["alert"].as_str())
        .collect();
    assert!(alerts.len() > 30, "only {alerts:?}");
    let files: Vec<Value> = cases()
        .iter()
        .map(|path| parsed(&fs::read_to_string(path).expect("cases")))
        .collect();
    let looks: Vec<&Value> = files
        .iter()
        .flat_map(|file| all(&file["tests"], "alert_rule_test"))
        .collect();
    let of = |fires: bool| -> BTreeSet<&str> {
        let fit = |look: &&&Value| {
            let expected = look["exp_alerts"].as_array();
            expected.is_some_and(|alerts| alerts.is_empty() != fires)
        };
        let names = looks.iter().filter(fit);
        names
            .filter_map(|look| look["alertname"].as_str())
            .collect()
    };
    let (never, always): (Vec<_>, Vec<_>) = (
        alerts.difference(&of(true)).copied().collect(),
        alerts.difference(&of(false)).copied().collect(),
    );
    assert!(
        never.is_empty() && always.is_empty(),
        "no case of tests/rules/alerts has fire: {never:?}; has quiet: {always:?}"
    );
    let unknown: Vec<_> = of(true).union(&of(false)).copied().collect();
    let unknown: Vec<_> = unknown.iter().filter(|it| !alerts.contains(*it)).collect();
    assert!(unknown.is_empty(), "no rule is called {unknown:?}");
}

/// `docs/metrics.md` has a row for each of them, and no other.
#[test]
fn every_alert_has_its_row_on_the_page() {
    let page = tools::workspace().join("docs/metrics.md");
    let page = fs::read_to_string(page).expect("docs/metrics.md");
    let is_row = |line: &&str| line.starts_with("| `ArgoCDAgent");
    let rows: BTreeSet<String> = page.lines().filter(is_row).map(str::to_owned).collect();
    let rules = groups();
    let should: BTreeSet<String> = all(&rules["groups"], "rules").map(row).collect();
    let missing: Vec<_> = should.difference(&rows).collect();
    let extra: Vec<_> = rows.difference(&should).collect();
    assert!(
        missing.is_empty() && extra.is_empty(),
        "missing {missing:#?}, not as the rules are {extra:#?}"
    );
}

fn row(rule: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let summary = text(&rule["annotations"]["summary"]);
    let mut parts = summary.split("{{");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (what, rest) = part.split_once("}}").expect("the end of a template");
        // A label is replaced by its name, and a value by N.
        plain.push_str(what.trim().strip_prefix("$labels.").unwrap_or("N"));
        plain.push_str(rest);
    }
    let (name, severity, waits) = (&rule["alert"], &rule["labels"]["severity"], &rule["for"]);
    let (name, severity, waits) = (text(name), text(severity), text(waits));
    format!("| `{name}` | {severity} | {waits} | {plain} |")
}

/// The members of a nested list, over all members of the outer list.
fn all<'a>(list: &'a Value, of: &'a str) -> impl Iterator<Item = &'a Value> {
    let members = list.as_array().into_iter().flatten();
    members.flat_map(move |it| it[of].as_array().into_iter().flatten())
}
