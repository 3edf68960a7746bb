//! A cluster is disconnected while users at the hub read from it, where one end is Go's.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use lab::{
    Lab,
    faults::{Fault, Proxy},
    peers::{Make, Mapping, Pair, Pairing, Way},
    steps::At,
    wait,
};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{APP, Look, POD, SOON, begin, end, runs};
use crate::terminal::{self, Viewer};

/// The connections between the two, to the faults.
const BETWEEN: &str = "between";
const LARGE: &str = "heavy-map";
/// Of this many bytes, and so many of them a second, so that it takes much longer than to cut it off.
const LARGEST: usize = 900_000;
const SLOWLY: u32 = 16 << 10;
/// Clients get an error at once, without waiting for a response that cannot arrive.
const AT_ONCE: Duration = Duration::from_secs(10);

/// A log that is followed, a large answer and a terminal end at once, and work again when the cluster is back.
pub(crate) async fn live_streams_end_when_the_connection_breaks(
    lab: Arc<Lab>,
    pairing: Pairing,
    way: Way,
) -> Result<()> {
    let hub = ([127, 0, 0, 1], way.port).into();
    let proxy = Proxy::start(hub, lab.faults(), BETWEEN).await?;
    let way = Way {
        port: proxy.address().port(),
        ..way
    };
    let (mut pair, look) = begin(&lab, pairing, (way, "cut", Mapping::Namespace)).await?;
    let result = cut_off(&lab, &mut pair, &look).await;
    lab.faults().heal(BETWEEN);
    let at = At::config_map(&pair.names.spoke, LARGE);
    let result = result.and(pair.spoke.delete(&at).await);
    end(pair, result).await
}

async fn cut_off(lab: &Lab, pair: &mut Pair, look: &Look) -> Result<()> {
    let large = json!({
        "metadata": {"annotations": {
            "argocd.argoproj.io/tracking-id": format!("{APP}:/ConfigMap:x/{LARGE}"),
        }},
        "data": {"x": "x".repeat(LARGEST)},
    });
    let spoke = &pair.names.spoke;
    pair.spoke
        .apply(&At::config_map(spoke, LARGE), large)
        .await?;
    let large = format!("/api/v1/namespaces/{spoke}/configmaps/{LARGE}");
    let log = format!("/api/v1/namespaces/{spoke}/pods/{POD}/log?follow=true&timestamps=true");
    let (large, log) = (["get", "--raw", &large], ["get", "--raw", &log]);
    let pods = look.pods(pair).await?;

    let mut following = look.visitor.follows(&log)?;
    following.until_it_prints("line ", SOON).await?;
    let mut viewer = Viewer::open(&pods, POD).await?;
    viewer.types("echo up $((1 + 1))\n").await?;
    viewer.until_it_reads("up 2").await?;
    lab.faults().set(BETWEEN, Fault::Throttle(SLOWLY));
    let cutting = async {
        let log = || async { Ok(std::fs::read_to_string(pair.agent.log())?) };
        let asked = |log: &String| log.contains(LARGE);
        wait::until("the agent was asked", log, asked).await?;
        lab.faults().cut(BETWEEN);
        Ok(tokio::time::Instant::now())
    };
    let (output, cut) = tokio::join!(look.visitor.run(&large), cutting);
    let (output, cut): (_, Result<_>) = (output?, cut);
    let late = cut?.elapsed();
    ensure!(
        !output.succeeded(),
        "a whole answer came from a cluster that is cut off"
    );
    timeout(AT_ONCE, terminal::ended(viewer))
        .await
        .context("the terminal goes on")??;
    if pair.pairing.principal == Make::Ours {
        ensure!(late < AT_ONCE, "{late:?}: {output:?}");
        ensure!(
            output.err.contains("agent of this cluster") || output.err.contains("session"),
            "{output:?}"
        );
        let ended = following.ended(AT_ONCE).await.context("the log goes on")?;
        ensure!(
            !ended.success(),
            "it looks as if the log had come to its end"
        );
    }

    lab.faults().heal(BETWEEN);
    runs(pair, look).await?;
    works_again(pair, look, (&large, &log)).await
}

async fn works_again(pair: &mut Pair, look: &Look, (large, log): (&[&str], &[&str])) -> Result<()> {
    let whole: Value = serde_json::from_str(&look.visitor.prints(large).await?)?;
    let read = whole["data"]["x"].as_str().map(str::len);
    ensure!(read == Some(LARGEST), "{read:?}");
    let mut following = look.visitor.follows(log)?;
    following.until_it_prints("line ", SOON).await?;
    let mut viewer = Viewer::open(&look.pods(pair).await?, POD).await?;
    viewer.types("exit\n").await?;
    terminal::ended(viewer).await?;
    pair.check()
}
