//! Many clusters on one hub: the measurement of `make bench`, with fewer clusters.

use std::sync::Arc;

use anyhow::{Result, ensure};
use lab::{Lab, bench::scale};

const CLUSTERS: usize = 40;

/// An install takes at most four writes to add-ons and works of each cluster; a look at all of them that finds nothing
/// new, and a restart, take none at all.
pub(crate) async fn simulated_clusters_take_at_most_four_writes_each(lab: Arc<Lab>) -> Result<()> {
    let measured = scale::measure(lab, CLUSTERS).await?;
    let installed = &measured.install;
    ensure!((1..=4).contains(&installed.most), "{installed:#?}");
    let written = installed.writes.iter();
    let works = written.filter(|(what, _)| what.starts_with("patch manifestworks."));
    let works: usize = works.map(|(_, count)| count).sum();
    ensure!(works == CLUSTERS, "one work for each: {installed:#?}");
    for (what, cost) in [
        ("a look at all", &measured.no_op),
        ("a restart", &measured.restart),
    ] {
        ensure!(cost.total() == 0, "{what}: {cost:#?}");
    }
    Ok(())
}
