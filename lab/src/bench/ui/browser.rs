//! The fleet page in a headless Chromium, in the stand-in for Argo CD's shell.

use std::{path::Path, sync::Arc};

use anyhow::Result;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{LATE, OLD, client::Endpoint, front::Front};
use crate::{
    bench::figures::Times,
    tools::browser::{Browser, Driver, Site},
};

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
    let site = Site {
        host: "127.0.0.1",
        certificate: &front.certificate,
        is_real: false,
    };
    let mut driver = Driver::start(browser, site, log).await?;
    let mut times = Times::within(LATE);
    for _ in 0..OPENED {
        let viewer = json!({"token": "unchecked", "theme": "light"});
        driver.does("viewer", viewer).await?;
        // The hub program has no recent answer, as for the first page of a day.
        sleep(OLD).await;
        let begin = Instant::now();
        driver.does("open", json!({"path": PAGE})).await?;
        let within = u64::try_from(LATE.as_millis())?;
        let shown = json!({"selector": TABLE, "texts": [ROW], "within": within});
        driver.does("until", shown).await?;
        times.add(Some(begin.elapsed()));
    }
    Ok(times)
}
