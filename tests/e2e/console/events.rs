//! Events in the hub's Argo CD: of the resources of an Application, and of the Application itself.

use anyhow::{Context as _, Result, ensure};
use lab::{
    steps::{At, workload},
    wait,
};
use serde_json::Value;

use super::line::Console;
use crate::stage::Stage;

/// The hub shows Events of a resource from the cluster, Events of user requests from the hub, and Events that the cluster's
/// controller recorded for the Application.
pub(super) async fn its_events_are_seen(stage: &Stage, console: &Console) -> Result<()> {
    let app = "/api/v1/applications/console";
    let deployment = At::deployment("console", workload::NAME);
    let deployment = stage.spoke(1).read(&deployment).await?;
    let uid = deployment["metadata"]["uid"].as_str().context("a UID")?;
    let of_part = format!(
        "{app}/events?appNamespace=spoke1&resourceNamespace=console&resourceName={}&resourceUID={uid}",
        workload::NAME
    );
    let reasons = |list: &Value| -> Vec<String> {
        let all = list["items"].as_array().into_iter().flatten();
        all.filter_map(|it| it["reason"].as_str().map(str::to_owned))
            .collect()
    };
    let has = |reason: &'static str| move |all: &Vec<String>| all.iter().any(|it| it == reason);
    let look = async || Ok(reasons(&console.gets(stage, &of_part).await?));
    let what = "the Events of a Deployment are seen";
    wait::until(what, look, has("ScalingReplicaSet")).await?;

    let of_app = format!("{app}/events?appNamespace=spoke1");
    let look = async || Ok(reasons(&console.gets(stage, &of_app).await?));
    let what = "the sync of a user is an Event on the hub";
    wait::until(what, look, has("OperationStarted")).await?;
    controller_events_are_shown(stage, console, "spoke1", "console").await
}

/// The application controller on the cluster records the end of a sync. When a user opens the page of the Application, the
/// hub shows that Event, once however often the page is opened.
pub(super) async fn controller_events_are_shown(
    stage: &Stage,
    console: &Console,
    cluster: &str,
    app: &str,
) -> Result<()> {
    let tree = format!("/api/v1/applications/{app}/resource-tree?appNamespace={cluster}");
    let events = format!("/api/v1/applications/{app}/events?appNamespace={cluster}");
    let noted = |list: &Value| {
        let all = list["items"].as_array().into_iter().flatten();
        let of_cluster = all.filter(|it| it["source"]["host"] == cluster);
        let ended = of_cluster.filter(|it| it["reason"] == "OperationCompleted");
        ended.cloned().collect::<Vec<_>>()
    };
    let look = async || {
        console.gets(stage, &tree).await?;
        Ok(noted(&console.gets(stage, &events).await?))
    };
    let what = "an Event of the cluster's controller is shown on the hub";
    let seen = wait::until(what, look, |seen| !seen.is_empty()).await?;
    for event in &seen {
        ensure!(event["involvedObject"]["namespace"] == cluster, "{event}");
        let the_same = |it: &&Value| {
            ["message", "lastTimestamp"]
                .iter()
                .all(|field| it[field] == event[field])
        };
        ensure!(
            seen.iter().filter(the_same).count() == 1,
            "doubled: {seen:#?}"
        );
    }
    Ok(())
}
