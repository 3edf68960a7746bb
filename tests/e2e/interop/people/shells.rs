//! Terminals where one end is Go's: on a stream of their own beside the session.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use lab::{
    Lab,
    peers::{Make, Mapping, Pair, Pairing, Way},
};

use super::{Look, POD, STRANGER, begin, end, runs};
use crate::terminal::{self, Viewer};

/// A shell is opened, has the size of its window, ends with its code, with its viewer and with its agent; in a Pod of no
/// Application there is none.
pub(crate) async fn people_at_the_hub_open_terminals(
    lab: Arc<Lab>,
    pairing: Pairing,
    way: Way,
) -> Result<()> {
    // Go's principal reports no exit codes; a Go agent cuts off its last message where a stream is a WebSocket.
    let reports_exit_codes = match pairing.principal {
        Make::Ours => pairing.agent == Make::Ours || way.agent.is_empty(),
        Make::Go => false,
    };
    let (mut pair, look) = begin(&lab, pairing, (way, "shell", Mapping::Namespace)).await?;
    let result = opens(&lab, &mut pair, &look, reports_exit_codes).await;
    end(pair, result).await
}

async fn opens(lab: &Lab, pair: &mut Pair, look: &Look, reports_exit_codes: bool) -> Result<()> {
    let pods = look.pods(pair).await?;
    let mut viewer = Viewer::open(&pods, POD).await?;
    viewer.resized(111, 37).await?;
    viewer.types("echo typed $((1 + 1)); exit 5\n").await?;
    viewer.until_it_reads("typed 2").await?;
    if reports_exit_codes {
        terminal::ended_with(viewer, 5).await?;
    } else {
        terminal::ended(viewer).await?;
    }
    let both_go = pair.pairing.principal == Make::Go && pair.pairing.agent == Make::Go;
    // A Go agent with a Go principal opens one in any Pod, and does not end a command that reads no input.
    if !both_go {
        a_stranger_is_refused(pair, &pods).await?;
        a_command_ends_with_its_viewer(lab, pair, &pods).await?;
    }
    let mut viewer = Viewer::open(&pods, POD).await?;
    viewer.types("echo up $((1 + 1))\n").await?;
    viewer.until_it_reads("up 2").await?;
    pair.agent.kill().await;
    terminal::ended(viewer).await?;
    pair.start_agent().await?;
    runs(pair, look).await?;
    let mut viewer = Viewer::open(&pods, POD).await?;
    viewer.types("exit\n").await?;
    terminal::ended(viewer).await
}

async fn a_stranger_is_refused(pair: &Pair, pods: &Api<Pod>) -> Result<()> {
    let opened = Viewer::open(pods, STRANGER).await;
    match pair.pairing.principal {
        Make::Ours => {
            let refused = opened.err().context("it opens")?;
            ensure!(format!("{refused:#}").contains("403"), "{refused:#}");
            Ok(())
        }
        // Go's principal opens the window before it asks.
        Make::Go => terminal::ended(opened?).await,
    }
}

/// A command that neither reads nor writes does not notice the disconnect by itself.
async fn a_command_ends_with_its_viewer(lab: &Lab, pair: &Pair, pods: &Api<Pod>) -> Result<()> {
    let mut viewer = Viewer::open(pods, POD).await?;
    viewer
        .types("echo $$ > /tmp/shell; echo known $((1 + 1)); exec sleep 600\n")
        .await?;
    viewer.until_it_reads("known 2").await?;
    drop(viewer);
    let there = Api::namespaced(lab.spoke(1).client(), &pair.names.spoke);
    let mut witness = Viewer::open(&there, POD).await?;
    witness
        .types("while kill -0 $(cat /tmp/shell); do sleep 0.05; done; echo left $((1 + 1))\n")
        .await?;
    witness.until_it_reads("left 2").await
}
