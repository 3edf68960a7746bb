//! The tab and the panel of an Application.

use anyhow::{Context as _, Result, ensure};
use lab::steps::deliver::{self, Application};

use super::{Ui, View, application_page};
use crate::{
    leaders::kill_hub_program,
    programs::Program,
    stage::{Stage, commit},
};

/// The list of changes on the tab.
const CHANGES: &str = "section[aria-label='Last changes'] tbody";

/// An Application of the greeter on spoke1, which Argo CD's server on the hub finds there.
pub(super) async fn greeter(stage: &Stage, name: &str) -> Result<Application> {
    let mut app = stage.greeter(name, 1).await?;
    "spoke1".clone_into(&mut app.cluster);
    Ok(app)
}

/// The tab shows the way of a delivered Application, its writers, and how long each step of a change took; the panel shows it in short.
pub(crate) async fn tab_and_panel_show_the_way_of_an_application(stage: &Stage) -> Result<()> {
    let ui = Ui::open(stage).await?;
    let app = greeter(stage, "ui-way").await?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let mut page = ui.page().await?;
    page.goes(&application_page("spoke1", "ui-way", View::Delivery))
        .await?;
    let way = [
        "Delivered, and in order",
        "goes to cluster spoke1",
        "admits its namespace and its destination",
        "its agent is connected",
        "confirmed",
        "Synced at",
        "Healthy",
        "a-user",
    ];
    page.until_shows(&way).await?;
    page.until(CHANGES, &["s"], &["waits"]).await?;
    ensure!(
        page.count(&format!("{CHANGES} tr")).await? >= 1,
        "no change"
    );
    page.is_innocent().await?;

    page.goes(&application_page("spoke1", "ui-way", View::Panel))
        .await?;
    let panel = ["AGENT", "connected", "Last delivery:", "ago"];
    page.until_shows(&panel).await?;
    page.is_innocent().await?;
    stage.clear(&app).await
}

/// An open page shows what happens after a restart of the hub program, without a reload.
pub(crate) async fn page_recovers_when_the_hub_program_restarts(stage: &Stage) -> Result<()> {
    let ui = Ui::open(stage).await?;
    let mut app = greeter(stage, "ui-restart").await?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let mut page = ui.page().await?;
    page.goes(&application_page("spoke1", "ui-restart", View::Delivery))
        .await?;
    page.until_shows(&["Delivered, and in order"]).await?;
    let before = Program::Manager.running(stage).await?;
    kill_hub_program()?;

    let repository = stage.lab.git().repository("ui-restart")?;
    let revision = commit(&repository, "again", "v2")?;
    let short = revision.get(..12).context("a long commit")?;
    "v2".clone_into(&mut app.revision);
    app.apply(&stage.hub).await?;
    stage.until_greets(1, &app.namespace, "again").await?;
    let shown = format!("Synced at {short}");
    page.until_shows(&[&shown, "Delivered, and in order"])
        .await?;
    let now = Program::Manager.running(stage).await?;
    ensure!(now != before, "the hub program was not restarted");
    ensure!(page.loads().await? == 1, "the page was loaded again");
    page.is_innocent().await?;
    stage.clear(&app).await
}
