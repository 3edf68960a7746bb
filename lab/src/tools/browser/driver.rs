//! One page in a headless Chromium: `ui/browser/driver.mjs` carries out a request a line, and answers each.

use std::{fs::File, path::Path, process::Stdio, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use super::Browser;

/// Longer than any request of the driver takes, so that its own errors arrive.
const BOUND: Duration = Duration::from_mins(2);

/// The Argo CD that a page belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// Its address.
    pub host: &'a str,
    /// The certificate that it has signed itself, for `localhost`, in PEM.
    pub certificate: &'a str,
    /// Whether the page is Argo CD's own, and not the stand-in for its shell.
    pub is_real: bool,
}

/// A driver with its browser. Both end when this is dropped.
#[derive(Debug)]
pub struct Driver {
    _process: Child,
    /// For the profile of the browser, and other files that it leaves when it is killed.
    _directory: TempDir,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Driver {
    /// Starts a browser in front of an Argo CD. What the driver prints besides its answers goes to the end of a log.
    pub async fn start(browser: &Browser, site: Site<'_>, log: &Path) -> Result<Self> {
        let log = File::options().create(true).append(true).open(log)?;
        let directory = TempDir::with_prefix("lab-browser-")?;
        let mut process = Command::new(&browser.node)
            .arg(browser.script("driver.mjs"))
            .env("TMPDIR", directory.path())
            .current_dir(&browser.sources)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .context("start the driver of the browser")?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (input, output) = pipes.context("the driver's pipes")?;
        let mut driver = Self {
            _process: process,
            _directory: directory,
            input,
            output: BufReader::new(output),
        };
        let settings = json!({
            "executable": browser.chromium,
            "shell": browser.shell,
            "direct": site.is_real.then(|| format!("https://{}", site.host)),
            "argocd": {"host": site.host, "certificate": site.certificate},
        });
        driver.exchange(&settings).await?;
        Ok(driver)
    }

    /// Has the driver carry out one of its commands, and returns the result.
    pub async fn does(&mut self, name: &str, mut request: Value) -> Result<Value> {
        request["do"] = name.into();
        let done = self.exchange(&request).await;
        done.with_context(|| format!("the browser fails to {name} {}", target(&request)))
    }

    async fn exchange(&mut self, request: &Value) -> Result<Value> {
        let mut line = request.to_string();
        line.push('\n');
        let exchanging = async {
            self.input.write_all(line.as_bytes()).await?;
            self.input.flush().await?;
            let mut answer = String::new();
            self.output.read_line(&mut answer).await?;
            anyhow::Ok(answer)
        };
        let answer = timeout(BOUND, exchanging).await.context("no answer")??;
        result(&answer)
    }
}

/// Where on a page a command acts. Other parameters may be passwords.
fn target(request: &Value) -> &str {
    let mut parts = ["path", "selector", "name"].into_iter();
    let found = parts.find_map(|part| request[part].as_str());
    found.unwrap_or_default()
}

/// The result in an answer of the driver.
fn result(answer: &str) -> Result<Value> {
    ensure!(!answer.is_empty(), "the driver ended: see browser.log");
    let mut answer: Value = serde_json::from_str(answer).context("the driver's answer")?;
    match answer["error"].as_str() {
        None => Ok(answer["result"].take()),
        Some(error) => bail!(
            "{error}\nat {}, refused or thrown: {}, requests without an end: {}\nthe page:\n{}",
            answer["url"],
            answer["faults"],
            answer["pending"],
            answer["shown"].as_str().unwrap_or_default()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_driver_is_reported_with_its_reasons() {
        assert_eq!(result("{\"result\": 3}\n").unwrap(), json!(3));
        let late = r#"{"error": "not within 10000 ms", "faults": ["thrown: TypeError"]}"#;
        let error = result(late).unwrap_err().to_string();
        assert!(
            error.contains("10000 ms") && error.contains("TypeError"),
            "{error}"
        );
        assert!(result("").is_err(), "it ended");
    }
}
