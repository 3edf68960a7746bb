//! What users do with an Application on a spoke in Argo CD's own UI, which knows nothing of agents. Needs `ARGOCD_UI_BIN`.

use anyhow::{Context as _, Result, ensure};
use lab::{
    faults::Fault,
    steps::{
        At,
        deliver::{self, Application},
        enrol, workload,
    },
};
use serde_json::{Value, json};

use super::{
    Ui,
    delivery::greeter,
    page::{Page, Theme},
    set,
};
use crate::stage::{SOON, Stage};

/// The tree of an Application, the panel of one resource, and the editor that shows its manifest.
const TREE: &str = ".application-details__tree";
const PANEL: &str = ".sliding-panel--opened";
const EDITOR: &str = ".sliding-panel--opened .monaco-editor";
/// An account that may see, and nothing else.
const ACCOUNT: &str = "ui-reader";

/// A user signs in, and uses an Application of a cluster: tree, live manifest, events, log with follow, terminal, difference, refresh, sync,
/// action and deletion; and the add-on's pages beside them.
pub(crate) async fn application_on_a_spoke_is_used_in_the_real_ui(stage: &Stage) -> Result<()> {
    let ui = Ui::open(stage).await?;
    set(stage, "argocd-cm", json!({"exec.enabled": "true"})).await?;
    enrol::with_variable(&stage.hub, "spoke1", "UI_ACCESS", "terminal").await?;
    enrol::until_available(&stage.hub, "spoke1").await?;
    let mut app = greeter(stage, "ui-real").await?;
    app.automated = false;
    let namespace = At::namespace("ui-real");
    stage.spoke(1).apply(&namespace, json!({})).await?;
    app.apply(&stage.hub).await?;

    let mut page = signed_in(&ui).await?;
    page.goes(&details(&app, "")).await?;
    syncs(&mut page).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    page.until(TREE, &[workload::NAME], &[]).await?;
    it_is_looked_at(stage, &mut page, &app).await?;
    it_is_changed(stage, &mut page, &app).await?;
    the_pages_are_beside(&mut page).await?;
    it_is_deleted(stage, &mut page, &app).await?;

    stage.spoke(1).delete(&namespace).await?;
    enrol::without_variables(&stage.hub, "spoke1").await?;
    enrol::until_available(&stage.hub, "spoke1").await.map(drop)
}

/// A browser whose user has signed in with the form.
async fn signed_in(ui: &Ui<'_>) -> Result<Page> {
    let mut page = ui.page_with("", Theme::Light).await?;
    page.goes("/login").await?;
    page.fills_at("input[name=username]", "admin").await?;
    page.fills_at("input[name=password]", &ui.server.password)
        .await?;
    page.clicks("button", "Sign In").await?;
    page.until_shows(&["Applications"]).await?;
    Ok(page)
}

/// The page of an Application, with a part of it in the query.
fn details(app: &Application, query: &str) -> String {
    format!("/applications/spoke1/{}?view=tree&{query}", app.at.name())
}

/// The query that opens a tab of a resource.
fn node(group: &str, kind: &str, app: &Application, name: &str, tab: &str) -> String {
    let namespace = &app.namespace;
    details(
        app,
        &format!("node={group}%2F{kind}%2F{namespace}%2F{name}%2F0&tab={tab}"),
    )
}

async fn syncs(page: &mut Page) -> Result<()> {
    page.clicks_at(".application-details button:has(.fa-sync), .top-bar button:has(.fa-sync)")
        .await?;
    page.clicks("button", "Synchronize").await
}

async fn it_is_looked_at(stage: &Stage, page: &mut Page, app: &Application) -> Result<()> {
    page.goes(&node("", "ConfigMap", app, workload::NAME, "summary"))
        .await?;
    page.until(EDITOR, &["greeting"], &[]).await?;
    page.goes(&node("", "ConfigMap", app, workload::NAME, "events"))
        .await?;
    page.until(PANEL, &["EVENTS"], &[]).await?;

    let pods = At::pod(&app.namespace, "");
    let pods = stage.spoke(1).list(&pods, "app=greeter").await?;
    let pod = pods
        .first()
        .and_then(|pod| pod["metadata"]["name"].as_str());
    let pod = pod.context("a Pod")?;
    page.goes(&node("", "Pod", app, pod, "exec")).await?;
    page.clicks_at(".pod-terminal-viewer .xterm-screen").await?;
    page.types("echo heard > /proc/1/fd/1\n").await?;
    page.goes(&node("", "Pod", app, pod, "logs")).await?;
    page.until(PANEL, &["heard"], &[]).await?;
    // The panel's streams and those of the page are all six connections that a browser has for an address with HTTP/1.1.
    page.clicks_at(".sliding-panel--opened .sliding-panel__close")
        .await
}

/// A change of another user is a difference after a refresh; a sync takes it back, and an action restarts the Deployment.
async fn it_is_changed(stage: &Stage, page: &mut Page, app: &Application) -> Result<()> {
    let map = At::config_map(&app.namespace, workload::NAME);
    let patched = json!({"data": {"greeting": "patched"}});
    stage.spoke(1).merge(&map, patched).await?;
    page.goes(&details(app, "")).await?;
    page.clicks_at("button:has(.fa-redo)").await?;
    page.until_shows(&["OutOfSync"]).await?;
    page.goes(&node("", "ConfigMap", app, workload::NAME, "summary"))
        .await?;
    page.until(PANEL, &["DIFF"], &[]).await?;
    page.goes(&details(app, "")).await?;
    syncs(page).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    stage.until_greets(1, &app.namespace, "hello").await?;

    let deployment = At::deployment(&app.namespace, workload::NAME);
    page.goes(&node("apps", "Deployment", app, workload::NAME, "summary"))
        .await?;
    page.clicks_at(".resource-details__header .fa-ellipsis-v")
        .await?;
    page.clicks_at(".argo-dropdown__content.opened :text-matches('^ *restart', 'i')")
        .await?;
    page.clicks("button", "OK").await?;
    let is_restarted = |it: &Value| {
        let annotations = &it["spec"]["template"]["metadata"]["annotations"];
        annotations["kubectl.kubernetes.io/restartedAt"].is_string()
    };
    let spoke = stage.spoke(1);
    let restarted = spoke.until(&deployment, "is restarted", SOON, is_restarted);
    restarted.await.map(drop)
}

/// The cluster page of Argo CD's settings shows the cluster as connected, and the add-on's pages are in the menu.
async fn the_pages_are_beside(page: &mut Page) -> Result<()> {
    page.goes("/settings/clusters").await?;
    page.until_shows(&["spoke1", "Successful"]).await?;
    page.goes("/applications").await?;
    page.until_shows(&["Fleet"]).await.map(drop)
}

async fn it_is_deleted(stage: &Stage, page: &mut Page, app: &Application) -> Result<()> {
    page.goes(&details(app, "")).await?;
    page.clicks_at("button:has(.fa-times-circle)").await?;
    page.fills_at(".popup-container input.argo-field", app.at.name())
        .await?;
    page.clicks("button", "OK").await?;
    stage.hub.until_gone(&app.at, SOON).await?;
    let deployment = At::deployment(&app.namespace, workload::NAME);
    stage.spoke(1).until_gone(&deployment, SOON).await?;
    stage.clear(app).await
}

/// An account that may only see is refused a sync; and with the agent cut off in the middle, the last known tree stays, and a live manifest
/// names the reason.
pub(crate) async fn limited_account_and_lost_agent_in_the_real_ui(stage: &Stage) -> Result<()> {
    let ui = Ui::open(stage).await?;
    let app = greeter(stage, "ui-limited").await?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let policy = format!("p, {ACCOUNT}, applications, get, ui-limited/*, allow\n");
    set(stage, "argocd-cm", json!({"accounts.ui-reader": "login"})).await?;
    set(stage, "argocd-rbac-cm", json!({"policy.csv": policy})).await?;
    let reader = ui.console.for_account(stage, ACCOUNT).await?;
    let mut page = ui.page_of(&reader, Theme::Light).await?;
    page.goes(&details(&app, "")).await?;
    page.until(TREE, &[workload::NAME], &[]).await?;
    syncs(&mut page).await?;
    page.until_shows(&["permission denied"]).await?;

    stage.lab.faults().set("spoke1", Fault::Cut);
    let away = async {
        page.goes(&details(&app, "")).await?;
        page.until(TREE, &[workload::NAME], &[]).await?;
        let target = "/api/v1/applications/ui-limited/resource";
        let query = format!(
            "appNamespace=spoke1&namespace=ui-limited&resourceName={}&version=v1&kind=ConfigMap",
            workload::NAME
        );
        let (status, body) = page
            .asks(
                &format!("{target}?{query}"),
                ("spoke1", "ui-limited"),
                "ui-limited",
            )
            .await?;
        ensure!(
            status >= 400 && body.contains("not connected"),
            "{status}: {body}"
        );
        anyhow::Ok(())
    };
    let away = away.await;
    stage.lab.faults().heal("spoke1");
    away?;
    enrol::until_available(&stage.hub, "spoke1").await?;
    set(stage, "argocd-cm", json!({"accounts.ui-reader": null})).await?;
    set(stage, "argocd-rbac-cm", json!({"policy.csv": null})).await?;
    stage.clear(&app).await
}
