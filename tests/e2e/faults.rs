//! Faults in the middle of a change: both sides recover without a restart of anything else.

use anyhow::{Result, ensure};
use lab::steps::{
    At,
    deliver::{self, Application},
    enrol,
    objects::has_condition,
};
use serde_json::Value;

use crate::{
    programs::Program,
    stage::{SOON, Stage, commit},
};

/// An Application that changes during a fault, and the checks that it recovered.
struct Change<'a> {
    stage: &'a Stage,
    app: Application,
}

impl<'a> Change<'a> {
    /// An Application at rest.
    async fn begin(stage: &'a Stage, name: &str) -> Result<Self> {
        stage.enrolled(1).await?;
        let app = stage.greeter(name, 1).await?;
        app.apply(&stage.hub).await?;
        deliver::until_healthy(&stage.hub, &app.at, "").await?;
        Ok(Self { stage, app })
    }

    /// Changes it on the hub; returns the commit that has to arrive.
    async fn change(&mut self) -> Result<String> {
        let repository = self.stage.lab.git().repository(&self.app.project)?;
        let next = commit(&repository, "after-the-fault", "v2")?;
        "v2".clone_into(&mut self.app.revision);
        self.app.apply(&self.stage.hub).await?;
        Ok(next)
    }

    /// The change arrived, its state came back, and there is one of each.
    async fn end(self, next: &str) -> Result<()> {
        deliver::until_healthy(&self.stage.hub, &self.app.at, next).await?;
        self.stage
            .until_greets(1, &self.app.namespace, "after-the-fault")
            .await?;
        let replicas = self.stage.spoke(1).list(&Stage::replica(""), "").await?;
        let named = replicas
            .iter()
            .filter(|r| r["metadata"]["name"] == *self.app.project)
            .count();
        ensure!(named == 1, "{named} replicas");
        self.stage.clear(&self.app).await
    }
}

/// The connection of a spoke is cut while both sides change; after the reconnect both sides agree.
pub(crate) async fn a_disconnected_spoke_catches_up_after_its_reconnect(
    stage: &Stage,
) -> Result<()> {
    let mut change = Change::begin(stage, "cut-off").await?;
    let removed = stage.greeter("cut-off-removed", 1).await?;
    removed.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &removed.at, "").await?;

    stage.lab.faults().cut("spoke1");
    let next = change.change().await?;
    stage.hub.delete(&removed.at).await?;
    let drifted = serde_json::json!({"spec": {"source": {"path": "elsewhere"}}});
    stage
        .spoke(1)
        .merge(&Stage::replica("cut-off"), drifted)
        .await?;
    let healed = |app: &Value| app["spec"]["source"]["path"] != "elsewhere";
    let what = "is as the hub wanted it last, without the hub";
    stage
        .spoke(1)
        .until(&Stage::replica("cut-off"), what, SOON, healed)
        .await?;
    stage.lab.faults().heal("spoke1");

    stage.hub.until_gone(&removed.at, lab::wait::BOUND).await?;
    stage
        .spoke(1)
        .until_gone(&Stage::replica("cut-off-removed"), SOON)
        .await?;
    stage.clear(&removed).await?;
    change.end(&next).await
}

/// Both ends detect a stalled connection, and the hub reports the disconnect. When the network recovers the agent
/// reconnects, and no process restarts.
pub(crate) async fn a_stalled_connection_is_replaced_by_a_reconnect(stage: &Stage) -> Result<()> {
    let mut change = Change::begin(stage, "stalled").await?;
    let manager = Program::Manager.running(stage).await?;
    let agent = Program::Agent(1).running(stage).await?;
    let silent = "argocd_agent_link_ends_total{reason=\"Silent\"}";
    let connected = "argocd_principal_connected_agents";
    let silences = agent.metrics().await?.value(silent);
    let sessions = manager.metrics().await?.value(connected);

    stage.lab.faults().set("spoke1", lab::faults::Fault::Stall);
    let next = change.change().await?;
    agent.until_counts(silent, silences + 1.0).await?;
    manager.until_counts(connected, sessions - 1.0).await?;
    let is_reported =
        |addon: &Value| has_condition(addon, "Available", "False", "AgentDisconnected");
    let what = "says that the agent is not connected";
    stage
        .hub
        .until(&At::addon("spoke1"), what, lab::wait::BOUND, is_reported)
        .await?;

    stage.lab.faults().heal("spoke1");
    change.end(&next).await?;
    enrol::until_available(&stage.hub, "spoke1").await?;
    manager.still_runs(stage).await?;
    agent.still_runs(stage).await
}

/// The hub's API server restarts while a change is on its way.
pub(crate) async fn a_restarted_hub_api_loses_nothing(stage: &Stage) -> Result<()> {
    let mut change = Change::begin(stage, "hub-api").await?;
    let next = change.change().await?;
    stage.lab.hub().kill_api().await;
    stage.lab.hub().start_api().await?;
    change.end(&next).await
}
