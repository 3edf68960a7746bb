//! The metrics of a program in a Pod, read like Prometheus does.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// A program that does not answer within this is broken.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// All series of a program at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    series: BTreeMap<String, f64>,
    /// The described metrics, with the suffix that counters and information have in queries.
    names: BTreeSet<String>,
}

/// The response of a program at a path: the status line, and the body.
pub async fn ask(address: SocketAddr, path: &str) -> Result<(String, String)> {
    let read = async {
        let mut stream = TcpStream::connect(address).await?;
        // HTTP/1.0: the response comes in one piece and ends the connection.
        let request = format!("GET {path} HTTP/1.0\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        anyhow::Ok(answer)
    };
    let answer = tokio::time::timeout(TIME_LIMIT, read)
        .await
        .context("no answer in time")?
        .with_context(|| format!("ask {address} for {path}"))?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
    let status = head.lines().next().unwrap_or_default();
    Ok((status.to_owned(), body.to_owned()))
}

/// The names of all metrics below some headings of `docs/metrics.md`, as used in queries.
pub fn documented(page: &str, headings: &[&str]) -> BTreeSet<String> {
    let mut is_wanted = false;
    let mut names = BTreeSet::new();
    for line in page.lines() {
        if let Some(title) = line.strip_prefix('#') {
            let title = title.trim_start_matches('#').trim();
            is_wanted = headings.contains(&title);
        } else if is_wanted && let Some(row) = line.strip_prefix("| `") {
            names.extend(row.split('`').next().map(str::to_owned));
        }
    }
    names
}

impl Metrics {
    /// Reads `/metrics` at an address.
    pub async fn read(address: SocketAddr) -> Result<Self> {
        let (status, body) = ask(address, "/metrics").await?;
        ensure!(status.contains(" 200 "), "{address} answers {status}");
        Ok(Self::parse(&body))
    }

    fn parse(text: &str) -> Self {
        let series = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        let name = |line: &str| {
            let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
            Some(match kind {
                "counter" => format!("{name}_total"),
                "info" => format!("{name}_info"),
                _ => name.to_owned(),
            })
        };
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Self {
            series: lines.filter_map(series).collect(),
            names: text.lines().filter_map(name).collect(),
        }
    }

    /// The names of all metrics, as used in queries.
    pub const fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    /// The value of a series in exposition format, such as `refusals_total{reason="TooMany"}`; zero if it is missing,
    /// like a counter that has not counted yet.
    pub fn value(&self, series: &str) -> f64 {
        self.series.get(series).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_found_by_its_name_and_labels() {
        let metrics =
            Metrics::parse("# TYPE a counter\na_total{reason=\"too many\"} 3\nb 1.5\n# EOF\n");
        assert!((metrics.value("a_total{reason=\"too many\"}") - 3.0).abs() < f64::EPSILON);
        assert!((metrics.value("b") - 1.5).abs() < f64::EPSILON);
        assert!(metrics.value("c").abs() < f64::EPSILON);
        assert_eq!(metrics.names(), &["a_total".to_owned()].into());
    }

    #[test]
    fn metrics_below_a_heading_are_read() {
        let page = "### One\n\n| metric | type |\n|---|---|\n| `a_total` | counter |\n### Two\n| `b` | gauge |\n";
        assert_eq!(documented(page, &["One"]), ["a_total".to_owned()].into());
        assert_eq!(documented(page, &["Two", "Three"]), ["b".to_owned()].into());
    }
}
