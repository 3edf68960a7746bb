//! An add-on with a hook goes: the hook first, and never later than its deadline. With the example add-on.

use anyhow::{Context as _, Result, ensure};
use lab::{
    hello,
    steps::{At, enrol::AGENT_NAMESPACE},
    wait,
};
use serde_json::Value;

use super::guest::Guest;
use crate::stage::Stage;

const FINALIZER: &str = "addon.open-cluster-management.io/addon-pre-delete";

/// The `ConfigMap` that the hook writes on its cluster.
fn goodbye() -> At {
    At::config_map(AGENT_NAMESPACE, "hello-goodbye")
}

async fn until_hooked(guest: &Guest<'_>, number: usize) -> Result<()> {
    let addon = hello::addon(&format!("spoke{number}"));
    let kept = |it: &Value| {
        let all = it["metadata"]["finalizers"].as_array();
        all.is_some_and(|all| all.iter().any(|one| one == FINALIZER))
    };
    let what = "has the finalizer for its hook";
    guest
        .hub
        .until(&addon, what, wait::BOUND, kept)
        .await
        .map(drop)
}

/// Waits for the Event that reports an abandoned hook.
async fn until_given_up(guest: &Guest<'_>, cluster: &str) -> Result<()> {
    let events = At::event(cluster);
    let look = || guest.hub.list(&events, "");
    let is_reported = |events: &Vec<Value>| {
        events.iter().any(|event| {
            event["reason"] == "PreDeleteHookGivenUp"
                && event["involvedObject"]["name"] == hello::ADDON
        })
    };
    wait::until("an Event that the hook was given up", look, is_reported)
        .await
        .map(drop)
}

/// The hook runs while everything is still there; then all goes.
pub(crate) async fn a_hook_runs_before_an_add_on_goes(stage: &Stage) -> Result<()> {
    let guest = Guest::of(stage).await?;
    stage.spoke(1).delete(&goodbye()).await?;
    guest.enable(1, &[("GOODBYE", "so long")]).await?;
    guest.until_well(1).await?;
    until_hooked(&guest, 1).await?;
    ensure!(
        stage.spoke(1).get(&goodbye()).await?.is_none(),
        "not before it goes"
    );
    guest.disable(1).await?;
    let word = stage.spoke(1).read(&goodbye()).await?;
    ensure!(
        word["data"]["words"] == "so long",
        "the hook ran to its end: {word}"
    );
    stage.spoke(1).delete(&goodbye()).await?;
    for at in [
        At::deployment(AGENT_NAMESPACE, hello::ADDON),
        At::of(
            "batch/v1",
            ("Job", "jobs"),
            Some(AGENT_NAMESPACE),
            "hello-goodbye",
        ),
    ] {
        stage.spoke(1).until_gone(&at, wait::BOUND).await?;
    }
    Ok(())
}

/// A failing hook is abandoned at its deadline, and an Event reports it.
pub(crate) async fn a_hook_that_fails_is_given_up_at_its_deadline(stage: &Stage) -> Result<()> {
    let guest = Guest::of(stage).await?;
    guest
        .set_manager_variable("HOOK_DEADLINE_SECONDS", "20")
        .await?;
    guest.enable(1, &[("GOODBYE", "fail")]).await?;
    guest.until_well(1).await?;
    until_hooked(&guest, 1).await?;
    guest.leave(1).await?;
    let waits = [
        "HookManifestCompleted",
        "False",
        "HookManifestIsNotCompleted",
    ];
    let waiting = guest.until(1, waits).await?;
    let condition = lab::steps::objects::condition(&waiting, waits[0]);
    let message = condition
        .and_then(|condition| condition["message"].as_str())
        .unwrap_or_default();
    ensure!(!message.is_empty(), "what is waited for: {waiting}");
    until_given_up(&guest, "spoke1").await?;
    guest.disable(1).await?;
    guest
        .set_manager_variable("HOOK_DEADLINE_SECONDS", "120")
        .await
}

/// A cluster that is dead cannot run a hook, and keeps its add-on no longer than the deadline.
pub(crate) async fn an_add_on_of_a_dead_cluster_goes_without_its_hook(stage: &Stage) -> Result<()> {
    let guest = Guest::of(stage).await?;
    guest
        .set_manager_variable("HOOK_DEADLINE_SECONDS", "15")
        .await?;
    guest.enable(2, &[]).await?;
    guest.until_well(2).await?;
    until_hooked(&guest, 2).await?;
    {
        let mut ocm = stage.lab.ocm().await?;
        ocm.spokes.get_mut("spoke2").context("spoke2")?.kill();
    }
    guest.leave(2).await?;
    until_given_up(&guest, "spoke2").await?;
    guest
        .hub
        .until_gone(&hello::addon("spoke2"), wait::BOUND)
        .await?;
    {
        let mut ocm = stage.lab.ocm().await?;
        ocm.spokes
            .get_mut("spoke2")
            .context("spoke2")?
            .resume()
            .await?;
    }
    // The objects on the cluster are deleted when it is back.
    guest.disable(2).await?;
    let agent = At::deployment(AGENT_NAMESPACE, hello::ADDON);
    stage.spoke(2).until_gone(&agent, wait::BOUND).await?;
    guest
        .set_manager_variable("HOOK_DEADLINE_SECONDS", "120")
        .await
}
