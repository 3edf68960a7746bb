//! The dashboards as Grafana would ask for what they show, with everything chosen.

use anyhow::{Context as _, Result};
use lab::{prometheus::Prometheus, wait};
use serde_json::Value;

/// The values of Grafana's variables when everything is selected, and a rate interval of many scrapes.
const CHOSEN: [(&str, &str); 3] = [
    ("$job", ".+"),
    ("$instance", ".+"),
    ("$__rate_interval", "1m"),
];

/// Panels without data in a healthy fleet, and why.
const MAY_BE_EMPTY: [(&str, &str); 1] = [(
    "Duration of reconciles",
    "has no value while no reconcile runs for a minute",
)];

/// A dashboard, as the chart brings it to Grafana.
#[derive(Debug)]
pub(super) struct Board {
    /// `fleet`, `cluster` or `live`.
    pub(super) name: String,
    /// The title and the query of each panel and variable.
    queries: Vec<(String, String)>,
}

impl Board {
    /// Those of the `ConfigMap`.
    pub(super) fn all_of(map: &Value) -> Result<Vec<Self>> {
        let files = map["data"].as_object().context("dashboards")?;
        let boards = files.iter().map(|(file, text)| {
            let name = file
                .trim_start_matches("argocd-agent-")
                .trim_end_matches(".json");
            let board: Value = serde_json::from_str(text.as_str().context("a text")?)?;
            let queries = variables(&board).chain(panels(&board)).collect();
            Ok(Self {
                name: name.to_owned(),
                queries,
            })
        });
        boards.collect()
    }

    /// Asks for everything in it, until all of it has a number.
    pub(super) async fn until_every_panel_shows_something(&self, of: &Prometheus) -> Result<()> {
        anyhow::ensure!(self.queries.len() > 10, "few are seen: {self:?}");
        let look = || async {
            let mut empty = Vec::new();
            for (what, query) in &self.queries {
                // A query that is wrong is an error here.
                if of.numbers(query).await? == 0 && !MAY_BE_EMPTY.iter().any(|it| it.0 == what) {
                    empty.push(what);
                }
            }
            Ok(empty)
        };
        let what = format!("every panel of {} shows something", self.name);
        wait::until(&what, look, Vec::is_empty).await.map(drop)
    }
}

/// The queries of variables: `label_values(METRIC, LABEL)`.
fn variables(board: &Value) -> impl Iterator<Item = (String, String)> {
    let all = board["templating"]["list"].as_array().into_iter().flatten();
    all.filter_map(|variable| {
        let values = variable["query"].as_str()?.strip_prefix("label_values(")?;
        let (metric, label) = values.strip_suffix(')')?.rsplit_once(", ")?;
        let query = chosen(&format!("count by ({label}) ({metric})"));
        Some((format!("variable {label}"), query))
    })
}

fn panels(board: &Value) -> impl Iterator<Item = (String, String)> {
    let all = board["panels"].as_array().into_iter().flatten();
    all.flat_map(|panel| {
        let title = panel["title"].as_str().unwrap_or_default();
        let targets = panel["targets"].as_array().into_iter().flatten();
        targets.filter_map(move |target| Some((title.to_owned(), chosen(target["expr"].as_str()?))))
    })
}

fn chosen(query: &str) -> String {
    CHOSEN
        .iter()
        .fold(query.to_owned(), |query, (variable, value)| {
            query.replace(variable, value)
        })
}
