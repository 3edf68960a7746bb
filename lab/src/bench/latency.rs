//! The latency of repeated changes, from the hub to a spoke and back.

use std::time::Duration;

use anyhow::Result;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_stream::wrappers::IntervalStream;

use super::{applications, figures::Times, observer::Observer};
use crate::{
    peers::{Names, Pair},
    steps::At,
};

/// The Application whose spec changes.
pub(super) const PROBE: &str = "probe";
/// A change that takes longer counts as missing.
const LATE: Duration = Duration::from_secs(30);
/// The longest time for sampling latencies.
const SAMPLING: Duration = Duration::from_secs(45);

/// Changes the probe repeatedly, one change after the other; `word` distinguishes these changes from others.
pub(super) async fn of_spec_changes(
    pair: &Pair,
    spoke: &Observer,
    word: &str,
    samples: usize,
) -> Result<Times> {
    let Names {
        agent,
        spoke: namespace,
        ..
    } = &pair.names;
    let at = At::application(agent, PROBE);
    let mut times = Times::within(LATE);
    let end = Instant::now() + SAMPLING;
    while times.count() < samples && Instant::now() < end {
        let revision = format!("{word}-{}", times.count());
        let begin = Instant::now();
        pair.hub.merge(&at, applications::wanted(&revision)).await?;
        let there = spoke.until(LATE, |seen| {
            let probe = seen.get(namespace, PROBE);
            probe.is_some_and(|probe| probe.wanted == revision)
        });
        times.add(there.await.map(|at| at - begin));
    }
    Ok(times)
}

/// The interval of changes of a busy Application's status.
const BUSY: Duration = Duration::from_millis(100);
/// The changes whose latency is awaited at the same time.
const AWAITED: usize = 1000;

/// Changes the status of the probe on the spoke at [`BUSY`] intervals. Each latency ends when the hub shows this status or
/// a later one.
pub(super) async fn of_statuses(pair: &Pair, hub: &Observer, samples: usize) -> Result<Times> {
    let Names { agent, spoke, .. } = &pair.names;
    let at = At::application(spoke, PROBE);
    let mut ticks = interval(BUSY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let started = Instant::now();
    let changes = IntervalStream::new(ticks)
        .zip(stream::iter(0..samples))
        .take_while(|_| std::future::ready(started.elapsed() < SAMPLING));
    let latencies = changes
        .map(|(_tick, number)| {
            let at = &at;
            async move {
                let begin = Instant::now();
                let status = applications::status(&format!("busy-{number}"));
                pair.spoke.merge(at, json!({ "status": status })).await?;
                let shown = hub.until(LATE, |seen| {
                    let probe = seen.get(agent, PROBE);
                    let shown = probe.and_then(|probe| probe.deployed.strip_prefix("busy-"));
                    let shown = shown.and_then(|shown| shown.parse::<usize>().ok());
                    shown.is_some_and(|shown| shown >= number)
                });
                anyhow::Ok(shown.await.map(|at| at - begin))
            }
        })
        .buffer_unordered(AWAITED);
    let add = |mut times: Times, latency| async move {
        times.add(latency);
        anyhow::Ok(times)
    };
    latencies.try_fold(Times::within(LATE), add).await
}
