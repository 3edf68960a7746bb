//! A cluster that owns its Applications, and one end of which is Go's, looked at from the hub.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use lab::{
    Lab,
    peers::{Make, Mapping, Pair, Pairing, Way},
};

use super::{Look, POD, begin, changes::changes, end, sees};
use crate::terminal::{self, Viewer};

/// Manifests, logs and changes are those of any cluster; terminals there are between our own ends only.
pub(crate) async fn live_views_work_for_autonomous_clusters(
    lab: Arc<Lab>,
    pairing: Pairing,
    way: Way,
) -> Result<()> {
    let (pair, look) = begin(&lab, pairing, (way, "own", Mapping::Autonomous)).await?;
    let result = works(&pair, &look).await;
    end(pair, result).await
}

async fn works(pair: &Pair, look: &Look) -> Result<()> {
    sees(pair, &look.visitor).await?;
    let opened = Viewer::open(&look.pods(pair).await?, POD).await;
    if (pair.pairing.principal, pair.pairing.agent) == (Make::Ours, Make::Ours) {
        let mut viewer = opened?;
        viewer.types("exit 4\n").await?;
        terminal::ended_with(viewer, 4).await?;
    } else {
        let refused = opened.err().context("a terminal opens")?;
        ensure!(format!("{refused:#}").contains("400"), "{refused:#}");
    }
    changes(pair, look).await
}
