//! The metrics that our programs register, read from the registries themselves.

use std::collections::{BTreeMap, BTreeSet};

use runtime::metrics::Registry;

/// One metric, as it is described and as its series look before anything has happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Metric {
    pub(crate) kind: String,
    pub(crate) help: String,
    /// Each label with its values.
    pub(crate) labels: BTreeMap<String, BTreeSet<String>>,
    /// The names of its series.
    pub(crate) series: BTreeSet<String>,
}

/// All metrics of a program, by name.
pub(crate) type Metrics = BTreeMap<String, Metric>;

/// Those of the agent.
pub(crate) fn agent() -> Metrics {
    of(|registry| drop(agent::metrics::register(registry)))
}

/// Those of the whole hub program.
pub(crate) fn manager() -> Metrics {
    of(|registry| drop(addon_manager::metrics::whole(registry)))
}

/// Those of the principal alone.
pub(crate) fn principal() -> Metrics {
    of(|registry| drop(addon_manager::metrics::alone(registry)))
}

fn of(register: impl FnOnce(&Registry)) -> Metrics {
    let registry = Registry::new();
    register(&registry);
    read(&registry.encode().expect("a text"))
}

/// Parses metrics in the text format of Prometheus.
pub(crate) fn read(text: &str) -> Metrics {
    let mut metrics = Metrics::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some((name, help)) = described(line, "# HELP ") {
            name.clone_into(&mut current);
            let before = metrics.insert(current.clone(), Metric::default());
            assert!(before.is_none(), "{name} is registered twice");
            let help = help.trim_end_matches('.').to_owned();
            metrics.entry(current.clone()).or_default().help = help;
        } else if let Some((name, kind)) = described(line, "# TYPE ") {
            kind.clone_into(&mut metrics.entry(name.to_owned()).or_default().kind);
        } else if !line.starts_with('#') {
            let metric = metrics
                .get_mut(&current)
                .expect("a series after its description");
            let series = line.split(['{', ' ']).next().unwrap_or_default();
            metric.series.insert(series.to_owned());
            for (label, value) in labels(line) {
                metric.labels.entry(label).or_default().insert(value);
            }
        }
    }
    metrics
}

fn described<'a>(line: &'a str, what: &str) -> Option<(&'a str, &'a str)> {
    let rest = line.strip_prefix(what)?;
    Some(rest.split_once(' ').unwrap_or((rest, "")))
}

/// Our labels have values without quotes and commas.
fn labels(line: &str) -> Vec<(String, String)> {
    let inside = line
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'));
    let pairs = inside.map_or("", |(inside, _)| inside).split(',');
    let pairs = pairs.filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(label, value)| (label.to_owned(), value.trim_matches('"').to_owned()))
        .collect()
}

/// The name of the metric in a query: counters and information have a suffix that the description does not have.
pub(crate) fn asked_as(name: &str, metric: &Metric) -> String {
    match metric.kind.as_str() {
        "counter" => format!("{name}_total"),
        "info" => format!("{name}_info"),
        _ => name.to_owned(),
    }
}
