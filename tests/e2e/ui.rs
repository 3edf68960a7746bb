//! The pages of the add-on inside Argo CD's UI, in a real browser: the bundle as the real argocd-server of the lab serves it, the real hub
//! program behind it, and `hub setup` between the two.
//!
//! Argo CD's shell around the pages is a stand-in (`ui/browser/shell.ts`), because the Argo CD that the lab builds has no UI. With `ARGOCD_UI_BIN`
//! the same tests run in the real one, and [`clicks`] uses the rest of it. What else is not real is named a fixture: `Page::answers` replaces an answer of the hub program.

mod access;
mod clicks;
mod delivery;
mod faults;
mod fleet;
mod hostile;
mod looks;
mod page;

use std::env;

use anyhow::{Context as _, Result, ensure};
use lab::{
    Options, argocd,
    e2e_test::{E2eTest, TestGroup},
    product,
    steps::{
        At,
        enrol::ARGOCD,
        ui::{Server, switch_on},
    },
    tools::{
        ARGOCD_UI,
        browser::{Browser, missing},
    },
};
use serde_json::{Value, json};

use crate::{
    console::line::Console,
    stage::{self, Stage},
    ui,
};
use page::{Page, Theme};

/// The guard of the fleet: its project has the same name.
const GUARD: &str = "argocd-agent-fleet";
/// The Service of the hub program's HTTP API.
const API: &str = "argocd-agent-addon-ui";
/// The setting of Argo CD's server with the extensions.
const EXTENSIONS: &str = "extension.config.argocd-agent";

/// The tests of one lab, in this order.
pub(crate) fn chapter() -> TestGroup {
    let no_browser = missing();
    let tests = [shown(no_browser), guarded(no_browser), clicked(no_browser)];
    TestGroup::shared(Options::everything(2), tests.concat())
}

/// What the pages show.
fn shown(needs: Option<&'static str>) -> Vec<E2eTest> {
    vec![
        staged!(ui::fleet::fleet_page_lists_clusters_and_filters_them, needs),
        staged!(ui::fleet::cluster_page_shows_conditions_and_facts, needs),
        staged!(ui::fleet::pages_are_used_with_the_keyboard_alone, needs),
        staged!(
            ui::fleet::five_thousand_rows_leave_the_page_responsive,
            needs
        ),
        staged!(
            ui::delivery::tab_and_panel_show_the_way_of_an_application,
            needs
        ),
        staged!(
            ui::delivery::page_recovers_when_the_hub_program_restarts,
            needs
        ),
        staged!(ui::faults::refusing_project_is_found_on_the_page, needs),
        staged!(ui::faults::disconnected_agent_is_found_on_the_page, needs),
        staged!(ui::faults::unknown_destination_is_found_on_the_page, needs),
        staged!(ui::faults::name_conflict_is_found_on_the_page, needs),
        staged!(ui::faults::failed_sync_is_found_on_the_page, needs),
        staged!(
            ui::looks::both_themes_are_accessible_under_a_strict_policy,
            needs
        ),
    ]
}

/// What they keep from others.
fn guarded(needs: Option<&'static str>) -> Vec<E2eTest> {
    vec![
        staged!(
            ui::hostile::hostile_texts_are_shown_and_never_executed,
            needs
        ),
        staged!(ui::access::forged_headers_are_refused),
        staged!(ui::access::account_without_the_guard_learns_nothing, needs),
    ]
}

/// The rest of Argo CD's UI.
fn clicked(no_browser: Option<&'static str>) -> Vec<E2eTest> {
    let needs = no_browser.or(Some(ARGOCD_UI));
    vec![
        staged!(
            ui::clicks::application_on_a_spoke_is_used_in_the_real_ui,
            needs
        ),
        staged!(
            ui::clicks::limited_account_and_lost_agent_in_the_real_ui,
            needs
        ),
    ]
}

/// Argo CD's server of the hub with the pages, and its admin.
pub(super) struct Ui<'a> {
    stage: &'a Stage,
    console: Console,
    server: Server,
}

impl<'a> Ui<'a> {
    /// Switches the pages on, unless an earlier test has, and logs in.
    async fn open(stage: &'a Stage) -> Result<Self> {
        // `hub setup` enters the namespaces of the clusters that are there.
        stage.enrolled(1).await?;
        stage.enrolled(2).await?;
        let settings = stage.hub.get(&At::config_map(ARGOCD, "argocd-cm")).await?;
        let is_on = |it: &Value| it["data"][EXTENSIONS].is_string();
        if !settings.as_ref().is_some_and(is_on) {
            switch_on(&stage.lab, &[]).await?;
        }
        let console = Console::on(stage).await?;
        let server = Server::of(&stage.hub).await?;
        Ok(Self {
            stage,
            console,
            server,
        })
    }

    /// A page of the admin in a new browser.
    async fn page(&self) -> Result<Page> {
        self.page_of(&self.console, Theme::Light).await
    }

    /// The same of a user who is logged in.
    async fn page_of(&self, user: &Console, theme: Theme) -> Result<Page> {
        self.page_with(&user.token()?, theme).await
    }

    /// The same with a session; an empty one is of a user who has not logged in.
    async fn page_with(&self, token: &str, theme: Theme) -> Result<Page> {
        let log = self.stage.lab.dir().join("browser.log");
        let mut page = Page::start(&Browser::find()?, &self.server, &log).await?;
        page.becomes(token, theme).await?;
        Ok(page)
    }

    /// The fleet as argocd-server passes the hub program's answer on.
    async fn fleet(&self, page: &mut Page) -> Result<Value> {
        let target = "/extensions/argocd-agent-fleet/api/v1/fleet";
        let (status, body) = page.asks(target, (ARGOCD, GUARD), GUARD).await?;
        ensure!(status == 200, "{status}: {body}");
        serde_json::from_str(&body).with_context(|| body.clone())
    }
}

/// A part of the page of an Application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    /// The tab "Delivery".
    Delivery,
    /// The item of the status panel.
    Panel,
}

/// The path of a part of the page of an Application.
fn application_page(namespace: &str, name: &str, view: View) -> String {
    let page = format!("applications/{namespace}/{name}");
    match (is_real(), view) {
        (false, View::Delivery) => format!("/shell/{page}?view=delivery"),
        (false, View::Panel) => format!("/shell/{page}?view=panel"),
        (true, View::Delivery) => format!("/{page}?view=Delivery"),
        (true, View::Panel) => format!("/{page}?view=tree"),
    }
}

/// The path of the fleet page.
fn fleet_page() -> &'static str {
    if is_real() { "/fleet" } else { "/shell/fleet" }
}

/// Whether the browser sees Argo CD's own UI, and not the stand-in for its shell.
fn is_real() -> bool {
    env::var_os(ARGOCD_UI).is_some_and(|path| !path.is_empty())
}

/// The address of the hub program's API among the Services.
async fn api_address(stage: &Stage) -> Result<String> {
    let service = stage
        .hub
        .read(&At::service(product::NAMESPACE, API))
        .await?;
    let ip = service["spec"]["clusterIP"].as_str().context("an IP")?;
    Ok(format!("{ip}:8081"))
}

/// Changes a setting of the hub's Argo CD.
async fn set(stage: &Stage, name: &str, data: Value) -> Result<()> {
    let at = At::config_map(argocd::NAMESPACE, name);
    let body = json!({ "data": data });
    stage.hub.merge(&at, body).await.map(drop)
}
