//! Sync, terminate and refresh: asked for on the hub, done on the spoke.

use anyhow::{Result, ensure};
use lab::{peers::Pair, steps::deliver};
use serde_json::{Value, json};

use super::{Replicated, SOON};

const REFRESH: &str = "argocd.argoproj.io/refresh";

pub(crate) async fn a_sync_runs_once_and_its_result_comes_back(pair: &mut Pair) -> Result<()> {
    let app = Replicated::new(pair, "app");
    app.deliver(pair, &[]).await?;
    app.set_status(pair, "OutOfSync", "Missing").await?;
    app.until_status(pair, "OutOfSync", "Missing").await?;
    for revision in ["one", "two"] {
        deliver::ask_for_sync(&pair.hub, &app.hub, revision).await?;
        take(pair, &app, revision).await?;
        let running = |hub: &Value| {
            hub["status"]["operationState"]["phase"] == "Running" && hub["operation"].is_null()
        };
        pair.hub
            .until(&app.hub, "shows that the sync runs", SOON, running)
            .await?;

        let patch = json!({"status": {"operationState": {
            "phase": "Succeeded", "finishedAt": "2026-01-01T00:00:09Z", "message": revision}}});
        pair.spoke.merge(&app.spoke, patch).await?;
        let done = |hub: &Value| {
            let state = &hub["status"]["operationState"];
            state["phase"] == "Succeeded"
                && state["message"] == revision
                && hub["operation"].is_null()
        };
        pair.hub
            .until(&app.hub, "shows that the sync is done", SOON, done)
            .await?;
    }
    // No later message may restore an operation.
    app.set_revision(pair, "v2").await?;
    let replica = app.until_revision(pair, "v2").await?;
    ensure!(replica["operation"].is_null(), "{replica:#}");
    Ok(())
}

pub(crate) async fn a_running_sync_is_terminated(pair: &mut Pair) -> Result<()> {
    let app = Replicated::new(pair, "app");
    app.deliver(pair, &[]).await?;
    deliver::ask_for_sync(&pair.hub, &app.hub, "one").await?;
    take(pair, &app, "one").await?;
    let running = |hub: &Value| hub["status"]["operationState"]["phase"] == "Running";
    pair.hub
        .until(&app.hub, "shows that the sync runs", SOON, running)
        .await?;

    let terminate = json!({"status": {"operationState": {"phase": "Terminating"}}});
    pair.hub.merge(&app.hub, terminate).await?;
    let is_terminating =
        |replica: &Value| replica["status"]["operationState"]["phase"] == "Terminating";
    pair.spoke
        .until(&app.spoke, "is asked to terminate", SOON, is_terminating)
        .await?;

    let patch = json!({"status": {"operationState": {"phase": "Failed", "message": "Operation terminated"}}});
    pair.spoke.merge(&app.spoke, patch).await?;
    let failed = |hub: &Value| hub["status"]["operationState"]["phase"] == "Failed";
    pair.hub
        .until(&app.hub, "shows that the sync was terminated", SOON, failed)
        .await?;
    Ok(())
}

pub(crate) async fn a_refresh_is_asked_for_and_done(pair: &mut Pair) -> Result<()> {
    let app = Replicated::new(pair, "app");
    app.deliver(pair, &[]).await?;
    let ask = json!({"metadata": {"annotations": {REFRESH: "hard"}}});
    pair.hub.merge(&app.hub, ask).await?;
    let asked = |replica: &Value| replica["metadata"]["annotations"][REFRESH] == "hard";
    pair.spoke
        .until(&app.spoke, "is asked to refresh", SOON, asked)
        .await?;

    let patch = json!({
        "metadata": {"annotations": {REFRESH: null}},
        "status": {"sync": {"status": "Synced"}, "health": {"status": "Healthy"},
            "reconciledAt": "2026-01-01T00:00:01Z"},
    });
    pair.spoke.merge(&app.spoke, patch).await?;
    let done = |hub: &Value| {
        hub["metadata"]["annotations"][REFRESH].is_null()
            && hub["status"]["reconciledAt"] == "2026-01-01T00:00:01Z"
    };
    pair.hub
        .until(&app.hub, "shows that the refresh is done", SOON, done)
        .await?;
    app.set_revision(pair, "v2").await?;
    let replica = app.until_revision(pair, "v2").await?;
    ensure!(
        replica["metadata"]["annotations"][REFRESH].is_null(),
        "the refresh came back"
    );
    Ok(())
}

/// Waits for an operation on the spoke and begins it, as the application controller does.
async fn take(pair: &Pair, app: &Replicated, revision: &str) -> Result<()> {
    let asked = |replica: &Value| replica["operation"]["sync"]["revision"] == revision;
    let replica = pair
        .spoke
        .until(&app.spoke, "is asked to sync", SOON, asked)
        .await?;
    ensure!(
        replica["operation"]["initiatedBy"]["username"] == "a-user",
        "{replica:#}"
    );
    let begin = json!({"operation": null, "status": {"operationState": {
        "operation": replica["operation"], "phase": "Running", "message": null, "finishedAt": null,
        "startedAt": "2026-01-01T00:00:00Z"}}});
    pair.spoke.merge(&app.spoke, begin).await.map(drop)
}
