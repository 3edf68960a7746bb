//! Events as the hub's Argo CD shows them: of the parts of an Application, and of the Application itself.

use anyhow::{Context as _, Result, ensure};
use lab::{
    steps::{At, workload},
    wait,
};
use serde_json::Value;

use super::line::Console;
use crate::stage::Stage;

/// What happened to a part of the Application is told by its cluster, what people asked for by the hub, and what the controller on
/// the cluster noted of the Application by both, once somebody has looked at it.
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
    let what = "that somebody has synced is an Event on the hub";
    wait::until(what, look, has("OperationStarted")).await?;
    what_its_controller_noted_is_seen(stage, console, "spoke1", "console").await
}

/// That a sync has ended is noted by the application controller on the cluster, and an Event of the hub's Application when
/// somebody has looked at its page, once however often that is done.
pub(super) async fn what_its_controller_noted_is_seen(
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
    let what = "what the controller on the cluster noted is an Event on the hub";
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
