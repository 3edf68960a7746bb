//! What a program in a Pod counts, read as Prometheus would.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use anyhow::{Context as _, Result, ensure};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// A program that does not answer within this is broken.
const PATIENCE: Duration = Duration::from_secs(20);

/// All series of a program at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    /// Reads `/metrics` at an address.
    pub async fn read(address: SocketAddr) -> Result<Self> {
        let read = async {
            let mut stream = TcpStream::connect(address).await?;
            // HTTP/1.0: the answer comes in one piece and ends the connection.
            stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            anyhow::Ok(answer)
        };
        let answer = tokio::time::timeout(PATIENCE, read)
            .await
            .context("no answer in time")?
            .with_context(|| format!("read the metrics at {address}"))?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
        let status = head.lines().next().unwrap_or_default();
        ensure!(status.contains(" 200 "), "{address} answers {status}");
        Ok(Self::parse(body))
    }

    fn parse(text: &str) -> Self {
        let series = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Self(lines.filter_map(series).collect())
    }

    /// The value of a series as it is written, such as `refusals_total{reason="TooMany"}`; zero if it is not there,
    /// as a counter is that has not counted yet.
    pub fn value(&self, series: &str) -> f64 {
        self.0.get(series).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_found_as_it_is_written() {
        let metrics =
            Metrics::parse("# TYPE a counter\na_total{reason=\"too many\"} 3\nb 1.5\n# EOF\n");
        assert!((metrics.value("a_total{reason=\"too many\"}") - 3.0).abs() < f64::EPSILON);
        assert!((metrics.value("b") - 1.5).abs() < f64::EPSILON);
        assert!(metrics.value("c").abs() < f64::EPSILON);
    }
}
