//! Much at once: an Application with a status as large as there can be, and a thousand Applications of one cluster.

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use lab::{
    argocd,
    steps::{At, deliver, enrol::ARGOCD},
};
use serde_json::{Value, json};

use crate::{
    programs::Program,
    stage::{SOON, Stage},
};

/// How many Applications the one cluster gets.
const MANY: usize = 1_000;
/// How many requests of a test are under way at once.
const HANDS: usize = 16;

/// etcd's limit for one object is 1.5 MiB; this leaves room for the spec and for managed fields.
const LARGE: usize = 1_400_000;

/// Stops or starts Argo CD's controller on spoke1, which would look at everything and write over a status.
async fn controllers(stage: &Stage, count: u8) -> Result<()> {
    let controller = At::stateful_set(ARGOCD, argocd::CONTROLLER);
    let replicas = json!({"spec": {"replicas": count}});
    stage.spoke(1).merge(&controller, replicas).await?;
    let runs = |set: &Value| {
        set["status"]["readyReplicas"].as_u64().unwrap_or_default() == u64::from(count)
    };
    let what = format!("has {count} replicas");
    stage
        .spoke(1)
        .until(&controller, &what, lab::wait::BOUND, runs)
        .await
        .map(drop)
}

/// A status of 1.4 MB arrives on the hub whole.
pub(crate) async fn a_status_as_large_as_there_can_be_arrives(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let app = stage.greeter("large-status", 1).await?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    controllers(stage, 0).await?;
    let resource = |number: usize| {
        json!({
            "version": "v1",
            "kind": "ConfigMap",
            "namespace": "large-status",
            "name": format!("{number:0>200}"),
            "status": "Synced",
        })
    };
    let each = resource(0).to_string().len() + 1;
    let resources: Vec<_> = (0..LARGE / each).map(resource).collect();
    let replica = Stage::replica("large-status");
    let status = json!({"status": {"resources": resources}});
    stage.spoke(1).merge(&replica, status).await?;
    let whole = |app: &Value| app["status"]["resources"].as_array() == Some(&resources);
    let what = "has all resources";
    let seen = stage
        .hub
        .until(&app.at, what, lab::wait::BOUND, whole)
        .await?;
    let size = seen["status"].to_string().len();
    ensure!(size > LARGE - each, "a status of {size} bytes");
    controllers(stage, 1).await?;
    // The controller restores the real status.
    stage.refresh(&app.at, "large-status").await?;
    let short = |app: &Value| {
        app["status"]["resources"]
            .as_array()
            .is_some_and(|all| all.len() < 10)
    };
    let what = "has its own resources again";
    stage
        .hub
        .until(&app.at, what, lab::wait::BOUND, short)
        .await?;
    stage.clear(&app).await
}

/// A thousand Applications for one cluster are made, changed and removed, and its agent stays the same.
pub(crate) async fn a_thousand_applications_of_one_cluster_come_and_go(
    stage: &Stage,
) -> Result<()> {
    stage.enrolled(1).await?;
    deliver::allow(&stage.hub, "thousand", "spoke1").await?;
    controllers(stage, 0).await?;
    let programs = [
        Program::Manager.running(stage).await?,
        Program::Agent(1).running(stage).await?,
    ];
    let at = |number: usize| At::application("spoke1", &format!("many-{number}"));
    let body = |revision: &str| {
        json!({"metadata": {"labels": {"of": "thousand"}}, "spec": {
            "project": "thousand",
            "source": {"repoURL": "git://git.lab/none.git", "path": ".", "targetRevision": revision},
            "destination": {"name": "in-cluster", "namespace": "thousand"},
        }})
    };
    let each = |revision: &'static str| {
        stream::iter(0..MANY).map(move |number| async move {
            stage.hub.apply(&at(number), body(revision)).await.map(drop)
        })
    };
    each("one")
        .buffer_unordered(HANDS)
        .try_collect::<()>()
        .await?;
    until_there_are(stage, MANY, "one").await?;
    each("two")
        .buffer_unordered(HANDS)
        .try_collect::<()>()
        .await?;
    until_there_are(stage, MANY, "two").await?;
    let gone =
        stream::iter(0..MANY).map(|number| async move { stage.hub.delete(&at(number)).await });
    gone.buffer_unordered(HANDS).try_collect::<()>().await?;
    until_there_are(stage, 0, "two").await?;
    for program in &programs {
        program.still_runs(stage).await?;
    }
    controllers(stage, 1).await?;
    stage.hub.delete(&At::project(ARGOCD, "thousand")).await
}

/// Waits until the spoke has so many of them, all at this revision.
async fn until_there_are(stage: &Stage, count: usize, revision: &str) -> Result<()> {
    let look = || async {
        let all = stage
            .spoke(1)
            .list(&At::application(ARGOCD, ""), "of=thousand")
            .await?;
        let old = all
            .iter()
            .filter(|app| app["spec"]["source"]["targetRevision"] != revision);
        Ok((all.len(), old.count()))
    };
    let what = format!("{count} Applications at {revision:?} on the spoke");
    lab::wait::until_within(SOON * 2, &what, look, |seen| *seen == (count, 0))
        .await
        .map(drop)
        .with_context(|| "all, and all of them changed".to_owned())
}
