//! The fleet page in a headless Chromium, in the stand-in for Argo CD's shell: `ui/browser/driver.mjs` carries out a request a
//! line, and answers each.

use std::{fs::File, path::Path, process::Stdio, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::{Instant, sleep, timeout},
};

use super::{LATE, OLD, client::Endpoint, front::Front};
use crate::{bench::figures::Times, tools::browser::Browser};

/// Longer than any request of the driver takes, so that its own errors arrive.
const BOUND: Duration = Duration::from_mins(2);
/// How often the page is opened, each time without a cache.
const OPENED: usize = 5;
/// The fleet page, with the extension that was built beside the shell.
const PAGE: &str = "/shell/fleet?extensions=local";
/// The table of clusters, and the text of its first row: all clusters have this name and a number.
const TABLE: &str = "[role=table][aria-label=Clusters]";
const ROW: &str = "crowd-";

/// How long the page took to have its first row, each time.
pub(super) async fn first_tables(
    browser: &Browser,
    endpoint: Arc<Endpoint>,
    log: &Path,
) -> Result<Times> {
    let front = Front::start(endpoint).await?;
    let mut driver = Driver::start(browser, &front, log).await?;
    let mut times = Times::within(LATE);
    for _ in 0..OPENED {
        let viewer = json!({"do": "viewer", "token": "unchecked", "theme": "light"});
        driver.exchange(&viewer).await?;
        // The hub program has no recent answer, as for the first page of a day.
        sleep(OLD).await;
        let begin = Instant::now();
        driver
            .exchange(&json!({"do": "open", "path": PAGE}))
            .await?;
        let within = u64::try_from(LATE.as_millis())?;
        let shown = json!({"do": "until", "selector": TABLE, "texts": [ROW], "within": within});
        driver.exchange(&shown).await?;
        times.add(Some(begin.elapsed()));
    }
    Ok(times)
}

/// The driver; dropping it ends it, with its browser.
struct Driver {
    _process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Driver {
    async fn start(browser: &Browser, front: &Front, log: &Path) -> Result<Self> {
        let log = File::options().create(true).append(true).open(log)?;
        let mut process = Command::new(&browser.node)
            .arg(browser.script("driver.mjs"))
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
            input,
            output: BufReader::new(output),
        };
        let settings = json!({
            "executable": browser.chromium,
            "shell": browser.shell,
            "argocd": {"host": "127.0.0.1", "certificate": front.certificate},
        });
        driver.exchange(&settings).await?;
        Ok(driver)
    }

    /// Sends a request, and waits for its end.
    async fn exchange(&mut self, request: &Value) -> Result<()> {
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
        outcome(&answer)
    }
}

/// Whether the driver has carried out a request.
fn outcome(answer: &str) -> Result<()> {
    ensure!(!answer.is_empty(), "the driver ended: see browser.log");
    let answer: Value = serde_json::from_str(answer).context("the driver's answer")?;
    match answer["error"].as_str() {
        None => Ok(()),
        Some(error) => bail!("{error}; refused or thrown: {}", answer["faults"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_driver_is_reported_with_its_reasons() {
        assert!(outcome("{\"result\": null}\n").is_ok());
        let late = r#"{"error": "not within 10000 ms", "faults": ["thrown: TypeError"]}"#;
        let error = outcome(late).err().map(|error| error.to_string());
        let error = error.unwrap_or_default();
        assert!(
            error.contains("10000 ms") && error.contains("TypeError"),
            "{error}"
        );
        assert!(outcome("").is_err(), "it ended");
    }
}
