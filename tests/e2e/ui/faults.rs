//! Five faults that were chosen before the pages were made. The page of the Application, and nothing else, names the cause and the next step.

use std::time::Duration;

use anyhow::Result;
use lab::{
    faults::Fault,
    steps::{
        At,
        deliver::{self, Application},
        enrol::{self, ARGOCD},
        workload,
    },
    wait::BOUND,
};
use serde_json::{Value, json};

use super::{Ui, View, application_page, delivery::greeter, fleet::TABLE, fleet_page};
use crate::stage::{SOON, Stage};

/// Opens the tab of an Application, and waits for these texts; then the panel, and waits for the first of them.
async fn finds(ui: &Ui<'_>, at: (&str, &str), texts: &[&str], panel: &str) -> Result<()> {
    let mut page = ui.page().await?;
    page.goes(&application_page(at.0, at.1, View::Delivery))
        .await?;
    page.until_shows(texts).await?;
    page.goes(&application_page(at.0, at.1, View::Panel))
        .await?;
    page.until_shows(&["AGENT", panel]).await?;
    page.is_innocent().await
}

/// The project does not permit the namespace of the destination.
pub(crate) async fn refusing_project_is_found_on_the_page(stage: &Stage) -> Result<()> {
    let ui = Ui::open(stage).await?;
    let app = greeter(stage, "ui-refused").await?;
    let destinations = json!([{"name": "spoke1", "server": "*", "namespace": "elsewhere"}]);
    let narrow = json!({"spec": {"destinations": destinations}});
    let project = At::project(ARGOCD, "ui-refused");
    stage.hub.merge(&project, narrow).await?;
    app.apply(&stage.hub).await?;
    let texts = [
        "spec.destinations",
        "\"ui-refused\" is not admitted",
        "AppProject argocd/ui-refused",
    ];
    finds(&ui, ("spoke1", "ui-refused"), &texts, "not admitted").await?;
    clear_undelivered(stage, &app).await
}

/// The network between the agent and the hub is cut. The fleet page shows it, too, and both recover by themselves.
pub(crate) async fn disconnected_agent_is_found_on_the_page(stage: &Stage) -> Result<()> {
    let ui = Ui::open(stage).await?;
    let app = greeter(stage, "ui-away").await?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    stage.lab.faults().set("spoke1", Fault::Cut);
    let found = async {
        let texts = [
            "its agent is not connected",
            "workloads keep running",
            "argocd-agentctl status spoke1",
        ];
        finds(&ui, ("spoke1", "ui-away"), &texts, "not connected").await?;
        let mut page = ui.page().await?;
        page.goes(fleet_page()).await?;
        page.until(TABLE, &["disconnected"], &[]).await?;
        anyhow::Ok(page)
    };
    let found = found.await;
    stage.lab.faults().heal("spoke1");
    let mut page = found?;
    page.until(TABLE, &["spoke1"], &["disconnected"]).await?;
    enrol::until_available(&stage.hub, "spoke1").await?;
    stage.clear(&app).await
}

/// The destination is no cluster that the hub knows.
pub(crate) async fn unknown_destination_is_found_on_the_page(stage: &Stage) -> Result<()> {
    let ui = Ui::open(stage).await?;
    let mut app = greeter(stage, "ui-unknown").await?;
    app.at = At::application(ARGOCD, "ui-unknown");
    "nowhere".clone_into(&mut app.cluster);
    app.apply(&stage.hub).await?;
    let texts = ["nowhere", "spec.destination.name"];
    finds(&ui, (ARGOCD, "ui-unknown"), &texts, "nowhere").await?;
    clear_undelivered(stage, &app).await
}

/// An older Application has the name on the cluster.
pub(crate) async fn name_conflict_is_found_on_the_page(stage: &Stage) -> Result<()> {
    let ui = Ui::open(stage).await?;
    let first = greeter(stage, "ui-name").await?;
    first.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &first.at, "").await?;
    // Creation times are whole seconds, and the delivery may take less.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut second = first.clone();
    second.at = At::application(ARGOCD, "ui-name");
    second.apply(&stage.hub).await?;
    let texts = [
        "the name is taken by the older Application in namespace spoke1",
        "create one of the two again under another name",
    ];
    finds(&ui, (ARGOCD, "ui-name"), &texts, "name is taken").await?;
    clear_loser(stage, &second).await?;
    stage.clear(&first).await
}

/// The API of the cluster refuses a manifest of the repository.
pub(crate) async fn failed_sync_is_found_on_the_page(stage: &Stage) -> Result<()> {
    let ui = Ui::open(stage).await?;
    let mut app = greeter(stage, "ui-failed").await?;
    break_sources(stage, &mut app, "Not_A_Name")?;
    fails_soon(stage, &app).await?;
    let texts = ["Failed", "Not_A_Name", "fix the cause in the message"];
    finds(&ui, ("spoke1", "ui-failed"), &texts, "Failed").await?;
    stage.clear(&app).await
}

/// Adds a `ConfigMap` with a name that no API accepts to the sources of the greeter's Application.
pub(super) fn break_sources(stage: &Stage, app: &mut Application, bad: &str) -> Result<()> {
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": bad}});
    let repository = stage.lab.git().repository(app.at.name())?;
    let file = format!("{}/bad.json", workload::PATH);
    repository.commit("bad", &[(&file, &manifest.to_string())])?;
    "bad".clone_into(&mut app.revision);
    repository.tag("bad")
}

/// Applies an Application whose syncs fail within seconds: by default Argo CD tries again for minutes. One more attempt is needed where
/// it meets the Application before its project.
pub(super) async fn fails_soon(stage: &Stage, app: &Application) -> Result<()> {
    let mut body = app.body();
    body["spec"]["syncPolicy"]["retry"] =
        json!({"limit": 2, "backoff": {"duration": "1s", "factor": 1, "maxDuration": "1s"}});
    stage.hub.apply(&app.at, body).await.map(drop)
}

/// Removes an Application whose finalizer only the cluster would take away, and its project.
async fn clear_undelivered(stage: &Stage, app: &Application) -> Result<()> {
    clear_loser(stage, app).await?;
    let project = At::project(ARGOCD, &app.project);
    stage.hub.delete(&project).await?;
    stage
        .hub
        .until(&project, "is gone", SOON, Value::is_null)
        .await?;
    Ok(())
}

/// The same without its project.
async fn clear_loser(stage: &Stage, app: &Application) -> Result<()> {
    let none = json!({"metadata": {"finalizers": null}});
    stage.hub.merge(&app.at, none).await?;
    stage.hub.delete(&app.at).await?;
    stage.hub.until_gone(&app.at, BOUND).await
}
