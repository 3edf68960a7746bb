//! The look of the pages: both themes, the content-security policy, and the pictures of the documentation.

use std::{env, path::PathBuf};

use anyhow::{Context as _, Result};
use lab::{steps::deliver, tools::workspace};

use super::{
    Ui, View, application_page,
    delivery::greeter,
    fleet::TABLE,
    fleet_page,
    page::{Page, Theme},
};
use crate::stage::Stage;

/// With this variable the test writes the pictures of the documentation.
const PICTURES: &str = "UI_PICTURES";

/// axe-core finds nothing serious on the pages in light and dark, and the policy of the shell, which permits no inline script or style, refuses
/// them nothing. With `UI_PICTURES=1` it writes `docs/images`.
pub(crate) async fn both_themes_are_accessible_under_a_strict_policy(stage: &Stage) -> Result<()> {
    let ui = Ui::open(stage).await?;
    let app = greeter(stage, "ui-looks").await?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let mut page = ui.page().await?;
    for theme in [Theme::Light, Theme::Dark] {
        page.becomes(&ui.console.token()?, theme).await?;
        // Argo CD has one of two versions of React, by its own.
        let react = if theme == Theme::Light { 16 } else { 19 };
        let name = theme.name();
        let options = format!("theme={name}&react={react}");
        page.goes(&format!("{}?{options}", fleet_page())).await?;
        page.until(TABLE, &["spoke1", "spoke2"], &[]).await?;
        looks_well(&mut page, "fleet", theme).await?;
        page.goes(&format!("{}?cluster=spoke1&{options}", fleet_page()))
            .await?;
        page.until_shows(&["Cluster spoke1", "The last hour"])
            .await?;
        looks_well(&mut page, "cluster", theme).await?;
        let tab = application_page("spoke1", "ui-looks", View::Delivery);
        page.goes(&format!("{tab}&{options}")).await?;
        page.until_shows(&["Delivered, and in order", "Synced at"])
            .await?;
        looks_well(&mut page, "delivery", theme).await?;
        let panel = application_page("spoke1", "ui-looks", View::Panel);
        page.goes(&format!("{panel}&{options}")).await?;
        page.until_shows(&["AGENT", "connected"]).await?;
        page.is_accessible().await?;
    }
    stage.clear(&app).await
}

async fn looks_well(page: &mut Page, name: &str, theme: Theme) -> Result<()> {
    page.is_innocent().await?;
    let accessible = page.is_accessible().await;
    accessible.with_context(|| format!("{name}, {}", theme.name()))?;
    if env::var_os(PICTURES).is_some_and(|value| value == "1") {
        page.picture(&picture(name, theme)).await?;
    }
    Ok(())
}

/// The file of a picture in the documentation.
fn picture(name: &str, theme: Theme) -> PathBuf {
    let folder = workspace().join("docs/images");
    folder.join(format!("{name}-{}.png", theme.name()))
}
