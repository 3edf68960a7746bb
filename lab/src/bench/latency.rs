//! How long a change takes from the hub to a spoke, time after time.

use std::time::Duration;

use anyhow::Result;
use tokio::time::Instant;

use super::{applications, figures::Times, sight::Sight};
use crate::{
    peers::{Names, Pair},
    steps::At,
};

/// The Application whose spec changes.
pub(super) const PROBE: &str = "probe";
/// A change that takes longer is not waited for.
const LATE: Duration = Duration::from_secs(30);
/// So long latencies are taken at most.
const SAMPLING: Duration = Duration::from_secs(45);

/// Changes the probe again and again, one change after the other; `word` tells these changes from others.
pub(super) async fn of_spec_changes(
    pair: &Pair,
    spoke: &Sight,
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
