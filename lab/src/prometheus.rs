//! A real Prometheus, queried over its HTTP API like Grafana does, and its service discovery.

use std::{
    fmt::Write as _,
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::{
    metrics::ask,
    process::{Process, Program},
    tools, wait,
};

/// How long it may take to start.
const START: Duration = Duration::from_secs(30);

/// A running Prometheus, on the loopback, with its data in a directory of the lab. It ends when this is dropped.
#[derive(Debug)]
pub struct Prometheus {
    process: Process,
    address: SocketAddr,
}

impl Prometheus {
    /// Starts it with a configuration, in the folder of its files, and waits until it is ready.
    pub async fn start(folder: &Path, port: u16, configuration: &Value) -> Result<Self> {
        let file = folder.join("prometheus.yml");
        let text = serde_saphyr::to_string(configuration).context("write a configuration")?;
        fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let process = Program::new("prometheus", tools::package("prometheus")?, folder)
            .flag("config.file", file)
            .flag("storage.tsdb.path", folder.join("data"))
            .flag("web.listen-address", address.to_string())
            .start()?;
        let mut this = Self { process, address };
        let look = || async {
            let answer = ask(address, "/-/ready").await;
            Ok(answer.is_ok_and(|(status, _)| status.contains(" 200 ")))
        };
        let ready = wait::until_within(START, "Prometheus is ready", look, |ready| *ready).await;
        this.process.check()?;
        ready.map(|_| this)
    }

    /// The response of its API at a path, below `/api/v1/`, with these parameters.
    pub async fn api(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Value> {
        let mut whole = format!("/api/v1/{path}");
        for (number, (name, value)) in parameters.iter().enumerate() {
            let sign = if number == 0 { '?' } else { '&' };
            write!(whole, "{sign}{}={}", encoded(name), encoded(value))?;
        }
        let (status, body) = ask(self.address, &whole).await?;
        let answer: Value = serde_json::from_str(&body)
            .with_context(|| format!("{path} is answered with {status}: {body}"))?;
        if answer.get("status").and_then(Value::as_str) != Some("success") {
            bail!("{path} {parameters:?}: {body}");
        }
        Ok(answer.get("data").cloned().unwrap_or_default())
    }

    /// How many numbers a query returns now.
    pub async fn numbers(&self, query: &str) -> Result<usize> {
        let data = self.api("query", &[("query", query)]).await?;
        let result = data.get("result").and_then(Value::as_array);
        let is_number = |series: &&Value| {
            let value = series.pointer("/value/1").and_then(Value::as_str);
            value.is_some_and(|it| it != "NaN")
        };
        Ok(result.map_or(0, |all| all.iter().filter(is_number).count()))
    }
}

/// The service discovery of Prometheus' own code, for a build without it. It ends when this is dropped.
#[derive(Debug)]
pub struct Targets {
    _process: Process,
    file: PathBuf,
}

impl Targets {
    /// Starts to follow the jobs of a configuration.
    pub fn find(folder: &Path, configuration: &Value) -> Result<Self> {
        let (jobs, file) = (folder.join("jobs.yaml"), folder.join("targets.json"));
        let text = serde_saphyr::to_string(configuration).context("write jobs")?;
        fs::write(&jobs, text).with_context(|| format!("write {}", jobs.display()))?;
        let path = tools::prometheus_targets()?;
        let process = Program::new("prometheus-targets", path, folder)
            .arg(jobs)
            .arg(&file)
            .start()?;
        Ok(Self {
            _process: process,
            file,
        })
    }

    /// The file with its targets, for `file_sd_configs`.
    pub fn file(&self) -> &Path {
        &self.file
    }
}

/// A text as a part of a query string.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let high = char::from_digit(u32::from(byte >> 4), 16);
            let low = char::from_digit(u32::from(byte & 15), 16);
            out.push('%');
            out.extend(high.into_iter().chain(low));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::encoded;

    #[test]
    fn special_characters_of_a_query_string_are_encoded() {
        assert_eq!(
            encoded("a_b{c=~\"x|y\"} > 0 é"),
            "a_b%7bc%3d~%22x%7cy%22%7d%20%3e%200%20%c3%a9"
        );
    }
}
