//! Texts of a hostile cluster on the pages.

use anyhow::{Context as _, Result, ensure};
use lab::steps::At;
use serde_json::{Value, json};

use super::{
    Ui, View, application_page,
    delivery::greeter,
    faults::{break_sources, fails_soon},
    fleet::{FLEET_API, TABLE},
    fleet_page,
    page::{Page, Theme},
};
use crate::stage::Stage;

/// A text that executes where a page takes it for HTML: `window.executed` is what `is_innocent` looks at.
const MARKUP: &str = "<img src=x onerror=\"window.executed=1\"><script>window.executed=1</script>";
/// The same as a name that gets as far as the API of the cluster.
const IMAGE: &str = "<img src=x onerror=\"window.executed=1\">";
/// Their beginning, as a user reads it.
const READ: &str = "<img src=x";
/// The length of a message, and the most of it that a page shows.
const MESSAGE: usize = 1 << 20;
const SHOWN: usize = 64 << 10;

/// Markup in the error of a sync and in a condition of the add-on arrives through the hub program; labels with markup and a message of 1 MB,
/// which Kubernetes and the hub program do not let pass, are fixtures. All is shown as text, cut, and nothing is executed.
pub(crate) async fn hostile_texts_are_shown_and_never_executed(stage: &Stage) -> Result<()> {
    let ui = Ui::open(stage).await?;
    let mut page = ui.page().await?;

    let mut app = greeter(stage, "ui-hostile").await?;
    break_sources(stage, &mut app, IMAGE)?;
    fails_soon(stage, &app).await?;
    let tab = application_page("spoke1", "ui-hostile", View::Delivery);
    page.goes(&tab).await?;
    page.until_shows(&["Failed", READ]).await?;
    page.is_innocent().await?;
    condition_is_text(stage, &mut page).await?;

    let (target, at) = (
        "/extensions/argocd-agent/api/v1/applications",
        ("spoke1", "ui-hostile"),
    );
    let target = format!("{target}/spoke1/ui-hostile/path");
    let (status, path) = page.asks(&target, at, "ui-hostile").await?;
    ensure!(status == 200, "{status}: {path}");
    let long = with_long_message(&path)?;
    let fleet = with_hostile_labels(ui.fleet(&mut page).await?)?;

    page.becomes(&ui.console.token()?, Theme::Light).await?;
    page.answers(&target, &long).await?;
    page.answers(FLEET_API, &fleet).await?;
    page.goes(&tab).await?;
    let shown = page.until_shows(&[READ, "show all"]).await?;
    ensure!(shown.len() < SHOWN, "{} bytes are shown", shown.len());
    page.clicks("button", "show all").await?;
    let shown = page.until_shows(&["show less"]).await?;
    ensure!(shown.len() < SHOWN, "{} bytes are shown", shown.len());
    page.goes(fleet_page()).await?;
    page.until(TABLE, &[READ], &[]).await?;
    page.fills("searchbox", "Text", READ).await?;
    page.until(TABLE, &[READ], &[]).await?;
    page.is_innocent().await?;
    stage.clear(&app).await
}

/// A condition of the add-on with markup, as long as Kubernetes permits, is cut on the page of the cluster.
async fn condition_is_text(stage: &Stage, page: &mut Page) -> Result<()> {
    const KIND: &str = "Hostile";
    let at = At::addon("spoke1");
    let addon = stage.hub.read(&at).await?;
    let before = &addon["status"]["conditions"];
    let mut conditions = before.as_array().context("conditions")?.clone();
    let since = conditions
        .first()
        .map(|it| it["lastTransitionTime"].clone());
    let message = format!("{MARKUP}{}", "x".repeat(30 << 10));
    conditions.push(json!({
        "type": KIND, "status": "True", "reason": KIND, "message": message, "lastTransitionTime": since,
    }));
    let status = json!({"status": {"conditions": conditions}});
    stage.hub.merge_status(&at, status).await?;
    page.goes(&format!("{}?cluster=spoke1", fleet_page()))
        .await?;
    let shown = page
        .until("[aria-label=Conditions]", &[KIND, READ], &[])
        .await?;
    ensure!(shown.len() < SHOWN, "{} bytes are shown", shown.len());
    page.is_innocent().await?;
    let now = stage.hub.read(&at).await?;
    let mut left = now["status"]["conditions"].clone();
    if let Some(left) = left.as_array_mut() {
        left.retain(|it| it["type"] != KIND);
    }
    let status = json!({"status": {"conditions": left}});
    stage.hub.merge_status(&at, status).await.map(drop)
}

/// The path of an Application with a message of 1 MB in each hop.
fn with_long_message(path: &str) -> Result<Value> {
    let mut path: Value = serde_json::from_str(path).with_context(|| path.to_owned())?;
    let message = MARKUP.repeat(MESSAGE / MARKUP.len() + 1);
    let hop = path["hops"].get_mut(0).context("a hop")?;
    hop["what"] = message.into();
    Ok(path)
}

/// The fleet with markup in all texts of its first cluster.
fn with_hostile_labels(mut fleet: Value) -> Result<Value> {
    let cluster = fleet["clusters"].get_mut(0).context("a cluster")?;
    cluster["name"] = MARKUP.into();
    cluster["version"] = MARKUP.into();
    cluster["clusterSet"] = MARKUP.into();
    cluster["labels"] = json!({MARKUP: MARKUP, "javascript:window.executed=1": "\u{202e}"});
    Ok(fleet)
}
