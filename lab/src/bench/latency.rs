//! The latency of repeated changes from the hub to a spoke.

use std::time::Duration;

use anyhow::Result;
use tokio::time::Instant;

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
