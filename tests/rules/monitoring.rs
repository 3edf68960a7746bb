//! Alerts and dashboards query only registered metrics, and link to existing paragraphs.

#![expect(
    clippy::indexing_slicing,
    reason = "of JSON, which answers null for what is not there"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use promql_parser::{
    label::{MatchOp, Matcher},
    parser::{self, Expr, LabelModifier, VectorSelector},
    util::{ExprVisitor, walk_expr},
};
use serde_json::Value;

use crate::shared::registered;

use registered::{Metrics, asked_as};

const RULES: [&str; 2] = [
    "manifests/hub/monitoring/hub.yaml",
    "manifests/hub/monitoring/agent.yaml",
];
const DASHBOARDS: &str = "manifests/hub/monitoring/dashboards";

/// Labels that Prometheus adds when it scrapes.
const SCRAPED: [&str; 4] = ["instance", "job", "namespace", "pod"];

/// The series that a query may name, with their labels and label values.
type Known = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

fn known() -> Known {
    let all = [
        registered::agent(),
        registered::manager(),
        registered::principal(),
    ];
    all.iter().flat_map(series).collect()
}

fn series(metrics: &Metrics) -> Vec<(String, BTreeMap<String, BTreeSet<String>>)> {
    let of = metrics.iter().flat_map(|(name, metric)| {
        let mut labels = metric.labels.clone();
        if metric.kind == "info" {
            labels.values_mut().for_each(BTreeSet::clear);
        }
        let names = metric
            .series
            .iter()
            .cloned()
            .chain([asked_as(name, metric)]);
        names.map(move |name| (name, labels.clone()))
    });
    of.collect()
}

/// Everything that is wrong with a query.
#[derive(Default)]
struct Asked<'a> {
    known: Option<&'a Known>,
    metrics: BTreeSet<String>,
    labels: BTreeSet<String>,
    wrong: Vec<String>,
}

impl Asked<'_> {
    fn select(&mut self, selector: &VectorSelector) {
        let name = selector.name.clone().unwrap_or_default();
        let Some(labels) = self.known.and_then(|known| known.get(&name)) else {
            return self.wrong.push(format!("nothing registers {name:?}"));
        };
        let labels = labels.clone();
        for Matcher {
            op,
            name: label,
            value,
        } in &selector.matchers.matchers
        {
            let Some(values) = labels.get(label) else {
                if !SCRAPED.contains(&label.as_str()) {
                    self.wrong.push(format!("{name} has no label {label}"));
                }
                continue;
            };
            let asked: Vec<&str> = match op {
                MatchOp::Equal | MatchOp::NotEqual => vec![value],
                MatchOp::Re(_) | MatchOp::NotRe(_) => value.split('|').collect(),
            };
            for value in asked.into_iter().filter(|it| !values.contains(*it)) {
                self.wrong
                    .push(format!("{label} of {name} is never {value:?}"));
            }
        }
        self.labels.extend(labels.into_keys());
        self.metrics.insert(name);
    }
}

impl ExprVisitor for Asked<'_> {
    type Error = std::convert::Infallible;

    fn pre_visit(&mut self, expr: &Expr) -> Result<bool, Self::Error> {
        if let Expr::VectorSelector(selector) = expr {
            self.select(selector);
        } else if let Expr::MatrixSelector(matrix) = expr {
            self.select(&matrix.vs);
        }
        Ok(true)
    }
}

/// Labels by which is grouped or matched.
#[derive(Default)]
struct Grouped(BTreeSet<String>);

impl ExprVisitor for Grouped {
    type Error = std::convert::Infallible;

    fn pre_visit(&mut self, expr: &Expr) -> Result<bool, Self::Error> {
        let of = |modifier: &LabelModifier| modifier.labels().labels.clone();
        if let Expr::Aggregate(it) = expr {
            self.0.extend(it.modifier.iter().flat_map(of));
        } else if let Expr::Binary(it) = expr {
            let matching = it.modifier.as_ref().and_then(|it| it.matching.as_ref());
            self.0.extend(matching.into_iter().flat_map(of));
        }
        Ok(true)
    }
}

/// The faults of a query.
fn faults(known: &Known, query: &str) -> Vec<String> {
    // The variables that Grafana replaces.
    let query = query.replace("$__rate_interval", "5m");
    let expr = match parser::parse(&query) {
        Ok(expr) => expr,
        Err(error) => return vec![error],
    };
    let mut asked = Asked {
        known: Some(known),
        ..Asked::default()
    };
    let mut grouped = Grouped::default();
    let (Ok(_), Ok(_)) = (walk_expr(&mut asked, &expr), walk_expr(&mut grouped, &expr));
    let labels = grouped.0.into_iter();
    let unknown = labels.filter(|it| !asked.labels.contains(it) && !SCRAPED.contains(&it.as_str()));
    asked
        .wrong
        .extend(unknown.map(|it| format!("no metric in it has the label {it}")));
    asked.wrong.sort();
    asked.wrong
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("the workspace").into()
}

fn file(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect(path)
}

fn rules() -> Vec<Value> {
    let files = RULES.map(|path| {
        let rules: Value = serde_saphyr::from_str(&file(path)).expect(path);
        rules["groups"].as_array().expect("groups").clone()
    });
    let rules = files
        .concat()
        .into_iter()
        .map(|group| group["rules"].as_array().expect("rules").clone());
    rules.flatten().collect()
}

fn dashboards() -> Vec<(String, Value)> {
    let folder = root().join(DASHBOARDS);
    let entries = fs::read_dir(folder).expect(DASHBOARDS).flatten();
    let boards = entries.map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let text = fs::read_to_string(entry.path()).expect("a dashboard");
        (name.clone(), serde_json::from_str(&text).expect(&name))
    });
    boards.collect()
}

#[test]
fn every_alert_queries_registered_metrics() {
    let (known, mut wrong) = (known(), Vec::new());
    let rules = rules();
    assert!(rules.len() > 20, "only {} alerts", rules.len());
    for rule in &rules {
        let (name, query) = (&rule["alert"], rule["expr"].as_str().expect("a query"));
        wrong.extend(
            faults(&known, query)
                .into_iter()
                .map(|it| format!("{name}: {it}: {query}")),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_dashboard_queries_registered_metrics() {
    let (known, mut wrong, mut seen) = (known(), Vec::new(), 0);
    for (name, board) in dashboards() {
        for panel in board["panels"].as_array().expect("panels") {
            for target in panel["targets"].as_array().into_iter().flatten() {
                let query = target["expr"].as_str().expect("a query");
                let faults = faults(&known, query).into_iter();
                wrong.extend(faults.map(|it| format!("{name}, {}: {it}: {query}", panel["title"])));
                seen += 1;
            }
        }
        for variable in board["templating"]["list"].as_array().expect("variables") {
            let query = variable["query"].as_str().unwrap_or_default();
            let metric = query
                .strip_prefix("label_values(")
                .and_then(|it| it.split([',', '{']).next());
            wrong.extend(
                metric
                    .filter(|it| !known.contains_key(*it))
                    .map(|it| format!("{name}: {it}")),
            );
        }
    }
    assert!(seen > 40, "only {seen} queries were seen");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The dashboards pass Grafana's own linter: data source, variables for job and instance, units, descriptions, and so on.
#[test]
fn grafanas_linter_has_nothing_against_the_dashboards() {
    let (is_good, output) = lint(&root().join(DASHBOARDS));
    assert!(is_good, "{output}");
    let looks = output.split_whitespace().next();
    let looks: Option<u32> = looks.and_then(|it| it.parse().ok());
    assert!(looks.is_some_and(|it| it > 400), "few looks: {output}");

    let folder = tempfile::tempdir().expect("a folder");
    let board = file(&format!("{DASHBOARDS}/live.json"));
    let broken = board.replace(" instance=~\\\"$instance\\\"", "");
    assert_ne!(board, broken);
    fs::write(folder.path().join("broken.json"), broken).expect("a dashboard");
    let (is_good, output) = lint(folder.path());
    assert!(
        !is_good && output.contains("target-instance-rule"),
        "{output}"
    );
}

/// Whether the linter accepts the dashboards of a folder, with its output.
fn lint(folder: &Path) -> (bool, String) {
    let program = lab::Tools::ensure_dashboard_linter().expect("the linter");
    let files = fs::read_dir(folder).expect("dashboards").flatten();
    let done = Command::new(program)
        .args(files.map(|file| file.path()))
        .output()
        .expect("the linter runs");
    let output = [done.stdout, done.stderr].concat();
    (
        done.status.success(),
        String::from_utf8_lossy(&output).into_owned(),
    )
}

/// Grafana identifies a dashboard by its uid and a panel by its number.
#[test]
fn dashboards_and_alerts_have_names_of_their_own() {
    let mut names = BTreeSet::new();
    for (file, board) in dashboards() {
        let uid = board["uid"].as_str().expect("a uid");
        assert!(
            uid.len() <= 40 && names.insert(uid.to_owned()),
            "{file}: {uid}"
        );
        let mut ids = BTreeSet::new();
        for panel in board["panels"].as_array().expect("panels") {
            assert!(
                ids.insert(panel["id"].as_u64()),
                "{file}: {}",
                panel["title"]
            );
            assert!(
                panel["title"].as_str().is_some_and(|it| !it.is_empty()),
                "{file}"
            );
        }
    }
    for rule in rules() {
        let name = rule["alert"].as_str().expect("a name").to_owned();
        assert!(
            name.starts_with("ArgoCDAgent") && names.insert(name.clone()),
            "{name}"
        );
    }
}

#[test]
fn every_alert_has_text_and_runbook() {
    for rule in rules() {
        let (name, notes) = (&rule["alert"], &rule["annotations"]);
        for note in ["summary", "description"] {
            assert!(
                notes[note].as_str().is_some_and(|it| it.len() > 15),
                "{name}: {note}"
            );
        }
        assert!(
            ["warning", "critical"]
                .map(Value::from)
                .contains(&rule["labels"]["severity"]),
            "{name}"
        );
        let waits = rule["for"].as_str().unwrap_or_default();
        let (number, unit) = waits.split_at(waits.len().saturating_sub(1));
        assert!(
            number.parse::<u32>().is_ok() && "smhd".contains(unit),
            "{name}: for {waits}"
        );
        let runbook = notes["runbook"].as_str().expect("a runbook");
        let (page, anchor) = runbook.split_once('#').expect("a paragraph");
        let text = file(page);
        let anchors: Vec<String> = text.lines().filter_map(anchor_of).collect();
        assert!(
            anchors.iter().any(|it| it == anchor),
            "{name}: {page} has no {anchor}"
        );
    }
}

/// The link anchor of a heading.
fn anchor_of(line: &str) -> Option<String> {
    let title = line.strip_prefix('#')?.trim_start_matches('#').trim();
    let kept = title
        .chars()
        .filter(|it| it.is_alphanumeric() || [' ', '-', '_'].contains(it));
    Some(kept.collect::<String>().to_lowercase().replace(' ', "-"))
}

#[test]
fn a_query_of_unregistered_metrics_is_reported() {
    let known = known();
    let good = "sum by (outcome) (rate(argocd_principal_handshakes_total{outcome=~\"ok|closed\"}[5m])) > 0";
    assert_eq!(faults(&known, good), Vec::<String>::new());
    for (query, fault) in [
        ("argocd_principal_handshakes", "nothing registers"),
        (
            "rate(argocd_principal_handshake_total[5m])",
            "nothing registers",
        ),
        (
            "argocd_principal_handshakes_total{outcome=\"good\"}",
            "is never \"good\"",
        ),
        (
            "argocd_principal_handshakes_total{outcome=~\"ok|good\"}",
            "is never \"good\"",
        ),
        (
            "argocd_principal_handshakes_total{why=\"ok\"}",
            "no label why",
        ),
        (
            "sum by (cluster) (argocd_principal_sessions)",
            "has the label cluster",
        ),
        ("sum(argocd_principal_sessions", ""),
        ("rate(argocd_principal_sessions)", ""),
    ] {
        let faults = faults(&known, query);
        assert!(
            faults.iter().any(|it| it.contains(fault)),
            "{query}: {faults:?}"
        );
    }
}
