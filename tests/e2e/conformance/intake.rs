//! An add-on without a definition, and one with the longest names. With the example add-on.

use anyhow::{Result, ensure};
use lab::{hello, steps::At, wait};
use serde_json::{Value, json};

use super::guest::Guest;
use crate::stage::Stage;

/// For an add-on without `ClusterManagementAddOn` the manager only writes an Event; it serves the add-on when the
/// definition exists.
pub(crate) async fn add_on_without_definition_is_reported(stage: &Stage) -> Result<()> {
    let guest = Guest::of(stage).await?;
    stage.hub.delete(&hello::definition()).await?;
    stage
        .hub
        .until_gone(&hello::definition(), wait::BOUND)
        .await?;
    let mark = stage.lab.hub().audit().mark()?;
    guest.enable(1, &[]).await?;
    let events = At::event("spoke1");
    let look = || stage.hub.list(&events, "");
    let is_reported = |events: &Vec<Value>| {
        events.iter().any(|event| {
            event["reason"] == "NoClusterManagementAddOn"
                && event["involvedObject"]["name"] == hello::ADDON
        })
    };
    wait::until("an Event that names what is missing", look, is_reported).await?;
    let addon = stage.hub.read(&hello::addon("spoke1")).await?;
    ensure!(
        addon["status"]["registrations"].is_null(),
        "{}",
        addon["status"]
    );
    let written = stage.lab.hub().audit().by(hello::USER, mark)?;
    let written: Vec<_> = written
        .iter()
        .filter(|it| it.is_write() && it.object.as_ref().is_some_and(|it| it.resource != "events"))
        .collect();
    ensure!(written.is_empty(), "nothing but the Event: {written:#?}");
    hello::apply(stage.lab.hub()).await?;
    guest.until_well(1).await?;
    guest.disable(1).await
}

/// An agent is installed into a namespace with the longest name that Kubernetes allows.
pub(crate) async fn a_namespace_of_the_longest_name_is_served(stage: &Stage) -> Result<()> {
    let guest = Guest::of(stage).await?;
    let longest = "n".repeat(63);
    guest.enable(1, &[]).await?;
    guest
        .configure_with(1, json!({ "agentInstallNamespace": longest }))
        .await?;
    guest.until_well(1).await?;
    let agent = At::deployment(&longest, hello::ADDON);
    stage.spoke(1).until_there(&agent, wait::BOUND).await?;
    guest.disable(1).await?;
    stage.spoke(1).delete(&At::namespace(&longest)).await
}
